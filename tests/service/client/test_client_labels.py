"""Label shares of the two servers: put together where they fit, and refused where they do not."""

import pytest

from sedml.errors import CheatingError, JobStateError, ServerError, ShareError
from support.client_parties import Job
from support.wire import changed


@pytest.fixture
def finished(parties, deployed, data_file):
    """A job with labels to fetch."""

    def run():
        job = Job(parties, data_file)
        parties.requester("run", job.id)
        return job

    return deployed.prepared("finished", run)


@pytest.mark.parametrize("server", ["s0", "s1"])
@pytest.mark.parametrize("place", [0, 30, -1])
def test_label_shares_that_do_not_fit_each_other_are_refused(parties, deployed, finished, server, place):
    def flip(share):
        changed = bytearray(share)
        changed[place] ^= 1
        return bytes(changed)

    getattr(deployed, server).fault("GET .*/labels/0", changed(flip))
    with pytest.raises(CheatingError, match="do not fit together"):
        parties.requester("labels", finished.id)


@pytest.mark.parametrize("change", [lambda c: c[:-1], lambda c: c + b"\0", lambda c: b"", lambda c: c[:1]])
def test_label_shares_of_the_wrong_size_are_refused(parties, deployed, finished, change):
    deployed.s1.fault("GET .*/labels/0", changed(change))
    with pytest.raises((ShareError, ServerError)):
        parties.requester("labels", finished.id)


def test_labels_that_are_not_there_yet_or_no_more(parties, deployed, data_file):
    job = Job(parties, data_file)
    with pytest.raises(JobStateError, match="no labels yet"):
        parties.requester("labels", job.id)
    parties.requester("run", job.id)
    view = parties.requester("delete", job.id)
    assert view.s0.deleted
    assert view.s1.deleted
    assert parties.requester("delete", job.id).s0.deleted
    with pytest.raises(JobStateError, match="deleted"):
        parties.requester("labels", job.id)
