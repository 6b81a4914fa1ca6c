"""The planner while somebody moves its sliders: whoever hangs up is not planned for any longer."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from threading import Event
from typing import Annotated

import anyio.to_thread
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sedml import Progress
from sedml.console.replies import Document, about
from sedml.errors import ConflictError, TaskError
from sedml.privacy.planning import MIN_ACCURACY, Plan, plan_job
from sedml.privacy.unit import ORGANISATION, judged
from sedml.privacy.utility import MEAN_AGREEMENT, Utility, agreement_model
from sedml.protocol.class_names import read_classes
from sedml.protocol.thresholds import read_threshold
from sedml.service.client.request import JobRequest

_KEPT = 16  # plans that a job may still follow
_MOST_CLASSES = 4096
_ASKED = ("epsilon", "delta", "classes", "unit", "votes", "spread")


def count_classes(classes: object) -> int:
    """How many there are, from their number or their names."""
    with about("classes"):
        found = read_classes(classes)[0]
        if not isinstance(found, int) or not 2 <= found <= _MOST_CLASSES:
            raise TaskError(
                "A job cannot have this number of classes.",
                f"Use 2 to {_MOST_CLASSES:,}, or name them, as in benign, malignant.",
            )
        return found


class Question(BaseModel):
    """What a plan is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epsilon: float
    delta: float
    samples: int
    teachers: int
    classes: Annotated[int, BeforeValidator(count_classes)]
    unit: str = ORGANISATION
    votes: int = 1
    spread: int = 1
    agreement: float = Field(default=MEAN_AGREEMENT)
    min_accuracy: float = Field(default=MIN_ACCURACY["labels"])


class _GivenUpError(Exception):
    """Nobody waits for this plan any more."""


class Planner:
    """Makes plans, and knows which it has made."""

    def __init__(self) -> None:
        self._made: dict[Question, Utility] = {}

    async def plan(self, question: Question, progress: Progress) -> Document:
        """The terms for this budget, and how many labels others would buy."""
        given_up = Event()

        def step(what: str, done: int, total: int) -> None:
            if given_up.is_set():
                raise _GivenUpError
            progress(what, done, total)

        try:
            return await anyio.to_thread.run_sync(partial(self._plan, question, step), abandon_on_cancel=True)
        finally:
            given_up.set()

    def _plan(self, question: Question, progress: Progress) -> Document:
        plan = plan_job(
            agreement_model(question.teachers, question.classes, question.agreement, votes=question.votes),
            epsilon=question.epsilon,
            delta=question.delta,
            samples=question.samples,
            unit=question.unit,
            spread=question.spread,
            min_accuracy=question.min_accuracy,
            progress=progress,
        )
        self._made.pop(question, None)
        self._made[question] = plan.chosen
        while len(self._made) > _KEPT:
            del self._made[next(iter(self._made))]
        return _document(plan)

    def check(self, question: Question, asked: int, job: JobRequest) -> None:
        """Raise unless a job is what the plan made for this question says, and the question is the job's."""
        chosen = self._made.get(question)
        if chosen is None or not _follows(question, chosen, asked, job):
            raise ConflictError(
                "The form has changed since this plan was made.",
                "Wait for the new plan, look at it, and then create the job.",
            )


def _follows(question: Question, chosen: Utility, asked: int, job: JobRequest) -> bool:
    return (
        all(getattr(question, name) == getattr(job, name) for name in _ASKED)
        and (question.teachers, chosen.asked) == (job.min_teachers, asked)
        and chosen.threshold == read_threshold(job.threshold)
        and chosen.sigma == job.sigma
    )


def _document(plan: Plan) -> Document:
    cost = plan.privacy
    return {
        "source": plan.source,
        "chosen": _point(plan.chosen),
        "curve": [_point(point) for point in plan.by_epsilon],
        "epsilon_apart": cost.epsilon_apart,
        "organisation": judged(cost.epsilon_organisation) if cost.unit.moves < cost.unit.votes else None,
    }


def _point(point: Utility) -> Document:
    return asdict(point) | {"accuracy": point.accuracy}
