"""`sedml privacy`: what a job costs, which terms a budget allows, and whether the noise does what is claimed."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from secrets import SystemRandom
from typing import Annotated, get_args

import typer

from sedml.cli.output import print_json, show, stages
from sedml.cli.vote_counts import read_answered, read_counts, read_threshold, read_truth
from sedml.errors import TaskError
from sedml.lab.audit import CONFIDENCE, RUNS, Fault, Mechanism, Part
from sedml.lab.audit import audit as run_audit
from sedml.lab.data_dependent import analyse
from sedml.lab.report import analysis_table, audit_table, claim, paper_table, release_table, view_table
from sedml.lab.report.plan_tables import advice, asked_table, cost_table, plan_document, terms_table
from sedml.lab.report.utility_plot import check_target, save_utility_plot
from sedml.lab.smooth_release import NOISE_FACTOR, smooth_release
from sedml.privacy.accounting import job_report
from sedml.privacy.planning import MIN_ACCURACY, Charged, Objective, plan_job
from sedml.privacy.sensible import check_sensible
from sedml.privacy.utility import MEAN_AGREEMENT, VoteSample, agreement_model, public_votes
from sedml.protocol.votes import threshold_count

__all__ = ["privacy"]

# A help text keeps its line breaks: lines longer than a terminal's would be broken twice.
_GROUP = """What labels cost in privacy: account for a job, plan one, test the noise.

Epsilon bounds how much the answers can reveal about any one teacher's votes:
the smaller, the more private. Delta is the small probability with which that
bound may fail."""

privacy = typer.Typer(help=_GROUP, no_args_is_help=True)

_CLASSES = 10
_DISPROVED = 3
_PRIVATE = (
    "All of these figures depend on the votes and are as private as the votes are: do not publish them. "
    "--publish prints one that may be published."
)

_Sigma1 = Annotated[float, typer.Option(help="Standard deviation of the noise on the threshold check, in votes.")]
_Sigma2 = Annotated[float, typer.Option(help="Standard deviation of the noise on the counts, in votes.")]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON document; null means no guarantee.")]


@privacy.callback(help=_GROUP)
def _group() -> None:
    pass


@privacy.command()
def report(
    *,
    samples: Annotated[int, typer.Option(help="Number of samples in the job. Each pays for a threshold check.")],
    sigma1: _Sigma1,
    sigma2: _Sigma2,
    delta: Annotated[float, typer.Option(help="The delta of every figure, the part for inexact noise included.")],
    answered: Annotated[
        int | None, typer.Option(help="Number of samples that got a label. Without it: all, the worst case.")
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes, which says how much noise is drawn.")] = _CLASSES,
    as_json: _Json = False,
) -> None:
    """Work out what a job costs in privacy, as the requester, a colluding server and one server see it.

    The cost is epsilon: it bounds how much the answers can reveal about any one
    teacher's votes, and the smaller it is, the more private. Delta is the small
    probability with which that bound may fail.

    Example: sedml privacy report --samples 1000 --answered 700
    --sigma1 150 --sigma2 40 --delta 1e-5
    """
    if classes < 2:
        raise TaskError(f"The number of classes is {classes}.", "Use 2 or more.")
    check_sensible(samples=samples, delta=delta)
    worst, spent = (
        job_report(samples, labels, sigma1, sigma2, delta, classes=classes)
        for labels in (samples, samples if answered is None else answered)
    )
    if as_json:
        print_json(asdict(spent) | {"claim": {"view": "requester", "epsilon": worst.requester.epsilon}})
        return
    show(view_table(spent), paper_table(spent))
    typer.echo(claim(worst, spent))


@privacy.command()
def audit(
    *,
    samples: Annotated[
        int, typer.Option(help="Number of samples in the small job that is tested.")
    ] = Mechanism.samples,
    sigma1: _Sigma1 = Mechanism.sigma1,
    sigma2: _Sigma2 = Mechanism.sigma2,
    delta: Annotated[float, typer.Option(help="The delta of the claim.")] = Mechanism.delta,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = Mechanism.classes,
    threshold: Annotated[int, typer.Option(help="How many votes a consensus takes.")] = Mechanism.threshold,
    runs: Annotated[
        int, typer.Option(help="How often to run the job, for each claim; checks alone are run four times as often.")
    ] = RUNS,
    confidence: Annotated[float, typer.Option(help="How sure the lower bound must be.")] = CONFIDENCE,
    fault: Annotated[Fault | None, typer.Option(help="Plant a fault, to see that the audit catches it.")] = None,
    as_json: _Json = False,
) -> None:
    """Test the claimed privacy by experiment: run the noise on worst-case votes and bound its epsilon from below.

    Epsilon bounds how much the answers can reveal about any one teacher's votes,
    except with probability delta. Three claims are tested: that of the checks as
    a server sees them, that of the labels alone, and that of the whole job. A
    lower bound above a claim disproves it: exit code 3. A bound below it proves
    nothing, but here it comes within a fifth of the claim, and the same audit
    catches noise that is 15 % too narrow, or half as wide, noise that is used
    twice, a server that adds none, and a threshold check that is not paid for:
    plant one with --fault to see it. With a lot of noise, a tiny delta or fewer
    runs, the bound is further off.

    Example: sedml privacy audit --fault half-width --runs 1000000
    """
    check_sensible(samples=samples, delta=delta)
    small = Mechanism(samples, sigma1, sigma2, delta, classes=classes, threshold=threshold, fault=fault)
    reports = []
    for part in get_args(Part):
        with stages() as progress:
            tested = replace(small, part=part)
            reports.append(run_audit(tested, runs=runs, confidence=confidence, progress=progress))
    if as_json:
        print_json({"passed": all(found.passed for found in reports), "parts": [asdict(found) for found in reports]})
    else:
        show(audit_table(reports, small))
    if not all(found.passed for found in reports):
        raise typer.Exit(_DISPROVED)


@privacy.command()
def plan(
    *,
    epsilon: Annotated[
        float,
        typer.Option(
            help="The budget for the whole job: how much the answers may reveal about any one teacher's votes, as the "
            "requester sees it. The smaller, the more private."
        ),
    ],
    delta: Annotated[float, typer.Option(help="The small probability with which that may fail, such as 1e-5.")],
    samples: Annotated[int, typer.Option(help="How many samples there are to ask about.")],
    teachers: Annotated[
        int | None, typer.Option(help="Number of teachers. Without it: as many as voted in --votes.")
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = _CLASSES,
    votes: Annotated[
        Path | None,
        typer.Option(
            help="A public sample of votes: predictions with one row per teacher, as for sedml aggregate, or an .npz "
            "file with counts as 'votes'. An .npz file may hold the true classes as 'labels'; without them, the class "
            "with the most votes counts as right."
        ),
    ] = None,
    agreement: Annotated[
        float | None,
        typer.Option(
            help="Without --votes: how often a teacher is right, on average. It varies from sample to sample as "
            f"Beta(3m, 3-3m), and half of the wrong votes go to one rival class.  \\[default: {MEAN_AGREEMENT:g}]"
        ),
    ] = None,
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
    charge: Annotated[
        Charged,
        typer.Option(
            help="What must fit the budget: 'reserved' counts every sample asked as answered, as a budget requires "
            "before a job; 'expected' counts the answers to expect, for a budget spent over many jobs."
        ),
    ] = "reserved",
    plot: Annotated[
        Path | None, typer.Option(help="Draw how many labels each budget buys, to a .png, .svg or .pdf file.")
    ] = None,
    as_json: _Json = False,
) -> None:
    """Find the noise and the threshold that get the most samples labelled right within a privacy budget.

    It searches over sigma1, sigma2, the threshold and how many of the samples to
    ask about. Never plan on the votes that the job will use: they are private,
    and terms chosen by looking at them give them away.

    Example: sedml privacy plan --epsilon 2 --delta 1e-5 --samples 1000
    --teachers 250 --plot plan.png
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
            objective=objective,
            min_accuracy=min_accuracy,
            charged=charge,
            progress=progress,
        )
    if plot is not None:
        save_utility_plot(found, plot)
    if as_json:
        print_json(plan_document(found) | {"plot": None if plot is None else str(plot)})
        return
    show(terms_table(found), cost_table(found), asked_table(found))
    for line in advice(found, plot):
        typer.echo(line)


@privacy.command()
def data_dependent(
    votes: Annotated[
        Path,
        typer.Argument(
            help="The teachers' votes in the clear: predictions with one row per teacher, as for sedml aggregate, or "
            "an .npz file with counts as 'votes'."
        ),
    ],
    *,
    threshold: Annotated[
        str, typer.Option(help="How many votes make a consensus: a fraction of the teachers (0.6) or a count (150).")
    ],
    sigma1: _Sigma1,
    sigma2: _Sigma2,
    delta: Annotated[float, typer.Option(help="The small probability with which the bound may fail, such as 1e-5.")],
    classes: Annotated[int, typer.Option(help="Number of classes.")] = _CLASSES,
    publish: Annotated[
        Path | None,
        typer.Option(
            help="Print only a figure that may be published, with noise drawn for it. Takes the labels that the job "
            "gave for these votes, as sedml aggregate --out writes them. Needs --order."
        ),
    ] = None,
    order: Annotated[
        float | None,
        typer.Option(
            help="For --publish: the order of the Rényi divergence at which epsilon is computed, such as 14. Choose it "
            "without looking at these votes."
        ),
    ] = None,
    noise_factor: Annotated[
        float, typer.Option(help="For --publish: noise on the figure. More costs less epsilon and blurs it more.")
    ] = NOISE_FACTOR,
    as_json: _Json = False,
) -> None:
    """Work out what given votes cost in privacy, which is less than the worst case where the teachers agree.

    Epsilon bounds how much the answers can reveal about any one teacher's votes,
    except with probability delta. This analysis (Papernot et al., PATE, 2018)
    needs the votes in the clear. So it is for research, not for a deployment,
    where nobody has them.

    Its figures depend on the private votes and must not be published as they
    are. To publish one, use --publish: it adds noise scaled to the smooth
    sensitivity of the figure, adds what publishing costs, and prints only the
    result. Publish once: a second figure would cost as much again.

    Example: sedml privacy data-dependent votes.npz --threshold 200
    --sigma1 150 --sigma2 40 --delta 1e-5

    Example: sedml privacy data-dependent votes.npz --threshold 200
    --sigma1 150 --sigma2 40 --delta 1e-5 --publish labels.npy --order 14
    """
    counts = read_counts(votes, classes)
    voted, asked = int(counts.sum(axis=1).max()), read_threshold(threshold)
    check_sensible(teachers=voted, threshold=asked, sigma1=sigma1, delta=delta)
    needed = threshold_count(asked, voted)
    if publish is None:
        found = analyse(counts, threshold=needed, sigma1=sigma1, sigma2=sigma2, delta=delta)
        if as_json:
            print_json(asdict(found) | {"delta": delta, "may_be_published": False})
            return
        show(analysis_table(found, delta), _PRIVATE)
        return
    if order is None:
        raise TaskError("--publish needs an order.", "Choose --order without looking at the votes, such as 14.")
    answered = read_answered(publish)
    made = smooth_release(
        counts,
        answered,
        threshold=needed,
        sigma1=sigma1,
        sigma2=sigma2,
        delta=delta,
        order=order,
        noise_factor=noise_factor,
    )
    document = {
        "queries": len(counts),
        "answered": int(answered.sum()),
        "epsilon": made.release(SystemRandom().gauss(0.0, 1.0)),
        "cost_of_publishing": made.cost,
        "independent": made.independent,
        "delta": delta,
        "order": order,
        "noise_factor": noise_factor,
        "may_be_published": True,
    }
    if as_json:
        print_json(document)
    else:
        show(release_table(document))


def _teachers(path: Path | None, agreement: float | None, teachers: int | None, classes: int) -> VoteSample:
    if path is not None and agreement is not None:
        raise TaskError("Both --votes and --agreement were given.", "Use one of them.")
    if path is not None:
        return public_votes(read_counts(path, classes), read_truth(path), teachers)
    if teachers is None:
        raise TaskError("The number of teachers is not known.", "Give --teachers, or a public sample as --votes.")
    return agreement_model(teachers, classes, MEAN_AGREEMENT if agreement is None else agreement)
