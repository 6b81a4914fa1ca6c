"""A server changes its label shares, or mixes those of two blocks, and watches what the requester does.

If the requester did something else depending on a label, the server would learn it. It refuses every share that was
changed, in the same words and after the same requests, whatever the labels are.
"""

from __future__ import annotations

import numpy as np
import pytest

from sedml.errors import CheatingError
from support.client_parties import Job, Parties
from support.stage import deployed, kits, provisioned, stage
from support.wire import changed

__all__ = ["deployed", "kits", "provisioned", "stage"]


@pytest.fixture
def parties(kits):
    return Parties(kits, False)


def test_the_requester_does_the_same_whatever_is_changed(parties, deployed):
    job = Job(parties, np.arange(50, dtype=np.float32))
    labels = parties.requester("run", job.id).labels
    assert set(labels) == {-1, 0, 1, 2}
    [size] = {len(share(server, job.id)) for server in deployed.servers}
    watched, said = {}, set()
    for server in deployed.servers:
        for place in np.linspace(0, size - 1, 40).astype(int):
            for one in deployed.servers:
                one.calm()
            server.fault("GET .*/labels/0", changed(flipping(int(place))), times=1)
            with pytest.raises(CheatingError) as caught:
                parties.requester("labels", job.id)
            said.add(str(caught.value))
            watched[server.name, place] = [[*map(request, one.seen)] for one in deployed.servers]
    first, *others = watched.values()
    assert all(requests == first for requests in others)
    assert len(said) == 1
    assert "S0" not in said.pop()


def share(server, job: str) -> bytes:
    from sedml.service.server.jobs import lifecycle
    from support.deployment import REQUESTER

    return lifecycle.label_share(server.node, REQUESTER, job, 0)


def flipping(place: int):
    """The label share of a block with one bit changed."""

    def change(document: bytes) -> bytes:
        return document[:place] + bytes([document[place] ^ 1]) + document[place + 1 :]

    return change


def request(seen) -> tuple[str, bytes, list[tuple[str, str]]]:
    return str(seen), seen.body, seen.headers.multi_items()
