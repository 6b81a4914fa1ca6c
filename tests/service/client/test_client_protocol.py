"""A job gets the protocol that was asked for, whatever its servers say of their link; both give the labels due."""

from __future__ import annotations

import numpy as np
import pytest

from sedml.errors import TaskError, UnreachableError
from support.client_parties import Job, records
from support.wire import Fail


@pytest.mark.parametrize("protocol", ["fused", "garbled"])
def test_both_protocols_give_the_labels_that_are_due(parties, deployed, data_file, protocol):
    job = Job(parties, data_file, protocol=protocol)
    result = parties.requester("run", job.id)
    assert result.task.protocol == result.job.terms.protocol == protocol
    assert np.array_equal(result.labels, deployed.expected(job.id, job.votes))
    deployed.check_run_once(job.id, result.labels)


def test_what_servers_say_of_their_link_chooses_nothing(parties, deployed, data_file):
    for server in deployed.servers:
        server.node.link_delay.note(10.0, 10.0)
    assert parties.create(data_file).terms.protocol == "fused"


@pytest.mark.parametrize("protocol", ["auto", "paper", "", None, 1, "Fused"])
def test_a_protocol_that_there_is_not_is_refused_before_a_server_is_called(parties, deployed, data_file, protocol):
    with pytest.raises(TaskError, match="protocol"):
        parties.create(data_file, protocol=protocol)
    assert deployed.s0.jobs == []


def test_one_with_another_protocol_is_another_request(parties, deployed, data_file, kits):
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    assert parties.create(data_file, protocol="garbled").terms.protocol == "garbled"
    assert len(records(kits)) == 2
