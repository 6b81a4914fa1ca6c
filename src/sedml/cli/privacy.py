"""`sedml privacy`: what a job costs, which terms a budget allows, and whether the noise does what is claimed."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import numpy.typing as npt
import typer
from rich.text import Text

from sedml.cli.output import answer, stages
from sedml.cli.protection import SpreadOption, UnitOption, VotesOption
from sedml.errors import PredictionsError, TaskError
from sedml.files import load_predictions
from sedml.files.formats import array_names
from sedml.lab.audit import RUNS, Fault, Mechanism, View
from sedml.lab.audit import audit as run_audit
from sedml.lab.report.privacy_tables import (
    advice,
    asked_table,
    audit_table,
    claim,
    cost_table,
    plan_document,
    terms_table,
    votes_table,
)
from sedml.privacy.accounting import job_report
from sedml.privacy.planning import MIN_ACCURACY, Objective, plan_job
from sedml.privacy.terms_checks import check_asked_terms
from sedml.privacy.unit import ORGANISATION, Unit
from sedml.privacy.utility import MEAN_AGREEMENT, VoteSample, agreement_model, public_votes
from sedml.protocol.votes import as_votes, histogram

_GROUP = """What labels cost in privacy: account for a job, plan one, test the noise.

Epsilon bounds how much the answers can reveal about any one teacher's votes,
or about one patient or customer whose data is in a few of them: the smaller,
the more private. Delta is the small probability with which that bound may
fail."""

privacy = typer.Typer(name="privacy", help=_GROUP, no_args_is_help=True)

_CLASSES = 10
_DISPROVED = 3

_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document; null means no guarantee.")]


@privacy.command()
def report(
    *,
    samples: Annotated[int, typer.Option(help="Number of samples in the job, with a label or without.")],
    sigma: Annotated[float, typer.Option(help="Standard deviation of the noise on every count, in votes.")],
    delta: Annotated[float, typer.Option(help="The delta of every figure, the part for inexact noise included.")],
    classes: Annotated[int, typer.Option(help="Number of classes, which says how much noise is drawn.")] = _CLASSES,
    unit: UnitOption = ORGANISATION,
    votes: VotesOption = 1,
    spread: SpreadOption = 1,
    as_json: _Json = False,
) -> None:
    """Work out what a job costs in privacy.

    The cost is epsilon: it bounds how much the requester and one of the two
    operators, working together in any way they like, can learn about any one
    teacher's votes, or about one patient with --unit patient. The smaller it is,
    the more private. Delta is the small probability with which that bound may
    fail.

    Example: sedml privacy report --samples 1000 --sigma 40 --delta 1e-5

    Example: sedml privacy report --samples 50 --sigma 87 --delta 1e-5
    --unit patient --votes 31
    """
    if classes < 2:
        raise TaskError(f"The number of classes is {classes}.", "Use 2 or more.")
    check_asked_terms(samples=samples, delta=delta)
    found = job_report(samples, sigma, delta, classes=classes, unit=Unit(unit, votes, spread))
    answer(as_json, asdict(found), cost_table(found), Text(claim(found)))


@privacy.command()
def audit(
    *,
    runs: Annotated[int, typer.Option(help="How often to run the job, for each claim.")] = RUNS,
    fault: Annotated[Fault | None, typer.Option(help="Plant a fault, to see that the audit catches it.")] = None,
    as_json: _Json = False,
) -> None:
    """Test the claimed privacy by experiment: run the noise on worst-case votes and bound its epsilon from below.

    Epsilon bounds how much the answers can reveal about any one teacher's votes,
    except with probability delta. Two claims are tested: that for the requester
    and one operator together, who leaves out its noise, and that for the
    requester alone. A lower bound above a claim disproves it: exit code 3. A
    bound below it proves nothing, but the same audit catches noise that is 15%
    too narrow, or half as wide, noise that is used twice, and a server that adds
    none: plant one with --fault to see it. With fewer runs, the bound is further
    off.

    Example: sedml privacy audit --fault half-width --runs 1000000
    """
    small = Mechanism(fault=fault)
    reports = []
    for view in get_args(View):
        with stages() as progress:
            reports.append(run_audit(replace(small, view=view), runs=runs, progress=progress))
    passed = all(found.passed for found in reports)
    document = {"passed": passed, "views": [asdict(found) for found in reports]}
    answer(as_json, document, audit_table(reports, small))
    if not passed:
        raise typer.Exit(_DISPROVED)


@privacy.command()
def plan(
    *,
    epsilon: Annotated[
        float,
        typer.Option(
            help="The budget for the whole job: how much the requester and one operator together may learn about any "
            "one teacher's votes, or about one patient with --unit patient. The smaller, the more private."
        ),
    ],
    delta: Annotated[float, typer.Option(help="The small probability with which that may fail, such as 1e-5.")],
    samples: Annotated[int, typer.Option(help="How many samples there are to ask about.")],
    teachers: Annotated[
        int | None,
        typer.Option(help="Number of teachers: organisations that vote. Without it: as many as voted in --sample."),
    ] = None,
    votes: VotesOption = 1,
    unit: UnitOption = ORGANISATION,
    spread: SpreadOption = 1,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = _CLASSES,
    sample: Annotated[
        Path | None,
        typer.Option(
            help="A public sample of votes: predictions with one row per vote, -1 where it abstains, as for sedml "
            "aggregate, or an .npz file with counts (samples, classes) as 'votes'. An .npz file may hold the true "
            "classes as 'labels'; without them, the class with the most votes counts as right."
        ),
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option(
            help="Without --sample: how often a vote that is cast is right, on average. It varies from sample to "
            "sample as Beta(3a, 3-3a), and half of the wrong votes go to one rival class.  "
            f"\\[default: {MEAN_AGREEMENT:g}]"
        ),
    ] = None,
    abstain: Annotated[
        float, typer.Option(help="Without --sample: the share of the votes that abstain, such as 0.2.")
    ] = 0.0,
    objective: Annotated[
        Objective,
        typer.Option(help="What the labels are for: 'student' asks for fewer and cleaner ones, to train a model on."),
    ] = "labels",
    min_accuracy: Annotated[
        float | None,
        typer.Option(
            help="At least this share of the labels must be right, in expectation.  \\[default: "
            f"{MIN_ACCURACY['labels']:g}, or {MIN_ACCURACY['student']:g} for a student]"
        ),
    ] = None,
    as_json: _Json = False,
) -> None:
    """Find the noise and the threshold that get the most samples labelled right within a privacy budget.

    It searches over sigma, the threshold and how many of the samples to ask
    about, keeps the threshold above what one organisation reaches alone, and
    says what more votes or more organisations would bring. Never plan on the
    votes that the job will use: they are private, and terms chosen by looking at
    them give them away.

    Example: sedml privacy plan --epsilon 2 --delta 1e-5 --samples 1000
    --teachers 250

    Example: sedml privacy plan --epsilon 1 --delta 1e-5 --samples 1000
    --teachers 8 --votes 31 --unit patient --agreement 0.9
    """
    teaching = _teachers(sample, agreement, abstain, teachers, votes, classes)
    with stages() as progress:
        found = plan_job(
            teaching,
            epsilon=epsilon,
            delta=delta,
            samples=samples,
            unit=unit,
            spread=spread,
            objective=objective,
            min_accuracy=min_accuracy,
            more=True,
            progress=progress,
        )
    tables = terms_table(found), asked_table(found), votes_table(found)
    answer(as_json, plan_document(found), *tables, *advice(found))


def _teachers(
    path: Path | None, agreement: float | None, abstain: float, teachers: int | None, votes: int, classes: int
) -> VoteSample:
    if path is not None and (agreement is not None or abstain):
        given = "--agreement" if agreement is not None else "--abstain"
        raise TaskError(f"Both --sample and {given} were given.", "Use one of them: a sample shows how teachers vote.")
    if path is not None:
        counts, voters = _read_counts(path, classes)
        return public_votes(counts, _read_truth(path), teachers, votes=votes, voters=voters)
    if teachers is None:
        raise TaskError("The number of teachers is not known.", "Give --teachers, or a public sample as --sample.")
    mean = MEAN_AGREEMENT if agreement is None else agreement
    return agreement_model(teachers, classes, mean, votes=votes, abstain=abstain)


def _read_counts(path: Path, classes: int) -> tuple[npt.NDArray[Any], int | None]:
    """Vote counts (samples, classes): of predictions, one row per vote, or of the 'votes' of an .npz file.

    With them, how many could have voted, if that is known.
    """
    if "votes" not in array_names(path):
        cast = as_votes(load_predictions(path), classes)
        return histogram(cast, classes).T, len(cast)
    counts = load_predictions(path, "votes")
    if counts.ndim != 2 or counts.shape[1] != classes:
        raise PredictionsError(
            f"The votes in {path} have shape {counts.shape}, and there are {classes} classes.",
            "Give the counts as (samples, classes), and --classes if there are not 10.",
        )
    return counts, None


def _read_truth(path: Path) -> npt.NDArray[Any] | None:
    """The true classes (samples,) beside the votes of an .npz file, None if it has none."""
    return load_predictions(path, "labels") if "labels" in array_names(path) else None
