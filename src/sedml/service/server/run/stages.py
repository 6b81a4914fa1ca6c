"""Where two servers that meet about a job have it, and what follows from that before they can run it.

`position`: each says how far it has the job, whether it has a roster, and which version of the protocol it speaks.

- One is not there yet (the vote is still open): they part and try later.
- One has ended the job without a result: so does the other, and both say `over` once that is on disk.
- One does not know the job: nothing can come of it at the other, if it has closed it.
- One is not where it must have been (a roster takes both, and so does being done): its store was put back to an older
  state, and the job is over.
- Both have closed it: they agree on a roster (`roster`), if they have none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum

import numpy as np

from sedml.errors import ChannelError, JobError, ReplayError
from sedml.mpc.channel import Channel
from sedml.protocol.block import PROTOCOL_VERSION
from sedml.service.server.jobs.records import Record, find, update
from sedml.service.server.node import Node
from sedml.service.server.run.roster import agree_roster, refuse
from sedml.service.states import ENDED, ENDED_WITHOUT_RESULT, JobState


class Stage(IntEnum):
    """Where a server has a job, as it tells the other one."""

    UNKNOWN = 0
    WAITING = 1
    CLOSED = 2
    DONE = 3
    OVER = 4


_STAGES = {
    JobState.CREATED: Stage.WAITING,
    JobState.OPEN: Stage.WAITING,
    JobState.CLOSED: Stage.CLOSED,
    JobState.RUNNING: Stage.CLOSED,
    JobState.DONE: Stage.DONE,
}
_BEHIND = {Stage.UNKNOWN, Stage.WAITING}


class Standing(IntEnum):
    """What two servers can do about a job now."""

    WAIT = 0
    RUN = 1
    OVER = 2


def compare_positions(node: Node, job: str, channel: Channel) -> tuple[Standing, Record | None]:
    """This server's side, up to a roster that both have; and the job as it then is here."""
    with node.store.read() as connection:
        record = find(connection, job)
    # One roster after the other: two jobs that compete for a budget must not each win at one server. It is S1 that
    # calls, so S1 decides on the order before it says anything, and S0 only has to end with one before the next.
    turn = node.roster_turn if record is None or record.roster is None else nullcontext()
    with turn if node.role == 1 else nullcontext():
        return _compare(node, record, channel, turn if node.role == 0 else nullcontext())


def _compare(
    node: Node, record: Record | None, channel: Channel, turn: AbstractContextManager[object]
) -> tuple[Standing, Record | None]:
    stage = Stage.UNKNOWN if record is None else _STAGES.get(record.state, Stage.OVER)
    agreed = record is not None and record.roster is not None
    [told] = channel.exchange(0, "position", [np.array([stage, agreed, PROTOCOL_VERSION], np.uint8)])
    if told[2] != PROTOCOL_VERSION:
        raise ChannelError(
            f"The other server speaks version {told[2]} of the protocol; this is version {PROTOCOL_VERSION}.",
            "Install the same release on both servers. The job then continues.",
        )
    stages, both_agreed = {stage, Stage(min(int(told[0]), Stage.OVER))}, agreed and bool(told[1])
    if Stage.OVER in stages:
        if record is not None:
            _end_too(node, record)
        channel.exchange(0, "over", [])
        if record is not None and record.state in ENDED_WITHOUT_RESULT:
            with node.store.write() as connection:
                update(connection, record.id, peer_told=True)
        return Standing.OVER, record
    if record is None:
        return Standing.WAIT, None
    one_agreed = agreed or bool(told[1])
    if (one_agreed and stages & _BEHIND) or (Stage.DONE in stages and not both_agreed):
        raise ReplayError(
            "One of the servers does not know how far the job had come.",
            "Its store was restored to an older state. Create a new job.",
        )
    if stages == {Stage.UNKNOWN, Stage.CLOSED}:
        _end_too(node, record)
        return Standing.OVER, record
    if stages & _BEHIND:
        return Standing.WAIT, record
    if not both_agreed:
        with turn:
            record = agree_roster(node, record, channel)
    return Standing.OVER if record.state in ENDED_WITHOUT_RESULT else Standing.RUN, record


def _end_too(node: Node, record: Record) -> None:
    """The other server has ended the job without a result, or has never heard of it."""
    if record.state is JobState.RUNNING:
        raise ReplayError("The other server has given up the job.", "Ask for its status there. Create a new job.")
    if record.state not in ENDED:
        reason = JobError("The other server has ended the job.", "Ask for its status there. Nothing was opened here.")
        refuse(node, record, reason)
