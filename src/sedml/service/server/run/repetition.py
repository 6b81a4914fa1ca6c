"""The rule for repetition: of every block, a server hands out the share of at most one attempt.

A block that breaks off is not continued, it begins again: over a new connection, with new randomness and new noise,
on the same shares of the votes. Until a server hands out its share, nothing that it says depends on its inputs, and
neither does whether it stops. So broken attempts tell nothing, however many there are and whatever the other server
brings to each. A second share that leaves would: hence a row on disk for each block at each server, which says how far
it is and only ever changes by compare-and-set (`blocks`).

1. *Begin k*: `running` k is on disk before the first word of attempt k, and the share of any other is gone by then.
2. All checks passed: the share is on disk, as `saved` k, before the other server is told "saved k".
3. "saved k" came, and k is saved here: `final` k. What is final never changes, and nothing is begun any more.
4. After a break both say where they have each block, and `following` says how each goes on. If one is final, the other
   must have saved that attempt, and it is final there too: whoever hands out a share knows that the other one has its
   own on disk. If both have saved the same attempt, it is final. Otherwise what one of them has saved is thrown away,
   and both begin one attempt more than either has begun.
5. A check that fails ends the job, and is never a reason to begin again.
6. Attempts are counted by their numbers, which never go down, and there may be so many (`check_number`). Whoever hangs
   up in the middle of one gets another try at what it could have guessed there, and must not have many.

No crash lets two servers that follow this lose a block: one is final only if the other has saved the same attempt, and
what was saved is thrown away only on the word of a server that has not.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from sedml.errors import AttemptsError, CheatingError
from sedml.protocol.task import EXTRA_ATTEMPTS

MANY_EXTRA = 4
"""Attempts beyond one for each block from which on the operator is warned, and blocks run one at a time."""


class RowState(IntEnum):
    """How far a server is with the attempt that its row names."""

    WAITING = 0
    RUNNING = 1
    SAVED = 2
    FINAL = 3


@dataclass(frozen=True)
class Row:
    """Where a server has a block: the attempt that it began last, from 1 on, and how far that is."""

    attempt: int = 0
    state: RowState = RowState.WAITING

    @property
    def is_final(self) -> bool:
        """Whether its share may be handed out."""
        return self.state is RowState.FINAL

    @property
    def has_share(self) -> bool:
        """Whether its share is on disk."""
        return self.state >= RowState.SAVED


def following(mine: Row, theirs: Row) -> Row:
    """Where this server takes a block that the other one has there: to the end, or to a new attempt.

    Raises if the two cannot both be true.
    """
    if mine.is_final or theirs.is_final:
        if mine.attempt != theirs.attempt or not (mine.has_share and theirs.has_share):
            raise CheatingError(
                "The two servers do not have a block as they must have it: one has finished an attempt at it that the "
                "other does not know of.",
                "A server cheats, or its store was restored to an older state. Tell both operators.",
            )
        return Row(mine.attempt, RowState.FINAL)
    if mine == theirs and mine.state is RowState.SAVED:
        return Row(mine.attempt, RowState.FINAL)
    return Row(max(mine.attempt, theirs.attempt) + 1, RowState.RUNNING)


def check_number(extra: int) -> None:
    """Raise if so many attempts of a job, beyond one for each block, are too many."""
    if extra > EXTRA_ATTEMPTS:
        raise AttemptsError(
            "The blocks of the job broke off too often.",
            "The link is bad, or the other server hangs up on purpose. Look at both servers' logs. Create a new job.",
        )
