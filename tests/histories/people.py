"""Teachers and requesters, who use the real clients, do not give up, and remember what they were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
import numpy as np

from histories.history_plan import History, JobPlan, Moment, TeacherPlan
from histories.site_pair import SitePair
from sedml.errors import (
    BudgetExceededError,
    ConflictError,
    DeadlineError,
    JobStateError,
    LogError,
    NotFoundError,
    SedmlError,
)
from sedml.service.client import AsyncRequester, AsyncTeacher
from sedml.service.client.administration import AsyncOperator
from sedml.service.client.connection import connected
from sedml.service.client.teacher import _fill_in
from sedml.service.kits import ClientKit
from sedml.service.log.notes import parse
from sedml.service.messages import BALLOT_HEADER, JobStatus, LogHead, Receipt
from sedml.service.states import UNDER_WAY, JobState
from sedml.service.terms import Terms

__all__ = ["Case", "Proof", "Scene", "fetch", "request", "settle", "states_of"]

_PAUSE = 0.05
_TIRED = 6.0
"""Seconds after which a requester breaks off a call that waits for the servers, and makes it again."""
_UNVOTED = {JobState.CREATED, JobState.OPEN}

T = TypeVar("T")


@dataclass(frozen=True)
class Proof:
    """What both servers had on record of a job when its labels were fetched: to check them even if it is deleted."""

    states: tuple[str, ...]
    rosters: tuple[tuple[int, str] | None, ...]
    ballots: tuple[dict[str, str], ...]
    """Submission by teacher."""
    seats: tuple[list[str], ...]
    """Teachers by seat."""


@dataclass
class Case:
    """One job, and what its people know of it."""

    plan: JobPlan
    terms: Terms | None = None
    sent: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    """Every vote that a teacher may ever have sent, by teacher and name of the ballot."""
    acknowledged: dict[str, str] = field(default_factory=dict)
    """Submission by teacher: both servers said that they have it."""
    labels: list[np.ndarray] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    withdrawn: bool = False
    """A server did not want it, by its clock, and the requester's client took it back."""
    delete_asked: bool = False
    closing: anyio.Event = field(default_factory=anyio.Event)
    over: anyio.Event = field(default_factory=anyio.Event)

    @property
    def id(self) -> str:
        return self.terms.id


@dataclass
class Scene:
    """Where a history happens."""

    pair: SitePair
    history: History
    cases: list[Case]
    prove: Callable[[Scene, Case], Proof]
    counts: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    moments: dict[Moment, anyio.Event] = field(
        default_factory=lambda: {name: anyio.Event() for name in ("start", "votes", "close")}
    )
    disk: anyio.Lock = field(default_factory=anyio.Lock)
    """Nobody reads a store while it is put back."""

    def kit(self, name: str) -> Path:
        return self.pair.kits / name

    def requester(self, case: Case) -> AsyncRequester:
        return AsyncRequester(self.kit(f"requester-{case.plan.number}"), patience=case.plan.patience)


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Again and again, while what is in the way may pass."""
    while True:
        try:
            return await call()
        except SedmlError as error:
            if not (error.passing or isinstance(error, LogError)):
                raise
        await anyio.sleep(_PAUSE)


# ---- Requesters --------------------------------------------------------------------------------------------------


async def request(scene: Scene, case: Case) -> None:
    """A job from its creation to what its requester wants with it in the end."""
    plan = case.plan
    await anyio.sleep(plan.delay)
    case.terms = await _create(scene, case)
    scene.moments["votes"].set()
    if case.terms is None:
        scene.counts["jobs turned away"] += 1
        return
    scene.counts["jobs"] += 1
    async with anyio.create_task_group() as voting:
        for teacher in plan.teachers:
            voting.start_soon(_teach, scene, case, teacher)
        await anyio.sleep(plan.voting)
        scene.moments["close"].set()
        case.closing.set()
        await _end(scene, case)
        case.over.set()


async def _create(scene: Scene, case: Case) -> Terms | None:
    plan, requester = case.plan, scene.requester(case)
    file = scene.pair.kits / f"samples-{plan.number}.npy"
    np.save(file, np.random.default_rng(scene.history.seed).random((plan.samples, 2)))
    terms = {
        "classes": plan.classes,
        "threshold": plan.threshold,
        "sigma": plan.sigma,
        "epsilon": 20.0,
        "delta": 1e-5,
        "min_teachers": plan.min_teachers,
        "cohort": plan.cohort,
        "deadline": "1h",
        "title": f"{scene.history.seed}/{plan.number}",
    }
    while True:
        try:
            return (await insist(lambda: requester.create(file, **terms))).terms
        except BudgetExceededError:
            return None
        except DeadlineError:
            case.withdrawn = True
        except JobStateError as error:
            # What was begun was withdrawn meanwhile, or a store that was put back does not know of it.
            if not (case.withdrawn or scene.history.restores):
                scene.complaints.append(f"a new job was refused: {error.what}")
                return None
        except NotFoundError:
            if not scene.history.restores:
                raise
        await anyio.sleep(_PAUSE)


async def _end(scene: Scene, case: Case) -> None:
    match case.plan.ending:
        case "run":
            await _finish(scene, case)
        case "close":
            await _close(scene, case, "s0", "s1")
        case "close at one":
            await _close(scene, case, case.plan.first)
            await anyio.sleep(0.3)
            await _finish(scene, case)
        case "delete":
            await _delete(scene, case)
        case "delete meanwhile":
            async with anyio.create_task_group() as both:
                both.start_soon(_finish, scene, case)
                await anyio.sleep(case.plan.voting)
                await _delete(scene, case)
    if case.labels and case.plan.afterwards == "fetch":
        await fetch(scene, case)
    if case.labels and case.plan.afterwards == "delete":
        await _delete(scene, case)


async def _finish(scene: Scene, case: Case) -> None:
    """Run it, come what may, until it is over."""
    while True:
        result = None
        # A store that was put back may have the vote open again, which is closed only when the call begins.
        with anyio.move_on_after(_TIRED), suppress(SedmlError):
            result = await insist(lambda: scene.requester(case).run(case.id))
        if result is not None:
            await _keep(scene, case, result.labels)
            return
        if await _came_to_an_end(scene, case):
            return
        await anyio.sleep(_PAUSE)


async def _came_to_an_end(scene: Scene, case: Case) -> bool:
    """Look why a job did not run; do what its requester can do about it."""
    try:
        view = await insist(lambda: scene.requester(case).status(case.id))
    except NotFoundError:  # both have forgotten it
        return True
    if any(not isinstance(problem, NotFoundError) for problem in view.problems.values()):
        return False
    if view.over:
        return True
    if view.problems or view.state is JobState.CREATED:
        if not scene.history.restores:
            scene.complaints.append(f"job {case.id} is not known to {', '.join(view.problems) or 'a server'} any more")
            return True
        return not await _resume(scene, case)
    elif view.state is JobState.OPEN:  # too few have voted; it is closed all the same
        await _close(scene, case, "s0", "s1")
    return False


async def _resume(scene: Scene, case: Case) -> bool:
    """Give a server that was put back to before it had them the terms and the data again; whether it takes them."""
    try:
        await insist(lambda: scene.requester(case).resume(case.id))
    except SedmlError as error:
        # What one server does not take any more, if only by its clock, the client deletes at the other.
        case.withdrawn |= isinstance(error, DeadlineError)
        return False
    return True


async def fetch(scene: Scene, case: Case) -> None:
    """Ask for the labels of a job that is done."""
    try:
        labels = await insist(lambda: scene.requester(case).labels(case.id))
    except (JobStateError, NotFoundError) as error:
        if not (case.delete_asked or scene.history.restores):
            scene.complaints.append(f"the labels of job {case.id} are gone: {error.what}")
    else:
        await _keep(scene, case, labels)


async def _keep(scene: Scene, case: Case, labels: np.ndarray) -> None:
    async with scene.disk:
        case.proofs.append(await anyio.to_thread.run_sync(scene.prove, scene, case))
    case.labels.append(labels)


async def _delete(scene: Scene, case: Case) -> None:
    case.delete_asked = True
    try:
        await insist(lambda: scene.requester(case).delete(case.id))
    except JobStateError:
        scene.counts["deletions refused"] += 1
    except NotFoundError:
        if not scene.history.restores:
            raise


async def _close(scene: Scene, case: Case, *servers: str) -> None:
    kit = ClientKit.load(scene.kit(f"requester-{case.plan.number}"))
    for name in servers:

        async def close(name: str = name) -> None:
            async with connected(kit, name, 0.0) as server:
                await server.post(f"/v1/jobs/{case.id}/close", JobStatus)

        try:
            await insist(close)
        except (JobStateError, NotFoundError):
            continue


async def settle(scene: Scene, case: Case) -> None:
    """When all is calm: what is still open is ended, so that nothing is left for the next history."""
    while True:
        states = await anyio.to_thread.run_sync(states_of, scene, case)
        known = {state for state in states if state is not None}
        if not known & _UNVOTED:
            return
        voted_elsewhere = JobState.OPEN in known and bool(known & UNDER_WAY)
        if voted_elsewhere or (known == {JobState.OPEN} and None not in states):
            await _close(scene, case, "s0", "s1")
        elif JobState.CREATED in known and known & UNDER_WAY:
            await _resume(scene, case)
        elif not known - _UNVOTED:
            case.delete_asked = True
            kit = ClientKit.load(scene.kit(f"requester-{case.plan.number}"))
            for name in ("s0", "s1"):
                try:
                    async with connected(kit, name, 5.0) as server:
                        await server.delete(f"/v1/jobs/{case.id}", JobStatus)
                except (JobStateError, NotFoundError):
                    continue
        await anyio.sleep(_PAUSE)


def states_of(scene: Scene, case: Case) -> list[JobState | None]:
    """At both servers; None where it is not known."""
    found: list[JobState | None] = []
    for server in scene.pair.servers:
        token = scene.pair.token(f"requester-{case.plan.number}", server.name)
        answer = server.ask("GET", f"/v1/jobs/{case.id}", token)
        assert answer.status in (200, 404), answer.document
        found.append(JobState(answer.document["state"]) if answer.status == 200 else None)
    return found


# ---- Operators ---------------------------------------------------------------------------------------------------


async def operate(scene: Scene) -> None:
    """They talk: whenever a server was put back, the other one's operator knows why its log is shorter."""
    while True:
        for name in ("s0", "s1"):
            with suppress(SedmlError):
                operator = AsyncOperator(scene.kit(f"operator-{name}"), patience=0)
                async with operator.server() as server:
                    conflict = (await server.get("/v1/log/checkpoint", LogHead)).conflict
                if conflict:
                    shown = parse(conflict)[0]
                    await operator.accept_restored(shown.size, shown.root.hex())
        await anyio.sleep(_PAUSE)


# ---- Teachers ----------------------------------------------------------------------------------------------------


async def _teach(scene: Scene, case: Case, plan: TeacherPlan) -> None:
    if plan.manner == "absent":
        return
    await anyio.sleep(plan.delay)
    name = f"teacher-{plan.number:03}"
    client = AsyncTeacher(scene.kit(name), patience=plan.patience)
    if plan.cut_after is not None:
        with anyio.move_on_after(plan.cut_after):
            await _vote(scene, case, client, plan.votes)
    if plan.manner in ("half", "half then whole"):
        await _send_half(scene, case, client, plan)
    if plan.manner == "half":
        return
    while not await _vote(scene, case, client, plan.votes):
        if plan.manner == "once" or case.over.is_set():
            return
        await anyio.sleep(_PAUSE)
    if plan.manner == "again":
        await _vote(scene, case, client, plan.votes)
    elif plan.manner == "other after" and name in case.acknowledged and (plan.votes != plan.others).any():
        await _vote(scene, case, client, plan.others, other=True)


async def _vote(scene: Scene, case: Case, client: AsyncTeacher, votes: np.ndarray, *, other: bool = False) -> bool:
    """One attempt; whether there is no point in another."""
    name, ballot = client.kit.name, _note(case, client.kit, votes)
    scene.counts["votes sent"] += 1
    try:
        receipt = await client.vote(case.id, votes)
    except ConflictError as error:
        if not other:
            scene.complaints.append(f"{name} has only ever cast one vote in job {case.id}: {error.what}")
        return True
    except DeadlineError:  # by a clock that is wrong
        return False
    except JobStateError:
        return case.closing.is_set()
    except SedmlError as error:
        # A log that was put back is an alarm until the operators have talked.
        return not (error.passing or isinstance(error, NotFoundError | LogError))
    if receipt.complete:
        scene.counts["votes acknowledged"] += 1
        if other and not scene.history.restores:
            scene.complaints.append(f"{name} could vote twice in job {case.id}")
        case.acknowledged[name] = ballot
    return receipt.complete


async def _send_half(scene: Scene, case: Case, client: AsyncTeacher, plan: TeacherPlan) -> None:
    """To one server only, as if the connection to the other had broken off."""
    _note(case, client.kit, plan.votes)
    ballot = _fill_in(client.kit.secret, client.kit.name, case.terms, np.atleast_2d(plan.votes))
    scene.counts["half votes sent"] += 1
    half, headers = ballot.halves[int(plan.half[1])], {BALLOT_HEADER: ballot.name.hex()}

    async def send() -> None:
        async with connected(client.kit, plan.half, 0.0) as server:
            await server.put(f"/v1/jobs/{case.id}/ballot", Receipt, half, headers=headers)

    try:
        await insist(send)
    except (JobStateError, NotFoundError):
        return


def _note(case: Case, kit: ClientKit, votes: np.ndarray) -> str:
    name = _fill_in(kit.secret, kit.name, case.terms, np.atleast_2d(votes.astype(np.int16))).name.hex()
    case.sent[kit.name, name] = votes
    return name
