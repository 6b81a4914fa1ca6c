"""`aggregate`: the whole product in one call, from predictions to private labels.

Votes are checked, cast as ballots and aggregated by both servers in this process (`both_servers`); privacy is accounted
for, and where a budget is given, nothing is opened that it does not allow (`budget`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.aggregation.both_servers import Stats, run_votes
from sedml.aggregation.budget import CohortBudget, account_task, charge, check_budget, open_ledger, unasked
from sedml.errors import InputError, LedgerError, PredictionsError, counted, warn
from sedml.files import load_predictions
from sedml.privacy.accounting import PrivacyReport, job_report
from sedml.privacy.terms_checks import check_asked_terms
from sedml.privacy.unit import ORGANISATION, Unit
from sedml.protocol.class_names import named, read_classes
from sedml.protocol.task import Task
from sedml.protocol.thresholds import read_threshold, threshold_count
from sedml.protocol.votes import NO_CONSENSUS, Votes, as_votes

_FEW = 0.05
"""The share of samples with a label below which predictions were perhaps transposed."""


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """labels: int64[Q], -1 where there was no consensus."""

    task: Task
    labels: npt.NDArray[np.int64]
    stats: Stats
    privacy: PrivacyReport | None = None
    """What it cost the teachers, where a delta or a budget was given."""
    drawn: int = 0
    """How many samples were drawn; the others were answered from the ledger."""
    class_names: tuple[str, ...] = ()
    """What the classes are called, if they have names."""

    @property
    def answered(self) -> int:
        """How many samples got a label."""
        return int((self.labels != NO_CONSENSUS).sum())

    @property
    def names(self) -> list[str | None]:
        """The class of each sample by its name, or its id if it has none; None where there was no consensus."""
        return named(self.labels, self.class_names or [str(number) for number in range(self.task.classes)])

    def __repr__(self) -> str:
        cost = ""
        if self.privacy is not None:
            cost = f", epsilon {self.privacy.epsilon:.3g} at delta {self.privacy.delta:g}"
        return f"<Result: {self.answered:,} of {self.task.samples:,} samples have a label{cost}>"


def aggregate(
    predictions: object,
    *,
    classes: int | str | Sequence[str],
    threshold: float | str,
    sigma: float,
    unit: str = ORGANISATION,
    votes: int = 1,
    spread: int = 1,
    delta: float | None = None,
    budget: float | CohortBudget | None = None,
    fingerprints: Sequence[bytes] | None = None,
    progress: Progress = silent,
) -> Result:
    """Aggregate teachers' predictions into differentially private consensus labels.

    predictions: (K, Q) class ids, negative where a teacher abstains, or (K, Q, N) scores: an array, a data frame, a
        tensor, lists, or the path of a file (.npy, .npz, .csv, .tsv, .parquet).
    classes: how many there are, or their names, ["benign", "malignant"]: then predictions may be names too, and
        `result.names` has the labels as names.
    threshold: a fraction of all votes (0.6) or a count of votes (150).
    sigma: the standard deviation of the noise on every count, in votes.
    unit: whom epsilon protects: an "organisation", which a teacher is, with all its votes, or one of those whose data
        it holds, such as a "patient", which is in at most `spread` of all teachers' parts.
    votes: how many each teacher has, one for each part: as many rows after each other are one teacher's.
    delta: account for privacy at this delta: `result.privacy`.
    budget: an epsilon that this job may not pass, or the `CohortBudget` that pays for it.
    fingerprints: one for each sample (`sedml.fingerprint`); with a `CohortBudget`, a sample that was
        asked before gets the label it got then, and costs nothing.

    >>> result = aggregate([[0, 1], [0, 1], [0, 0]], classes=2, threshold=2, sigma=0.1)
    >>> result.labels.tolist()
    [0, 1]
    """
    if not callable(progress):
        raise InputError(f"progress is of type {type(progress).__name__}.", "Pass a function of (what, done, total).")
    count, names = read_classes(classes)
    if isinstance(predictions, str | os.PathLike):
        predictions = load_predictions(predictions, names=names)
    cast_votes = as_votes(predictions, count, names)
    protected = Unit(unit, votes, spread)
    rows, samples = cast_votes.shape
    teachers, left = divmod(rows, protected.votes)
    if left:
        raise PredictionsError(
            f"The predictions have {counted(rows, 'row')}, and each teacher has {protected.votes}.",
            "Give as many rows for each teacher, filled with -1 where it has fewer parts.",
        )
    task = Task(
        classes=count,
        samples=samples,
        teachers=teachers,
        threshold=threshold_count(threshold, rows),
        sigma=sigma,
        votes=protected.votes,
    )
    at = budget.delta if delta is None and isinstance(budget, CohortBudget) else delta
    epsilon = budget.epsilon if isinstance(budget, CohortBudget) else budget
    check_asked_terms(
        teachers=teachers,
        votes=task.votes,
        threshold=read_threshold(threshold),
        sigma=task.sigma,
        epsilon=epsilon,
        delta=at,
    )
    result = _paid(cast_votes, task, protected, budget, fingerprints, at, progress)
    if teachers >= 2 * samples and result.answered < _FEW * samples:
        warn(
            f"The predictions were read as those of {counted(teachers, 'teacher')} on {counted(samples, 'sample')}, "
            f"and {result.answered or 'none'} of these got a label.",
            "If it is the other way round, transpose the predictions: they need one row per teacher.",
        )
    return replace(result, class_names=names)


def _paid(
    votes: Votes,
    task: Task,
    unit: Unit,
    budget: float | CohortBudget | None,
    fingerprints: Sequence[bytes] | None,
    delta: float | None,
    progress: Progress,
) -> Result:
    """The job, within its budget if it has one."""
    if isinstance(budget, CohortBudget):
        return _charged(votes, task, unit, budget, fingerprints, budget.delta if delta is None else delta, progress)
    if fingerprints is not None:
        raise InputError("Fingerprints were given without a CohortBudget.", "Pass the budget whose ledger keeps them.")
    if budget is not None:
        if delta is None:
            raise InputError("A budget was given without a delta.", "Pass delta as well, such as 1e-5.")
        check_budget(task, budget, delta, unit)
    return _run(votes, task, unit, delta, progress)


def _run(votes: Votes, task: Task, unit: Unit, delta: float | None, progress: Progress) -> Result:
    """Cast, aggregate, and say what that costs."""
    # First, so that a delta that cannot be used is refused before anything is opened.
    cost = None if delta is None else account_task(task, delta, unit)
    run = run_votes(task, votes, progress)
    return Result(task, run.labels, run.stats, privacy=cost, drawn=task.samples)


def _charged(
    votes: Votes,
    task: Task,
    unit: Unit,
    budget: CohortBudget,
    fingerprints: Sequence[bytes] | None,
    delta: float,
    progress: Progress,
) -> Result:
    """A job that a cohort pays for: only samples that its ledger does not know are drawn."""
    if fingerprints is not None and not isinstance(fingerprints, list | tuple):
        raise InputError(f"The fingerprints are of type {type(fingerprints).__name__}.", "Pass a list of bytes.")
    if fingerprints is not None and len(fingerprints) != task.samples:
        raise InputError(
            f"There are {len(fingerprints)} fingerprints for {task.samples} samples.", "Pass one for each sample."
        )
    account_task(task, delta, unit)  # refuses a delta that cannot be used before anything is charged
    with open_ledger(budget) as ledger:
        if fingerprints is None:
            return charge(ledger, budget.cohort, task, unit, lambda: _run(votes, task, unit, delta, progress), None)
        new = unasked(ledger, budget.cohort, fingerprints)
        nothing = job_report(0, task.sigma, delta, classes=task.classes, unit=unit)
        result = Result(task, np.full(task.samples, NO_CONSENSUS, np.int64), Stats.nothing(), privacy=nothing)
        if new:
            asked = replace(task, samples=len(new))
            keys = [fingerprints[i] for i in new]
            run = partial(_run, votes[:, new], asked, unit, delta, progress)
            result = charge(ledger, budget.cohort, asked, unit, run, keys)
        # What the ledger kept is the answer: another job may have been quicker with the same sample.
        known = ledger.known(budget.cohort, fingerprints)
        labels = [label for label in known if label is not None]
        if len(labels) != task.samples:
            raise LedgerError(
                "The ledger has lost labels that it once held.",
                "Restore it from a backup; do not use any of the labels.",
            )
        return replace(result, task=task, labels=np.array(labels, np.int64))
