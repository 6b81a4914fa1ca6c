"""What happens in a history, drawn from its seed: everything but the time that things take."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from histories.site_pair import TEACHERS

__all__ = ["History", "JobPlan", "Stage", "TeacherPlan", "Trouble", "draw", "on_postgres", "stage_of"]

Manner: TypeAlias = Literal["steady", "once", "half", "half then whole", "again", "other after", "absent"]
Ending: TypeAlias = Literal["run", "close", "close at one", "delete", "delete meanwhile"]
Kind: TypeAlias = Literal["kill", "term", "stop", "cut", "silence", "hang up", "restore", "clock", "worker"]
Stage: TypeAlias = Literal["alone", "processes", "Ray"]
Moment: TypeAlias = Literal["start", "votes", "close"]

_ONE_IN_POSTGRES = 8
_ONE_IN_PROCESSES, _ONE_IN_RAY = 5, 33
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86_400.0


@dataclass(frozen=True)
class TeacherPlan:
    """One teacher in one job."""

    number: int
    manner: Manner
    votes: np.ndarray
    others: np.ndarray
    """Predictions that it may come up with later."""
    delay: float
    patience: float
    cut_after: float | None
    """When its connections break off, the first time."""
    half: Literal["s0", "s1"]


@dataclass(frozen=True)
class JobPlan:
    """One job and its people."""

    number: int
    samples: int
    classes: int
    threshold: str
    sigma: float
    min_teachers: int
    cohort: str
    teachers: tuple[TeacherPlan, ...]
    delay: float
    voting: float
    ending: Ending
    afterwards: Literal["keep", "fetch", "delete"]
    patience: float
    first: Literal["s0", "s1"]


@dataclass(frozen=True)
class Trouble:
    """Something that goes wrong, so long after a moment of the history, and for so long."""

    kind: Kind
    role: Literal[0, 1]
    moment: Moment
    delay: float
    lasts: float
    ahead: float = 0.0
    """Of a clock."""
    copied_at: float = 0.0
    """When the copy was made that is put back, as a share of the time until then."""


@dataclass(frozen=True)
class History:
    seed: int
    stage: Stage
    jobs: tuple[JobPlan, ...]
    troubles: tuple[Trouble, ...]

    @property
    def restores(self) -> bool:
        return any(trouble.kind == "restore" for trouble in self.troubles)


def on_postgres(seed: int) -> bool:
    """Whether the stores of the history are in PostgreSQL, where there is one."""
    return seed % _ONE_IN_POSTGRES == 0


def stage_of(seed: int) -> Stage:
    """What a server consists of: one process, several that share its address, or one with workers on Ray."""
    if seed % _ONE_IN_RAY == 1:
        return "Ray"
    return "processes" if seed % _ONE_IN_PROCESSES == 2 else "alone"


def draw(seed: int) -> History:
    rng = random.Random(seed)
    jobs = tuple(_job(rng, number) for number in range(1, rng.choice((1, 1, 1, 2, 2, 3)) + 1))
    troubles = [_trouble(rng) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
    if not on_postgres(seed) and rng.random() < 0.15:
        troubles += [_restore(rng) for _ in range(rng.choice((1, 1, 1, 2)))]
    stage = stage_of(seed)
    if stage != "alone":
        troubles += [_worker(rng) for _ in range(rng.choice((1, 2, 3)))]
    return History(seed, stage, jobs, tuple(troubles))


def _job(rng: random.Random, number: int) -> JobPlan:
    classes, samples = rng.randrange(2, 6), rng.choice((1, rng.randrange(2, 17), rng.randrange(9, 41)))
    numbers = rng.sample(range(1, TEACHERS + 1), rng.randrange(2, TEACHERS + 1))
    teachers = tuple(_teacher(rng, one, samples, classes) for one in numbers)
    plan = JobPlan(
        number=number,
        samples=samples,
        classes=classes,
        threshold=rng.choice(("0.34", "0.5", "0.9", "1.0", "2")),
        sigma=rng.choice((15.0, 20.0, 40.0)),
        min_teachers=rng.choice((1, 1, 2, 3)),
        cohort="tight" if rng.random() < 0.1 else "teachers",
        teachers=teachers,
        delay=rng.uniform(0.0, 0.3),
        voting=rng.uniform(0.2, 1.2),
        ending=rng.choices(("run", "close", "close at one", "delete", "delete meanwhile"), (60, 15, 10, 5, 10))[0],
        afterwards=rng.choices(("keep", "fetch", "delete"), (40, 30, 30))[0],
        patience=rng.choice((0.0, 0.3, 5.0)),
        first=rng.choice(("s0", "s1")),
    )
    if plan.cohort == "teachers":
        return plan
    # Nobody belongs to two cohorts.
    return replace(plan, teachers=tuple(replace(one, number=one.number + TEACHERS) for one in teachers))


def _teacher(rng: random.Random, number: int, samples: int, classes: int) -> TeacherPlan:
    rows = [np.array([rng.randrange(-1, classes) for _ in range(samples)]) for _ in range(2)]
    manners = {"steady": 45, "once": 13, "half": 8, "half then whole": 8, "again": 11, "other after": 10, "absent": 5}
    return TeacherPlan(
        number=number,
        manner=rng.choices(list(manners), list(manners.values()))[0],
        votes=rows[0],
        others=rows[1],
        delay=rng.uniform(0.0, 0.4),
        patience=rng.choice((0.0, 0.2, 2.0)),
        cut_after=rng.uniform(0.0, 0.15) if rng.random() < 0.2 else None,
        half=rng.choice(("s0", "s1")),
    )


def _trouble(rng: random.Random) -> Trouble:
    kinds: dict[Kind, int] = {"kill": 30, "term": 9, "stop": 12, "cut": 13, "silence": 8, "hang up": 8, "clock": 20}
    kind = rng.choices(list(kinds), list(kinds.values()))[0]
    lasts = {"stop": 2.0, "cut": 1.2, "silence": 2.0, "clock": 4.0}.get(kind, 0.4)
    size = rng.choice((2 * _MINUTE, 10 * _MINUTE, 3 * _HOUR, 2 * _DAY, 8 * _DAY, 40 * _DAY))
    return Trouble(
        kind,
        rng.choice((0, 1)),
        rng.choice(("start", "votes", "close", "close")),
        rng.uniform(0.0, 0.9),
        rng.uniform(0.0, lasts),
        ahead=rng.choice((-1, 1)) * size,
    )


def _worker(rng: random.Random) -> Trouble:
    return Trouble("worker", rng.choice((0, 1)), rng.choice(("votes", "close", "close")), rng.uniform(0.0, 1.5), 0.0)


def _restore(rng: random.Random) -> Trouble:
    return Trouble(
        "restore",
        rng.choice((0, 1)),
        rng.choice(("start", "votes", "close", "close")),
        rng.uniform(0.1, 1.2),
        rng.uniform(0.0, 0.4),
        copied_at=rng.choice((0.0, rng.random(), rng.random())),
    )
