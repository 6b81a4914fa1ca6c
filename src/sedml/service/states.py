"""The life of a job, in one table, and the sets of states that have a name.

A server moves a job only along this table, each move in the transaction that makes it true. The two servers keep
their own copy; `sedml.service.server.run.meeting` says how they stay in step.

| from    | event   | to      | when                                                                             |
|---------|---------|---------|----------------------------------------------------------------------------------|
| created | publish | open    | the public data is here, with the right fingerprint                              |
| open    | close   | closed  | the requester ends the vote, or its deadline has passed                          |
| closed  | start   | running | roster agreed, budget reserved, a row for each block on disk                     |
| running | finish  | done    | both servers hold their label shares of every block                              |
| created, open, closed | refuse | refused | too few teachers, too small a budget, or given up there: nothing opened |
| created, open, closed, running | fail | failed | the servers disagree on what cannot differ, or one has lost the job |
| created, open, closed | expire | expired | not run in time, or deleted: nothing was opened                          |
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal, TypeAlias

from sedml.errors import JobStateError


class JobState(StrEnum):
    """Where a job is, in the order in which it gets there; the last three are ends without a result."""

    CREATED = "created"
    OPEN = "open"
    CLOSED = "closed"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"
    FAILED = "failed"
    EXPIRED = "expired"


Event: TypeAlias = Literal["publish", "close", "start", "finish", "refuse", "fail", "expire"]

ENDED_WITHOUT_RESULT = frozenset({JobState.REFUSED, JobState.FAILED, JobState.EXPIRED})
"""It is over, and there are no labels."""

ENDED = ENDED_WITHOUT_RESULT | {JobState.DONE}
"""Nothing leads out of these."""

UNFINISHED = frozenset(JobState) - ENDED
"""Something may still come of it."""

UNOPENED = UNFINISHED - {JobState.RUNNING}
"""Nothing was opened yet: whatever goes wrong, nothing was spent."""

UNDER_WAY = frozenset({JobState.CLOSED, JobState.RUNNING})
"""The vote is over and the servers have something to do."""

_MOVES: tuple[tuple[Event, Iterable[JobState], JobState], ...] = (
    ("publish", [JobState.CREATED], JobState.OPEN),
    ("close", [JobState.OPEN], JobState.CLOSED),
    ("start", [JobState.CLOSED], JobState.RUNNING),
    ("finish", [JobState.RUNNING], JobState.DONE),
    ("refuse", UNOPENED, JobState.REFUSED),
    ("fail", UNFINISHED, JobState.FAILED),
    ("expire", UNOPENED, JobState.EXPIRED),
)
_TRANSITIONS = {(state, event): to for event, states, to in _MOVES for state in states}

_ADVICE: dict[JobState, str] = {
    JobState.CREATED: "Upload its public data first.",
    JobState.OPEN: "It is open for votes; `sedml job run` closes it when enough are in.",
    JobState.CLOSED: "Voting is over; `sedml job run` takes it from here.",
    JobState.RUNNING: "It is running; wait for it.",
    JobState.DONE: "It is done; fetch its labels with `sedml job labels`.",
    JobState.REFUSED: "It was refused and nothing was opened; `sedml job status` says why. Create a new job.",
    JobState.FAILED: "It failed; `sedml job status` says why. Create a new job.",
    JobState.EXPIRED: "It was deleted or not run in time, and nothing was opened. Create a new job.",
}


def after(state: JobState, event: Event) -> JobState:
    """The state that an event leads to; raises where the table has no such move."""
    try:
        return _TRANSITIONS[state, event]
    except KeyError:
        raise wrong_state(state, event) from None


def wrong_state(state: JobState, wish: str) -> JobStateError:
    """The error for a job in which something cannot be done now."""
    return JobStateError(f"The job is {state.value}: it cannot {wish} now.", _ADVICE[state])
