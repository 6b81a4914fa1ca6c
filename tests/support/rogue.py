"""A server that cheats: it runs the real code of a meeting, lies where it likes, hears everything, and hangs up.

It is held by no record of its own. What the other server sends it, and what becomes of the job there, is what an attack
has to work with.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np

from sedml.errors import PeerGoneError
from sedml.mpc.channel import memory_pair
from sedml.protocol import fused
from sedml.service.server.run import block_work, blocks, meeting
from sedml.service.server.run.runner import attempt
from support.deployment import Deployment

__all__ = ["Heard", "Place", "Unheld", "cheat"]

Place = tuple[int, str]
"""Block and step of a message."""
Change = Callable[[Place, list[np.ndarray]], list[np.ndarray]]
_NAME = "rogue"


class Unheld:
    """In the place of a `Transcript`: lets everything pass and keeps nothing."""

    def __init__(self, *_) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        pass

    def sends(self, _frame) -> None:
        pass

    def receives(self, _frame, _message) -> None:
        pass

    def keep(self) -> None:
        pass

    def leave(self, _block) -> None:
        pass


@dataclass
class Heard:
    """What the cheat has after a meeting, and what the honest server makes of it."""

    messages: dict[Place, list[np.ndarray]] = field(default_factory=dict)
    """All that came from the honest server."""
    pieces: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    """The cheat's own randomness of the last block that it came to."""
    consensus: np.ndarray | None = None
    """Of the last block in which it came so far: bool[samples]."""
    outcome: object = None
    """Of the honest server: a word, or an error."""


def cheat(
    deployed: Deployment,
    job: str,
    role: int,
    *,
    change: Change = lambda _, arrays: arrays,
    noise: Callable = lambda own: own,
    until: Place | None = None,
) -> Heard:
    """One meeting: the server `role` sends what `change` makes of its messages, brings what `noise` makes of its noise,
    and hangs up after hearing the message of `until`; after the consensus if that is (block, "t")."""
    ends, heard, honest = memory_pair(bytes(16), timeout=120.0), Heard(), deployed.sites[1 - role]
    exchange, run_block = ends[role].exchange, block_work.run_block
    transcript, read, save, check = meeting.Transcript, blocks.read_inputs, blocks.save, fused.threshold_check

    def lying(block, step, arrays):
        came = exchange(block, step, change((block, step), [array.copy() for array in arrays]))
        heard.messages[block, step] = came
        if (block, step) == until:
            raise PeerGoneError("That is enough.", "")
        return came

    def unheld(*which):
        return Unheld() if threading.current_thread().name == _NAME else transcript(*which)

    def with_noise(node, *rest):
        inputs = read(node, *rest)
        return replace(inputs, noise=noise(inputs.noise)) if node.role == role else inputs

    def forgetful(node, *rest):
        if node.role != role:  # a block that it does not have, both run again
            save(node, *rest)

    def looked_at(party, *rest):
        if party.role == role:
            heard.pieces = copy.deepcopy(party.correlations._pieces)
        return run_block(party, *rest)

    def seen(party, *rest):
        found = check(party, *rest)
        if party.role == role:
            heard.consensus = found
            if until == (party.correlations.block, "t"):
                raise PeerGoneError("That is enough.", "")
        return found

    def rogue() -> None:
        with ends[role], suppress(Exception):  # it wants no more
            meeting.meet(deployed.nodes[role], job, ends[role])

    ends[role].exchange = lying
    with ExitStack() as patches:
        for where, name, lie in (
            (meeting, "Transcript", unheld),
            (block_work, "run_block", looked_at),
            (fused, "threshold_check", seen),
            (blocks, "read_inputs", with_noise),
            (blocks, "save", forgetful),
        ):
            patches.enter_context(patch.object(where, name, lie))
        thread = threading.Thread(target=rogue, name=_NAME)
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
