"""`sedml privacy`: what a job costs, which terms a budget allows, and whether the noise does what is claimed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import typer

from sedml.cli.output import print_json, show, stages
from sedml.errors import PredictionsError, TaskError
from sedml.files import load_predictions
from sedml.lab.audit import Fault, Observer
from sedml.lab.audit import audit as run_audit
from sedml.lab.report import asked_table, audit_table, cost_table, figure, paper_table, terms_table, view_table
from sedml.lab.report.utility_plot import check_target, save_utility_plot
from sedml.privacy.accounting import PrivacyReport, job_report
from sedml.privacy.noise import NoiseSource
from sedml.privacy.planning import MIN_ACCURACY, Charged, Plan, plan_job
from sedml.privacy.utility import MEAN_AGREEMENT, Utility, VoteSample, agreement_model, public_votes
from sedml.protocol.votes import as_votes, histogram

__all__ = ["privacy"]

privacy = typer.Typer(
    help="What labels cost in privacy: account for a job, plan one, audit the mechanism.", no_args_is_help=True
)

_Array: TypeAlias = npt.NDArray[Any]

_CLASSES = 10
_DISPROVED = 3


@privacy.callback()
def _group() -> None:
    """What labels cost in privacy: account for a job, plan one, audit the mechanism."""


@privacy.command()
def report(
    samples: Annotated[int, typer.Option(help="Samples Q of the job; each pays for a threshold check.")],
    sigma1: Annotated[float, typer.Option(help="Noise on the threshold check, standard deviation in votes.")],
    sigma2: Annotated[float, typer.Option(help="Noise on the counts, standard deviation in votes.")],
    delta: Annotated[float, typer.Option(help="The delta of all figures, the sampler's part included.")],
    answered: Annotated[
        int | None, typer.Option(help="Samples that got a label; unless given all, the worst case.")
    ] = None,
    noise: Annotated[NoiseSource, typer.Option(help="Who adds noise: 'both' servers, or 's0' alone.")] = "both",
    classes: Annotated[
        int, typer.Option(help="Classes N: how much noise is drawn, for the sampler's part.")
    ] = _CLASSES,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document; null is no guarantee.")] = False,
) -> None:
    """Account for a job: epsilon as the requester, a colluding server and one server see it.

    Example: sedml privacy report --samples 1000 --answered 700 --sigma1 150 --sigma2 40 --delta 1e-5
    """
    if classes < 2:
        raise TaskError(f"The number of classes is {classes}.", "Use 2 or more.")
    worst, spent = (
        job_report(samples, labels, sigma1, sigma2, delta, noise, classes)
        for labels in (samples, samples if answered is None else answered)
    )
    if as_json:
        print_json(_plain(asdict(spent) | {"claim": {"view": "requester", "epsilon": worst.requester.epsilon}}))
        return
    show(view_table(spent), paper_table(spent))
    typer.echo(_claim(worst, spent))


@privacy.command()
def audit(
    samples: Annotated[int, typer.Option(help="Samples of the small job that is audited.")] = 2,
    sigma1: Annotated[float, typer.Option(help="Noise on the threshold check.")] = 1.5,
    sigma2: Annotated[float, typer.Option(help="Noise on the counts.")] = 9.0,
    delta: Annotated[float, typer.Option(help="The delta of the claim.")] = 1e-3,
    classes: Annotated[int, typer.Option(help="Classes N.")] = 2,
    threshold: Annotated[int, typer.Option(help="Votes that a consensus takes.")] = 100,
    noise: Annotated[NoiseSource, typer.Option(help="Who adds noise: 'both' servers, or 's0' alone.")] = "both",
    runs: Annotated[int, typer.Option(help="Runs of the mechanism, for each view.")] = 5_000_000,
    confidence: Annotated[float, typer.Option(help="How sure the lower bound is.")] = 0.999,
    fault: Annotated[Fault | None, typer.Option(help="Plant a fault, to see that the audit would catch it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of a table.")] = False,
) -> None:
    """Run the mechanism itself on worst-case neighbouring votes, and bound its epsilon from below.

    A bound above the claim disproves it: exit code 3. One below proves nothing, but the same audit catches noise of
    half the width, a server's noise missing, and a threshold check that is not paid for (--fault). Its power depends
    on the terms: with much noise the bound is near 0.

    Example: sedml privacy audit --fault half-width
    """
    views: tuple[Observer, ...] = ("requester", "server")
    reports = []
    for view in views:
        with stages() as progress:
            reports.append(
                run_audit(
                    samples=samples,
                    sigma1=sigma1,
                    sigma2=sigma2,
                    delta=delta,
                    classes=classes,
                    threshold=threshold,
                    noise=noise,
                    view=view,
                    runs=runs,
                    confidence=confidence,
                    fault=fault,
                    progress=progress,
                )
            )
    if as_json:
        print_json({"passed": all(found.passed for found in reports), "views": [asdict(found) for found in reports]})
    else:
        terms = f"{samples} samples of {classes} classes, T {threshold}, sigma1 {sigma1:g}, sigma2 {sigma2:g}"
        show(audit_table(reports, f"{terms}, delta {delta:g}, noise by {noise}"))
    if not all(found.passed for found in reports):
        raise typer.Exit(_DISPROVED)


@privacy.command()
def plan(
    epsilon: Annotated[float, typer.Option(help="The budget, for the whole job, in the view of the requester.")],
    delta: Annotated[float, typer.Option(help="Its delta, such as 1e-5.")],
    samples: Annotated[int, typer.Option(help="Samples that could be asked.")],
    teachers: Annotated[int | None, typer.Option(help="Teachers K; unless given, as many as voted in --votes.")] = None,
    classes: Annotated[int, typer.Option(help="Classes N.")] = _CLASSES,
    votes: Annotated[
        Path | None,
        typer.Option(
            help="A public sample of votes: predictions, a row a teacher (as for aggregate), or .npz with counts as "
            "'votes'. True classes as 'labels' in an .npz; without, the plurality counts as right."
        ),
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option(
            help="Without --votes: the mean probability that a teacher is right. It varies over the samples as "
            f"Beta(3m, 3-3m); half of the wrong votes go to one rival class.  \\[default: {MEAN_AGREEMENT:g}]"
        ),
    ] = None,
    min_accuracy: Annotated[
        float, typer.Option(help="The least share of right ones among the labels, in expectation.")
    ] = MIN_ACCURACY,
    charge: Annotated[
        Charged,
        typer.Option(
            help="What must fit the budget: 'reserved', every sample asked answered, as a budget requires before a "
            "job; or the 'expected' answers, for a budget spent over many jobs."
        ),
    ] = "reserved",
    noise: Annotated[NoiseSource, typer.Option(help="Who adds noise: 'both' servers, or 's0' alone.")] = "both",
    plot: Annotated[Path | None, typer.Option(help="Draw utility against epsilon to a .png, .svg or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document; null is no guarantee.")] = False,
) -> None:
    """Find the noise and threshold that label most samples right within a budget.

    Maximises the expected number of right labels, subject to the budget and to --min-accuracy, over sigma1,
    sigma2, the threshold and how many of the samples to ask. Never plan on the votes that the job will use:
    they are private, and terms that follow from them give them away.

    Example: sedml privacy plan --epsilon 2 --delta 1e-5 --samples 1000 --teachers 250 --plot plan.png
    """
    if plot is not None:
        check_target(plot)
    teaching = _teachers(votes, agreement, teachers, classes)
    with stages() as progress:
        found = plan_job(
            teaching,
            epsilon=epsilon,
            delta=delta,
            samples=samples,
            min_accuracy=min_accuracy,
            noise=noise,
            charged=charge,
            progress=progress,
        )
    if plot is not None:
        save_utility_plot(found, plot)
    if as_json:
        print_json(_plain(_plan_document(found) | {"plot": None if plot is None else str(plot)}))
        return
    show(terms_table(found), cost_table(found), asked_table(found))
    for line in _advice(found, plot):
        typer.echo(line)


# ---- Reading ----------------------------------------------------------------------------------------


def _teachers(path: Path | None, agreement: float | None, teachers: int | None, classes: int) -> VoteSample:
    if path is not None and agreement is not None:
        raise TaskError("Both --votes and --agreement were given.", "Use one of them.")
    if path is not None:
        keys = _keys(path)
        labels = load_predictions(path, "labels") if "labels" in keys else None
        return public_votes(_counts(path, keys, classes), labels, teachers)
    if teachers is None:
        raise TaskError("The number of teachers is not known.", "Give --teachers, or a public sample as --votes.")
    return agreement_model(teachers, classes, MEAN_AGREEMENT if agreement is None else agreement)


def _keys(path: Path) -> list[str]:
    with suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]
    return []


def _counts(path: Path, keys: list[str], classes: int) -> _Array:
    """Shape (samples, classes), of predictions or of counts either way round."""
    if "votes" not in keys:
        return histogram(as_votes(load_predictions(path), classes), classes).T
    counts = load_predictions(path, "votes")
    if counts.ndim != 2 or classes not in counts.shape:
        raise PredictionsError(
            f"The votes of {path} have shape {counts.shape}, and there are {classes} classes.",
            "Give the counts as (samples, classes), and --classes if there are not 10.",
        )
    if counts.shape[1] != classes:
        return counts.T
    # Both ways round where there are as many samples as classes: all teachers vote on every sample.
    return (
        counts.T if counts.shape[0] == classes and np.ptp(counts.sum(axis=1)) > np.ptp(counts.sum(axis=0)) else counts
    )


# ---- Writing ----------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same, with null for the infinite, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _claim(worst: PrivacyReport, spent: PrivacyReport) -> str:
    claim = (
        f"The claim is epsilon {figure(worst.requester.epsilon)} at delta {worst.delta:g}: the requester's, by zCDP, "
        f"all {worst.samples:,} samples answered."
    )
    if spent.answered == worst.answered:
        return claim
    return f"{claim} The figures for {spent.answered:,} answers are what a budget is charged, no claim of their own."


def _plan_document(plan: Plan) -> dict[str, Any]:
    def utility(point: Utility) -> dict[str, Any]:
        return asdict(point) | {"accuracy": point.accuracy}

    return asdict(plan) | {
        "chosen": utility(plan.chosen),
        "by_epsilon": [utility(point) for point in plan.by_epsilon],
        "by_asked": [utility(point) for point in plan.by_asked],
        "command": _command_line(plan),
    }


def _advice(plan: Plan, plot: Path | None) -> Iterator[str]:
    chosen = plan.chosen
    if chosen.asked < plan.samples:
        yield "Choose them without looking at votes. Asking more costs more noise and brings no more right labels."
    if chosen.epsilon < 0.95 * plan.epsilon:
        yield f"Part of the budget of epsilon {plan.epsilon:g} is left: using it up would bring hardly anything."
    if plan.charged == "expected" and plan.reserved.requester.epsilon > plan.epsilon:
        yield "The reservation is above the budget: ask in several jobs, each within what the budget has left."
    yield f"To use it, with predictions of {chosen.asked:,} samples:"
    yield f"  {_command_line(plan)}"
    if plot is not None:
        yield f"Plot written to {plot}."


def _command_line(plan: Plan) -> str:
    chosen = plan.chosen
    terms = f"--threshold {chosen.threshold} --sigma1 {chosen.sigma1:g} --sigma2 {chosen.sigma2:g}"
    source = "" if plan.noise == "both" else f" --noise {plan.noise}"
    limit = f"--delta {plan.delta:g} --budget {plan.epsilon:g}"
    return f"sedml aggregate predictions.npy --classes {plan.classes} {terms}{source} {limit} --out labels.npy"
