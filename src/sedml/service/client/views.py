"""A job as both servers see it, and a vote as both have acknowledged it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sedml.errors import InputError, JobStateError, SedmlError, TermsMismatchError
from sedml.service.client.failures import error_from
from sedml.service.messages import CohortStatus, JobProof, JobStatus, Receipt, ServerName
from sedml.service.states import ENDED, ENDED_WITHOUT_RESULT, JobState
from sedml.service.terms import HEX32, Terms

_ORDER = list(JobState)


@dataclass(frozen=True)
class VoteReceipt:
    """What each server has on record of one teacher's vote."""

    job: str
    s0: Receipt | None
    s1: Receipt | None
    log: Mapping[ServerName, JobProof] = field(default_factory=dict, compare=False, repr=False)
    """That the job is in the log of each server, if this is the receipt of a vote of just now."""

    @property
    def complete(self) -> bool:
        """Both halves of one ballot are on disk: the vote counts."""
        return self.s0 is not None and self.s1 is not None and self.s0.ballot == self.s1.ballot


@dataclass(frozen=True)
class JobView:
    """A job at both servers; None where one does not know it or cannot be asked, with the reason in `problems`."""

    id: str
    s0: JobStatus | None
    s1: JobStatus | None
    problems: Mapping[ServerName, SedmlError] = field(default_factory=dict)
    asked: tuple[ServerName, ...] = ("s0", "s1")
    """Who was; an operator knows one server only."""

    def __post_init__(self) -> None:
        if not self.statuses:
            raise JobStateError(f"No server knows of job {self.id}.", "Check the id.")
        for status in self.statuses:
            check_same_job(self.id, status)

    def __repr__(self) -> str:
        least, most = self.votes
        return f"JobView({self.id!r}, state={self.state.value!r}, votes={least if least == most else (least, most)})"

    @property
    def statuses(self) -> tuple[JobStatus, ...]:
        """What is known, S0's first."""
        return tuple(status for status in (self.s0, self.s1) if status is not None)

    @property
    def terms(self) -> Terms:
        """The same at both: they have the same hash."""
        return self.statuses[0].terms

    @property
    def state(self) -> JobState:
        """The state of the server that is behind; if it is over at one of them, that."""
        states = [status.state for status in self.statuses]
        over = [state for state in states if state in ENDED_WITHOUT_RESULT]
        return over[0] if over else min(states, key=_ORDER.index)

    @property
    def done(self) -> bool:
        """Whether it is done at both servers."""
        return len(self.statuses) == len(self.asked) and self.state == JobState.DONE

    @property
    def over(self) -> bool:
        """Nothing more will happen."""
        return self.state in ENDED

    @property
    def deleted(self) -> bool:
        """Nothing but the record of it is left, wherever it is known."""
        return all(status.deleted for status in self.statuses)

    @property
    def votes(self) -> tuple[int, int]:
        """The fewest and the most ballots that a server has: a vote in flight is at one of them only."""
        votes = [status.votes for status in self.statuses]
        return min(votes), max(votes)

    @property
    def teachers(self) -> int | None:
        """How many take part, once the servers agreed."""
        rosters = [status.roster for status in self.statuses if status.roster is not None]
        return rosters[0].teachers if rosters else None

    @property
    def samples_done(self) -> int:
        """How many samples are done at both servers."""
        return min(status.samples_done for status in self.statuses)

    @property
    def extra_attempts(self) -> int:
        """Attempts at blocks beyond one each, at the server that has made more."""
        return max(status.extra_attempts for status in self.statuses)

    @property
    def eta_seconds(self) -> float | None:
        """How long it will take until both are done."""
        return max((s.eta_seconds for s in self.statuses if s.eta_seconds is not None), default=None)

    @property
    def budget(self) -> CohortStatus | None:
        """The cohort's, of the server that has more of it used up."""
        known = [status.budget for status in self.statuses if status.budget is not None]
        return max(known, key=lambda budget: budget.rho_spent + budget.rho_reserved, default=None)

    @property
    def waiting_for(self) -> str | None:
        """What a server says is in the way."""
        texts = [f"{s.server}: {error_from(s.problem).what}" for s in self.statuses if s.problem is not None]
        return "; ".join(texts) or None

    @property
    def phase(self) -> str:
        """Where the job is, in words."""
        # One that was not run in time goes by itself: what there is to know of it is that it expired.
        by_itself = self.state is JobState.EXPIRED and all(one.deleted_by == one.server for one in self.statuses)
        if self.deleted and not by_itself:
            return "deleted"
        return {
            JobState.CREATED: "waiting for its data",
            JobState.OPEN: "voting",
            JobState.CLOSED: "the vote is over",
            JobState.RUNNING: "aggregating",
        }.get(self.state, self.state.value)


JobName: TypeAlias = str | JobView
"""A job: its id, or the view that `create`, `jobs` and `status` return."""


def check_id(job: JobName) -> str:
    """The id of a job, or an error."""
    found = job.id if isinstance(job, JobView) else job
    if not isinstance(found, str) or re.fullmatch(HEX32, found) is None:
        shown = repr(found[:64]) if isinstance(found, str) else f"What was given, of type {type(found).__name__},"
        raise InputError(
            f"{shown} is not the id of a job.", "An id has 32 hexadecimal digits; `sedml job list` shows them."
        )
    return found


def check_same_job(job: str, status: JobStatus) -> None:
    """Raise unless it is the status of this job, with the terms of which the id is the hash."""
    if not status.id == job == status.terms.id:
        raise TermsMismatchError(
            f"{status.server.upper()} shows terms that do not belong to job {job}.",
            "Do not take part; tell both operators.",
        )


def check_live(view: JobView) -> JobView:
    """Raise what a server gives as the reason if the job was refused, has failed or is gone."""
    for status in view.statuses:
        if status.state in ENDED_WITHOUT_RESULT and status.problem is not None:
            error = error_from(status.problem)
            raise type(error)(f"{status.server.upper()}: the job was {status.state}. {error.what}", error.do)
        if status.state in ENDED_WITHOUT_RESULT or status.deleted:
            state = "deleted" if status.deleted else status.state
            raise JobStateError(f"Job {view.id} is {state} at {status.server.upper()}.", "Create another job.")
    return view
