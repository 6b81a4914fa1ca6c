"""Two servers whose jobs have many small blocks, and which meet hundreds of times in a test."""

from functools import cache

import pytest

from sedml.mpc.ot import fresh_deltas
from sedml.protocol import task as task_module
from sedml.service import terms
from sedml.service.server.live.link_delay import LinkDelay
from sedml.service.server.run import meeting
from support.deployment import deployment
from support.open_base_ots import open_base_ots

# All jobs here cost the same few amounts, and to find one takes as long as to run a block.
_job_report = cache(terms.job_report)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)
    monkeypatch.setattr(terms, "job_report", _job_report)


@pytest.fixture
def far_apart(monkeypatch):
    """The link is so long that three blocks are under way at a time, where a job has as many."""
    monkeypatch.setattr(LinkDelay, "seconds", 0.1)
    monkeypatch.setattr(meeting, "blocks_under_way", lambda *_: 3)


@pytest.fixture
def newly_set_up(tmp_path):
    """They make their base transfers as they do outside of tests."""
    made = deployment(tmp_path, keep_inputs="1d")
    yield made
    made.close()


@pytest.fixture
def deployed(newly_set_up, monkeypatch):
    """The same, with base transfers that take no time."""
    monkeypatch.setattr(fresh_deltas, "base_ots", open_base_ots)
    return newly_set_up
