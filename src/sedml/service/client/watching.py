"""A teacher that waits for jobs: it votes on each that it can afford and its model fits, once, and says why not else.

Servers that are away are asked again, less and less often; a vote that breaks off is repeated with the same bytes. What
a job costs is for the teacher's own account (`spending`) to say.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import anyio
import anyio.to_thread
import numpy as np

from sedml.errors import AccessError, KitError, LogError, PredictionsError, SedmlError
from sedml.protocol.class_names import shown_names
from sedml.protocol.votes import as_votes
from sedml.service.client import spending
from sedml.service.client.spending import Limits
from sedml.service.client.views import JobView
from sedml.service.client.voters import Voter
from sedml.service.terms import Terms

if TYPE_CHECKING:
    from sedml.service.client.teacher import AsyncTeacher

_LONGEST_PAUSE = 600.0

What: TypeAlias = Literal["voted", "skipped", "away", "back"]


@dataclass(frozen=True)
class WatchEvent:
    """Something that happened while a teacher waited for jobs."""

    what: What
    """A job was "voted" on or "skipped"; the servers are "away", or "back" again."""
    reason: str = ""
    """Why it was skipped, or why the servers are away."""
    job: JobView | None = None
    epsilon: float | None = None
    """What the job costs, at the teacher's own delta."""
    total: float | None = None
    """What all votes with the kit cost together, after this one."""


async def watched(
    teacher: AsyncTeacher, voter: Voter, vote: Callable[[str], Awaitable[None]], limits: Limits, interval: float
) -> AsyncIterator[WatchEvent]:
    """What happens, for ever: whoever has heard enough stops listening. `vote` votes on a job within the limits."""
    settled: set[str] = set()
    failures, told = 0, ""
    while True:
        failure: SedmlError | None = None
        try:
            views = await teacher.jobs()
        except SedmlError as error:
            views, failure = [], _passing(error)
        else:
            settled &= {view.id for view in views}
        for view in views:
            # One that is at one server only is about to be published, or to end.
            if view.id in settled or len(view.statuses) < 2:
                continue
            try:
                event = await _consider(teacher, voter, vote, limits, view)
            except SedmlError as error:
                # The other jobs are not to wait for this one.
                failure = _passing(error)
            else:
                settled.add(view.id)
                yield event
        # That a log does not fit may come after its server was away, as where it is put back.
        if failure is not None and (not failures or (isinstance(failure, LogError) and failure.what != told)):
            told = failure.what
            yield WatchEvent("away", told)
        if failure is None and failures:
            yield WatchEvent("back")
        failures, told = (0, "") if failure is None else (failures + 1, told)
        await anyio.sleep(min(_LONGEST_PAUSE, interval * 2 ** min(failures, 16)))


async def _consider(
    teacher: AsyncTeacher, voter: Voter, vote: Callable[[str], Awaitable[None]], limits: Limits, view: JobView
) -> WatchEvent:
    """Vote on a job or say why not; raises what may pass, and what concerns all jobs."""
    terms, kit = view.terms, teacher.kit
    epsilon = await anyio.to_thread.run_sync(spending.epsilon_of, [terms], limits)
    reason: str | None = "You have voted on it."
    if not (await teacher.receipt(view.id)).complete:
        reason = _why_not(voter, terms)
        if reason is None:
            reason = await anyio.to_thread.run_sync(spending.why_too_much, kit, limits, terms)
    if reason is None:
        try:
            await vote(view.id)
        except SedmlError as error:
            if error.passing or isinstance(error, AccessError | KitError | LogError):
                raise
            reason = error.what
    total = await anyio.to_thread.run_sync(spending.spent, kit, limits)
    return WatchEvent("voted" if reason is None else "skipped", reason or "", view, epsilon, total)


def _passing(error: SedmlError) -> SedmlError:
    """The error if waiting may help, as where a log was put back; raises it if not."""
    if not error.passing and not isinstance(error, LogError):
        raise error
    return error


def _why_not(voter: Voter, terms: Terms) -> str | None:
    """Why the model, or the time, rules a job out before its samples are downloaded; None if they do not."""
    if terms.deadline <= time.time():
        return "Its deadline has passed."
    if (reason := voter.why_not(terms)) is not None:
        return reason
    classes = np.asarray(getattr(voter.model, "classes_", ()))
    try:
        fits = not classes.size or as_votes([classes], terms.classes, terms.class_names).min() >= 0
    except PredictionsError:
        fits = False
    known = shown_names(terms.class_names) if terms.class_names else f"0 to {terms.classes - 1}"
    return None if fits else f"Its classes are {known}, and those of the model are others."
