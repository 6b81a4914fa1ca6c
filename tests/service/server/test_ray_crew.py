"""Blocks of a job on a real Ray cluster, of a head and a second node, on this machine."""

import os
import shutil
import tempfile
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from sedml.errors import InputError, KitError, MissingExtraError, WorkerGoneError
from sedml.protocol import task as task_module
from sedml.service.server import foreman, ray_crew
from sedml.service.server.crew import LocalCrew
from sedml.service.server.ray_crew import RayCrew, open_crew
from support.driven import CountedVote, driven, linked
from support.kept_base_ots import kept_base_ots
from support.ray_cluster import ray_cluster
from support.server_process import until

BLOCKS = 16
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)")
pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 8)
    monkeypatch.setattr("sedml.mpc.ot.base_ot.base_ots", kept_base_ots())


@pytest.fixture(scope="module")
def cluster():
    folder = tempfile.mkdtemp(prefix="ray-")  # the names of Ray's sockets must not be long
    with ray_cluster(Path(folder)) as running:
        yield running
        shutil.rmtree(folder, ignore_errors=True)


def working_on(nodes):
    """By server, the processes that a worker of it has been in."""


@needs_ray
def test_tasks_find_the_labels_though_a_node_is_killed(tmp_path, cluster, monkeypatch):
    hired, hire, reached, save = [], RayCrew.hire, threading.Event(), foreman.blocks.save

    def counted(self):
        hired.append(self)
        return hire(self)

    def noticed(node, record, block, *rest):
        save(node, record, block, *rest)
        if block.index == 4:
            reached.set()

    monkeypatch.setattr(RayCrew, "hire", counted)
    monkeypatch.setattr(foreman.blocks, "save", noticed)
    with linked(tmp_path, compute=cluster.address) as deployed:
        vote = CountedVote(deployed, 8 * BLOCKS)
        with driven(deployed) as runners:
            until(lambda: all(runner._crew.size(1) for runner in runners), "Ray answers")
            vote.close()
            assert reached.wait(60)
            cluster.kill_second_node()
            vote.finish()
    assert len(hired) >= 2 * BLOCKS
