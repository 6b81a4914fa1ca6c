"""A server that cheats: it runs the real code of a meeting, lies where it likes, hears everything, and hangs up.

It is held by nothing on its disk, and writes nothing there: it says that it has every block where it likes, and begins
as often as it is let.
What the other server sends it, and what becomes of the job there, is what an attack has to work with.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from unittest.mock import patch

import numpy as np

from sedml.errors import PeerGoneError
from sedml.mpc.channel import memory_pair
from sedml.protocol.task import Block
from sedml.service.server.jobs import charges
from sedml.service.server.run import blocks, meeting
from sedml.service.server.run.repetition import Row
from sedml.service.server.run.runner import attempt
from support.deployment import Deployment

__all__ = ["Heard", "Place", "cheat", "flipped"]

Place = tuple[int, str]
"""Block and step of a message."""
Change = Callable[[Place, list[np.ndarray]], list[np.ndarray]]


@dataclass
class Heard:
    """What the cheat has after a meeting, and what the honest server makes of it."""

    messages: dict[Place, list[np.ndarray]] = field(default_factory=dict)
    """All that came from the honest server."""
    outcome: object = None
    """Of the honest server: a word, or an error."""


def cheat(
    deployed: Deployment,
    job: str,
    role: int,
    *,
    change: Change = lambda _, arrays: arrays,
    counts: Callable[[np.ndarray], np.ndarray] = lambda own: own,
    claim: Row | None = None,
    until: Place | None = None,
) -> Heard:
    """One meeting: the server `role` sends what `change` makes of its messages, brings what `counts` makes of its
    shares of the counts, says of every block what `claim` says, and hangs up after hearing the message of `until`."""
    ends, heard, honest = memory_pair(bytes(16), timeout=120.0), Heard(), deployed.sites[1 - role]
    deployed.meetings += 1
    exchange, number = ends[role].exchange, deployed.meetings
    rows, counter = blocks.rows, meeting.counter

    def lying(block: int, step: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
        came = exchange(block, step, change((block, step), [array.copy() for array in arrays]))
        heard.messages[block, step] = came
        content = b"".join(array.tobytes() for array in came)
        deployed.link.add(number, (1 - role, ends[role].task, block, step), content)
        if (block, step) == until:
            raise PeerGoneError("That is enough.", "")
        return came

    def honestly(real: Callable) -> Callable:
        return lambda node, *rest: None if node.role == role else real(node, *rest)

    def claimed(connection, record) -> list[Row]:
        own = rows(connection, record)
        return own if threading.current_thread() is not thread else [claim or Row()] * len(own)

    def shifted(node, *rest) -> Callable[[Block], np.ndarray]:
        own = counter(node, *rest)
        return own if node.role != role else lambda block: counts(own(block))

    def rogue() -> None:
        with ends[role], suppress(Exception):  # it wants no more
            meeting.meet(deployed.nodes[role], job, ends[role])

    thread = threading.Thread(target=rogue)
    ends[role].exchange = lying
    with ExitStack() as patches:
        for where, name, lie in (
            (meeting, "counter", shifted),
            (blocks, "rows", claimed),
            *((blocks, name, honestly(getattr(blocks, name))) for name in ("begin", "save", "make_final")),
            *((charges, name, honestly(getattr(charges, name))) for name in ("check_unstarted", "start")),
        ):
            patches.enter_context(patch.object(where, name, lie))
        thread.start()
        end = ends[1 - role]
        try:
            heard.outcome = attempt(honest.node, job, lambda: meeting.meet(honest.node, job, end))
        except Exception as error:
            heard.outcome = error
        finally:
            end.close()
        thread.join()
    return heard


def flipped(at: Place) -> Change:
    """Changes one bit of the message at a place."""

    def change(place: Place, arrays: list[np.ndarray]) -> list[np.ndarray]:
        if place == at:
            array = next(array for array in arrays if array.size)
            array.reshape(-1).view(np.uint8)[array.nbytes // 2] ^= 4
        return arrays

    return change
