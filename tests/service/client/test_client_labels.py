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
@pytest.mark.parametrize("place", [0, 10, -1])
def test_a_share_that_was_changed_is_refused_and_names_no_label(parties, deployed, finished, server, place):
    def changed_there(share):
        altered = bytearray(share)
        altered[place] ^= 1
        return bytes(altered)

    getattr(deployed, server).fault("GET .*/labels/0", changed(changed_there))
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
