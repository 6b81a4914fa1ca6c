"""`sedml aggregate`: from a file of predictions to a file of labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sedml.cli.output import AsJson, answer, cost_table, duration, size, stages
from sedml.errors import InputError
from sedml.protocol.task import Protocol

if TYPE_CHECKING:
    from sedml.aggregation.budget import CohortBudget
    from sedml.aggregation.one_call import Result

__all__ = ["aggregate"]


def aggregate(
    predictions: Annotated[
        Path,
        typer.Argument(help="Teachers' predictions, one row per teacher: .npy, .npz, .csv, .tsv or .parquet."),
    ],
    *,
    classes: Annotated[int, typer.Option(help="How many classes there are.")],
    threshold: Annotated[
        str, typer.Option(help="How many votes make a consensus: a fraction of the teachers (0.6) or a count (150).")
    ],
    sigma1: Annotated[float, typer.Option(help="Noise on the threshold check: its standard deviation, in votes.")],
    sigma2: Annotated[float, typer.Option(help="Noise on the counts: its standard deviation, in votes.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the labels: .npy, .npz, .csv or .parquet; -1 means no consensus."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            help="Report what the job costs in privacy at this delta, "
            "the small probability (such as 1e-5) with which epsilon may fail to hold."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="Refuse the job if it could cost a teacher more than this epsilon (privacy loss: smaller is better)."
        ),
    ] = None,
    ledger: Annotated[
        str | None,
        typer.Option(
            help="Charge the job to the budget of a cohort (teachers who share one), kept in this file or database URL."
        ),
    ] = None,
    cohort: Annotated[str, typer.Option(help="Which cohort's budget in the ledger to charge.")] = "teachers",
    key: Annotated[str | None, typer.Option(help="Which array of an .npz file to read, by name.")] = None,
    protocol: Annotated[
        Protocol, typer.Option(help="'fused' takes the least traffic; 'garbled' three rounds, on garbled circuits.")
    ] = "fused",
    as_json: AsJson = False,
) -> None:
    """Aggregate teachers' predictions into private consensus labels.

    Both servers run in this process, so it shows what a deployment would answer and cost, but hides nothing from you.

    Example: sedml aggregate predictions.npy --classes 10 --threshold 0.6 --sigma1 40 --sigma2 40 --out labels.npy
    """
    from sedml.aggregation.one_call import aggregate as run
    from sedml.files import check_labels_file, load_predictions, save_labels

    if out is not None:
        check_labels_file(out)
    elif ledger is not None and not as_json:
        raise InputError(
            "--ledger would charge the cohort for labels that nothing keeps.",
            "Give --out for a file of labels, or --json to print them.",
        )
    array = load_predictions(predictions, key)
    with stages() as progress:
        result = run(
            array,
            classes=classes,
            threshold=threshold,
            sigma1=sigma1,
            sigma2=sigma2,
            delta=delta,
            budget=_budget(budget, delta, ledger, cohort),
            protocol=protocol,
            progress=progress,
        )
    if out is not None:
        save_labels(out, result.labels)
    labels = {"out": None, "labels": result.labels.tolist()} if out is None else {"out": str(out)}
    kept = f"Labels written to {out}." if out else "The labels were not kept: give --out to write them to a file."
    answer(as_json, _document(result) | labels, _summary(result), cost_table(result.stats), kept)


def _budget(epsilon: float | None, delta: float | None, ledger: str | None, cohort: str) -> float | CohortBudget | None:
    if ledger is None:
        return epsilon
    if epsilon is None or delta is None:
        raise typer.BadParameter("--ledger needs --budget and --delta.", param_hint="--ledger")
    from sedml.aggregation.budget import CohortBudget

    return CohortBudget(ledger, cohort, epsilon, delta)


def _document(result: Result) -> dict[str, Any]:
    """A result as JSON, without its labels."""
    task, stats = result.task, result.stats
    return {
        "teachers": task.teachers,
        "samples": task.samples,
        "classes": task.classes,
        "threshold": task.threshold,
        "sigma1": task.sigma1,
        "sigma2": task.sigma2,
        "protocol": task.protocol,
        "answered": result.answered,
        "ring_bits": stats.ring_bits,
        "phases": {phase: asdict(cost) for phase, cost in stats.phases.items()},
        "seconds": stats.seconds,
        "rounds": stats.rounds,
        "server_bytes": stats.server_bytes,
        "offline": asdict(stats.offline),
        "teacher_bytes": {"s0": stats.teacher_bytes[0], "s1": stats.teacher_bytes[1]},
        "privacy": None if result.privacy is None else asdict(result.privacy),
        "privacy_bound": None if result.privacy_bound is None else asdict(result.privacy_bound),
    }


def _summary(result: Result) -> Table:
    """A short summary for people."""
    task, stats = result.task, result.stats
    share = result.answered / task.samples
    table = Table(title="Aggregation", title_justify="left", show_header=False)
    table.add_row("teachers", f"{task.teachers:,}")
    table.add_row("samples", f"{task.samples:,} of {task.classes} classes")
    table.add_row("consensus", f"{result.answered:,} samples ({share:.1%}), at {task.threshold} votes or more")
    table.add_row("noise", f"sigma1 {task.sigma1:g}, sigma2 {task.sigma2:g}")
    table.add_row("protocol", f"{task.protocol}, rings of up to {task.widths.counts} bits")
    table.add_row("a teacher sent", f"{size(stats.teacher_bytes[0])} to S0, {size(stats.teacher_bytes[1])} to S1")
    table.add_row("randomness made", f"with {size(stats.offline.bytes)}, in {duration(stats.offline.seconds)}")
    if result.privacy is not None and result.privacy_bound is not None:
        spent, bound = result.privacy, result.privacy_bound
        for view, limit in zip(spent.views, bound.views, strict=True):
            text = f"{view.epsilon:.3g} spent, {limit.epsilon:.3g} at most, delta {spent.delta:g}"
            table.add_row(f"epsilon, {view.observer}", text)
    return table
