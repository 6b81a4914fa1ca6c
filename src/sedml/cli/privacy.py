"""`sedml privacy`: what a job costs, and which terms a budget allows."""

from __future__ import annotations

import math
import zipfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from sedml.cli.output import print_json, progress_bar, show
from sedml.errors import PredictionsError, TaskError
from sedml.files import load_predictions
from sedml.privacy.accounting import PrivacyReport
from sedml.privacy.noise import NoiseSource
from sedml.privacy.planning import (
    MEAN_AGREEMENT,
    MIN_ACCURACY,
    Charged,
    Plan,
    VoteSample,
    agreement_model,
    job_report,
    plan_job,
    public_votes,
)
from sedml.report.utility_plot import check_target, save_utility_plot
from sedml.votes import as_votes, histogram

__all__ = ["plan_command", "privacy"]

privacy = typer.Typer(help="What labels cost in privacy: account for a job, plan one.", no_args_is_help=True)

_CLASSES = 10


@privacy.callback()
def _group() -> None:
    """What labels cost in privacy: account for a job, plan one."""


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
    classes: Annotated[int, typer.Option(help="Classes N: how much noise is drawn, for the sampler's part.")] = _CLASSES,
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
    show(_view_table(spent), _paper_table(spent))
    typer.echo(_claim(worst, spent))


@privacy.command(name="plan")
def plan_command(
    epsilon: Annotated[float, typer.Option(help="The budget, for the whole job, in the view of the requester.")],
    delta: Annotated[float, typer.Option(help="Its delta, such as 1e-5.")],
    samples: Annotated[int, typer.Option(help="Samples that could be asked.")],
    teachers: Annotated[
        int | None, typer.Option(help="Teachers K; unless given, as many as voted in --votes.")
    ] = None,
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
    with progress_bar("planning", 1) as progress:
        plan = plan_job(
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
        save_utility_plot(plan, plot)
    if as_json:
        accuracy = {"accuracy": plan.chosen.accuracy}
        document = asdict(plan) | {"chosen": asdict(plan.chosen) | accuracy, "command": _command_line(plan)}
        print_json(_plain(document | {"plot": None if plot is None else str(plot)}))
        return
