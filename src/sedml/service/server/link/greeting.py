"""A greeting: S1 calls S0 about no job in particular, when it starts and every ten seconds.

1. `clock`: each says what time it is (`believed_time`).
2. `unfinished`: each says how many jobs it has that are not over; then which, and on which of them it has a roster.

S1 then calls about those of which the two know different things: because a store was put back to an older state, or
because one of them had ended a job when the other had not heard of it.

Then the two measure how far apart they are (`link_delay`): `link/ping` is empty, and in `link/took` each says how long
that took. Last, each shows the other its log, to be cosigned (`cosigning`).
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.channel import Channel
from sedml.service.server.jobs.records import in_states
from sedml.service.server.link.cosigning import cosign
from sedml.service.server.node import Node, now
from sedml.service.states import UNDER_WAY, UNFINISHED

NO_JOB = "00" * 16
"""What S1 calls about."""
_MOST = 4096
_ID = 16


def greet(node: Node, channel: Channel) -> None:
    """Either server's side."""
    channel.turn_to(bytes.fromhex(NO_JOB))
    [theirs] = channel.exchange(0, "clock", [np.array([now(node)])])
    node.time.hear(float(theirs[0]))
    node.peer.hear()
    with node.store.read() as connection:
        mine = {record.id: record for record in in_states(connection, UNFINISHED)[:_MOST]}
    rows = [bytes.fromhex(record.id) + bytes([record.roster is not None]) for record in mine.values()]
    [count] = channel.exchange(0, "unfinished", [np.array([len(rows)], np.uint32)])
    many = min(int(count[0]), _MOST)
    table = np.zeros((max(len(rows), many), _ID + 1), np.uint8)
    table[: len(rows)] = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, _ID + 1)
    [came] = channel.exchange(0, "jobs", [table])
    if node.role == 1:
        agreed = {row[:_ID].tobytes().hex(): bool(row[_ID]) for row in came[:many]}
        waiting = {job for job, record in mine.items() if record.state not in UNDER_WAY}
        known_there = {job for job in agreed if job not in waiting or agreed[job]}
        node.peer.differs_on(known_there | (mine.keys() - agreed.keys()))
        node.wake()
    start = node.steady()
    channel.exchange(0, "link/ping", [np.empty(0, np.uint8)])
    took = node.steady() - start
    [theirs] = channel.exchange(0, "link/took", [np.array([took])])
    node.link_delay.note(took, float(theirs[0]))
    node.peer.hear()  # on a slow link that has taken a while
    cosign(node, channel)
