"""A server changes its label shares on their way, and watches the requester: it is refused, and does the same every time.

If the requester took some labels, complained otherwise, asked again or did anything else for some changes than for others, the
server would learn something of labels that only the requester may know.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sedml.errors import CheatingError
from sedml.protocol.labels import LabelShare, from_bytes, to_bytes
from sedml.protocol.task import Task
from support.client_parties import Job, Parties
from support.stage import deployed, kits, provisioned, stage
from support.wire import changed

__all__ = ["deployed", "kits", "provisioned", "stage"]


@pytest.fixture
def parties(kits):
    return Parties(kits, False)


def flipped(part: str, *places: int):
    def change(share: LabelShare) -> LabelShare:
        values = getattr(share, part).copy()
        values[list(places)] ^= values.dtype.type(1)
        return replace(share, **{part: values})

    return change


def outputs_of(task: Task, sample: int) -> list[int]:
    """Where the bits of a sample are: whether there is a label, and those of its index."""
    half = -(-task.samples // 2)
    side, at = divmod(sample, half)
    return [(side * (1 + task.index_width) + bit) * half + at for bit in range(1 + task.index_width)]


def changes_of(task: Task, labels: np.ndarray) -> dict[str, object]:
    """Of a sample with each label, and of one with none: no label, another one, one that does not exist."""
    found = {
        "the Delta": lambda share: replace(share, delta=np.uint64(share.delta ^ np.uint64(2))),
        "the digest": flipped("digest", 3),
        "a key": flipped("keys", 3),
    }
    for label in sorted(set(labels.tolist())):
        there, *index = outputs_of(task, int(np.flatnonzero(labels == label)[0]))
        for part in ("own", "public"):
            found[f"{part}: whether sample of {label} has a label"] = flipped(part, there)
            found[f"{part}: another label than {label}"] = flipped(part, index[0])
            found[f"{part}: all of {label}"] = flipped(part, there, *index)
    return found


def test_the_requester_does_the_same_whatever_is_changed(parties, deployed):
    job = Job(parties, np.arange(50, dtype=np.float32))
    labels = parties.requester("run", job.id).labels
    task = deployed.task(job.id)
    assert set(labels) == {-1, 0, 1, 2}
    watched, said = {}, set()
    for server in deployed.servers:
        for name, change in changes_of(task, labels).items():
            for one in deployed.servers:
                one.calm()
            server.fault("GET .*/labels/0", changed(in_bytes(task, change)))
            with pytest.raises(CheatingError) as refused:
                parties.requester("labels", job.id)
            said.add(str(refused.value))
            watched[server.name, name] = [[*map(request, one.seen)] for one in deployed.servers]
    first, *others = watched.values()
    assert all(requests == first for requests in others)
    assert len(said) == 1
    for one in deployed.servers:
        one.calm()
    assert np.array_equal(parties.requester("labels", job.id), labels)


def in_bytes(task: Task, change):
    return lambda document: to_bytes(task, change(from_bytes(task, task.samples, document)))


def request(seen) -> tuple[str, bytes, list[tuple[str, str]]]:
    return str(seen), seen.body, seen.headers.multi_items()
