"""Which protocol a job gets: the one asked for, or the faster one on the link; both give the labels that are due."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sedml.errors import TaskError, UnreachableError
from sedml.service.client.choosing import link_between
from sedml.service.messages import ServerInfo
from support.client_parties import Job, records
from support.wire import Fail

FAR, NEAR = (0.1, 1e9), (0.0001, 1e6)


@pytest.fixture
def linked(deployed, monkeypatch):
    """Sets what both servers have measured: seconds and bits a second."""

    def put(*links):
        for server, (delay, bits) in zip(deployed.servers, links * (2 // len(links)), strict=True):
            monkeypatch.setattr(server.node.link_figures, "delays", () if delay is None else (delay,))
            monkeypatch.setattr(server.node.link_figures, "bits", bits)

    return put


@pytest.mark.parametrize("protocol", ["fused", "garbled"])
def test_both_protocols_give_the_labels_that_are_due(parties, deployed, data_file, protocol):
    job = Job(parties, data_file, protocol=protocol)
    result = parties.requester("run", job.id)
    assert result.task.protocol == result.job.terms.protocol == protocol
    assert np.array_equal(result.labels, deployed.expected(job.id, job.votes))
    deployed.check_run_once(job.id, result.labels)


def test_far_servers_get_few_rounds_and_near_ones_few_bytes(parties, linked, data_file):
    linked(FAR)
    view = parties.create(data_file)
    assert view.terms.protocol == "garbled"
    assert view.protocol_reason.endswith("100 ms and 1,000 Mbit/s between the servers")
    assert "fused" in view.protocol_reason
    linked(NEAR)
    view = parties.create(data_file, title="another")
    assert view.terms.protocol == "fused"
    assert "0.1 ms" in view.protocol_reason


def test_the_worse_of_what_both_say_counts(parties, linked, data_file):
    linked(NEAR, FAR)
    assert parties.create(data_file).terms.protocol == "garbled"


def test_servers_that_have_not_measured_get_the_one_that_always_works(parties, linked, data_file):
    linked((None, None))
    view = parties.create(data_file)
    assert (view.terms.protocol, "not measured" in view.protocol_reason) == ("fused", True)
    linked(FAR, (None, None))
    assert parties.create(data_file, title="another").terms.protocol == "fused"


@pytest.mark.parametrize("protocol", ["fused", "garbled"])
def test_what_is_asked_for_is_what_the_job_gets_on_any_link(parties, linked, data_file, protocol):
    linked(NEAR if protocol == "garbled" else FAR)
    view = parties.create(data_file, protocol=protocol)
    assert (view.terms.protocol, view.protocol_reason) == (protocol, "as asked for")


@pytest.mark.parametrize("protocol", ["paper", "", None, 1, "Fused"])
def test_a_protocol_that_there_is_not_is_refused_before_a_server_is_called(parties, deployed, data_file, protocol):
    with pytest.raises(TaskError, match="protocol"):
        parties.create(data_file, protocol=protocol)
    assert deployed.s0.jobs == []


def test_a_creation_that_broke_off_goes_on_with_the_protocol_that_it_had(parties, deployed, linked, data_file, kits):
    linked(FAR)
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    linked(NEAR)
    view = parties.create(data_file)
    assert list(records(kits)) == [view.id]
    assert view.terms.protocol == "garbled"
    assert "100 ms" in view.protocol_reason


def test_one_that_was_asked_for_by_name_is_another_request(parties, deployed, linked, data_file, kits):
    linked(NEAR)
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    assert parties.create(data_file, protocol="garbled").terms.protocol == "garbled"
    assert len(records(kits)) == 2


def test_a_draft_of_an_older_release_is_continued(parties, deployed, linked, data_file, kits):
    linked(NEAR)
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    [(job, record)] = records(kits).items()
    del record["protocol"], record["protocol_reason"]
    (kits / "requester-1" / "jobs" / f"{job}.json").write_text(json.dumps(record))
    linked(FAR)
    assert parties.create(data_file).id == job


@pytest.mark.parametrize(("delay", "mbit"), [(float("nan"), 1.0), (1.0, float("inf")), (None, 1.0), (1.0, None)])
def test_figures_of_no_use_are_as_good_as_none(delay, mbit):
    sane = _info(20.0, 50.0)
    assert link_between([sane, _info(delay, mbit)]) is None
    link = link_between([sane, _info(-3.0, 0.0)])
    assert (link.delay, link.bandwidth) == (0.02, 1e4)


def _info(delay, mbit):
    return ServerInfo.model_construct(link_delay_ms=delay, link_mbit=mbit)


def test_the_choice_is_the_same_for_an_array(parties, linked):
    linked(FAR)
    assert parties.create(np.zeros((20, 3)), classes=2).terms.protocol == "garbled"
