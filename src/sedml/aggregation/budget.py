"""What a job costs the teachers in privacy, refused before anything is opened if it would cost too much.

`check_budget` refuses a single job; `charge` puts a job through the ledger of its cohort of teachers: spent before the
first bit is opened, samples asked before answered from the ledger. A job that dies on the way stays charged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from sedml.errors import BudgetExceededError, InputError
from sedml.privacy.accounting import PrivacyReport, job_report
from sedml.privacy.charging import job_charge
from sedml.privacy.unit import ORGANISATION, Unit
from sedml.protocol.task import Task

if TYPE_CHECKING:
    from sedml.privacy.ledger import Ledger


class HasLabels(Protocol):
    """What a job returns."""

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """int64[Q], -1 where there was no consensus."""


T = TypeVar("T", bound=HasLabels)


@dataclass(frozen=True)
class CohortBudget:
    """(epsilon, delta) promised to a cohort of teachers once, for all jobs together, kept in a ledger.

    `ledger` is a file, or any SQLAlchemy URL.
    """

    ledger: str | Path
    cohort: str
    epsilon: float
    delta: float
    unit: str = ORGANISATION
    """Whom it protects: an organisation, which a teacher is, or one of those whose data it holds."""


def account_task(task: Task, delta: float, unit: Unit) -> PrivacyReport:
    """A task's cost to a unit, the sampler's inexactness included."""
    return job_report(task.samples, task.sigma, delta, classes=task.classes, unit=unit)


def check_budget(task: Task, epsilon: float, delta: float, unit: Unit) -> None:
    """Raise if the job costs a unit more than epsilon."""
    if not epsilon > 0:
        raise InputError(f"A budget of epsilon = {epsilon} would allow nothing.", "Pass a positive number.")
    cost = account_task(task, delta, unit).epsilon
    if cost > epsilon:
        raise BudgetExceededError(
            f"This job costs epsilon = {cost:.4g} at delta = {delta:g}, and the budget is {epsilon:g}.",
            "Add noise or ask for fewer samples; `sedml privacy plan` finds terms that fit. Nothing was opened.",
        )


def open_ledger(budget: CohortBudget) -> Ledger:
    """The budget's ledger, with the cohort's promise on record."""
    # Imported here because it needs a database library, which nothing else does.
    from sedml.privacy.ledger import Ledger

    ledger = Ledger.open(budget.ledger)
    try:
        ledger.set_budget(budget.cohort, budget.epsilon, budget.delta, budget.unit)
    except BaseException:
        ledger.close()
        raise
    return ledger


def unasked(ledger: Ledger, cohort: str, fingerprints: Sequence[bytes]) -> list[int]:
    """Positions of the samples that must be drawn: never asked before, and each only once."""
    first = {key: position for position, key in reversed(list(enumerate(fingerprints)))}
    known = ledger.known(cohort, fingerprints)
    return [i for i, key in enumerate(fingerprints) if known[i] is None and first[key] == i]


def charge(
    ledger: Ledger,
    cohort: str,
    task: Task,
    unit: Unit,
    run: Callable[[], T],
    fingerprints: Sequence[bytes] | None,
) -> T:
    """Run a job that the cohort pays for, and put its labels on record if its samples have fingerprints.

    Raises `BudgetExceededError` before anything is opened if it does not fit.
    """
    job = task.id.hex()
    # Before any transaction: it may take a moment.
    cost = job_charge(task.samples, task.classes, task.sigma, ledger.status(cohort).order, unit.moves)
    ledger.reserve(cohort, job, cost.rho, cost.distance, unit=unit.name, terms=task.id)
    ledger.start(cohort, job)
    result = run()
    if fingerprints is not None:
        # What this returns is handed out later, by asking the ledger for all samples at once.
        ledger.remember(cohort, job, fingerprints, result.labels.tolist())
    return result
