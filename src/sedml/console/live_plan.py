"""The planner while somebody moves its sliders: the newest question is answered, older ones are given up."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from itertools import count

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from sedml.console.replies import Document
from sedml.errors import ConflictError
from sedml.privacy.planning import MIN_ACCURACY, Plan, plan_job
from sedml.privacy.unit import ORGANISATION, judged
from sedml.privacy.utility import MEAN_AGREEMENT, Utility, agreement_model
from sedml.protocol.thresholds import read_threshold
from sedml.service.client.request import JobRequest

__all__ = ["Planner", "Question"]


_ASKED = ("epsilon", "delta", "classes", "unit", "votes", "spread")


class Question(BaseModel):
    """What a plan is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epsilon: float
    delta: float
    samples: int
    teachers: int
    classes: int
    unit: str = ORGANISATION
    votes: int = 1
    spread: int = 1
    agreement: float = Field(default=MEAN_AGREEMENT)
    min_accuracy: float = Field(default=MIN_ACCURACY["labels"])


class Planner:
    """Makes one plan at a time."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._newest = 0
        self._made: tuple[Question, Utility] | None = None

    async def plan(self, question: Question) -> Document:
        """The terms for this budget, and how many labels others would buy; raises if a newer question came."""
        self._newest = next(self._numbers)
        return await anyio.to_thread.run_sync(partial(self._plan, question, self._newest))

    def _plan(self, question: Question, number: int) -> Document:
        def still_wanted(what: str, done: int, total: int) -> None:
            if number != self._newest:
                raise ConflictError("A newer question came before this plan was made.", "Wait for its answer.")

        plan = plan_job(
            agreement_model(question.teachers, question.classes, question.agreement, votes=question.votes),
            epsilon=question.epsilon,
            delta=question.delta,
            samples=question.samples,
            unit=question.unit,
            spread=question.spread,
            min_accuracy=question.min_accuracy,
            progress=still_wanted,
        )
        self._made = question, plan.chosen
        return _document(plan)

    def check(self, asked: int, job: JobRequest) -> None:
        """Raise unless a job that follows the plan is what the newest plan says, of a question that is the job's."""
        made = self._made
        if made is None or not _follows(made[0], made[1], asked, job):
            raise ConflictError(
                "The plan is not that of what the form says now.",
                "Wait for the plan, look at it, and create the job then.",
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
