"""`sedml aggregate`: from a file of predictions to a file of labels."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from sedml.cli.output import AsJson, answer, cost_table, epsilon_rows, size, stages
from sedml.cli.protection import CLASSES, SpreadOption, UnitOption, VotesOption, classes_row, read_class_names, voters
from sedml.errors import InputError
from sedml.privacy.unit import ORGANISATION

if TYPE_CHECKING:
    from sedml.aggregation.budget import CohortBudget
    from sedml.aggregation.one_call import Result


def aggregate(
    predictions: Annotated[
        Path,
        typer.Argument(
            help="Teachers' predictions, one row per teacher, or --votes rows after each other: .npy, .npz, .csv, .tsv "
            "or .parquet."
        ),
    ],
    *,
    classes: Annotated[str, typer.Option(help=CLASSES)],
    threshold: Annotated[
        str, typer.Option(help="How many votes make a consensus: a fraction of all votes (0.6) or a count (150).")
    ],
    sigma: Annotated[float, typer.Option(help="Noise on every count: its standard deviation, in votes.")],
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the labels: .npy, .npz, .csv or .parquet; -1 means no consensus."),
    ] = None,
    unit: UnitOption = ORGANISATION,
    votes: VotesOption = 1,
    spread: SpreadOption = 1,
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
            help="Refuse the job if it costs a unit more than this epsilon (privacy loss: smaller is better)."
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
    as_json: AsJson = False,
) -> None:
    """Aggregate teachers' predictions into private consensus labels.

    Both servers run in this process, so it shows what a deployment would answer and cost, but hides nothing from you.

    Example: sedml aggregate predictions.npy --classes 10 --threshold 0.6 --sigma 40 --out labels.npy

    Example: sedml aggregate predictions.npy --classes 10 --threshold 0.6 --sigma 40 --unit patient --votes 5
    --delta 1e-5 --out labels.npy
    """
    from sedml.aggregation.one_call import aggregate as run
    from sedml.files import check_labels_file, load_predictions, save_labels
    from sedml.protocol.class_names import read_classes

    if out is not None:
        check_labels_file(out)
    elif ledger is not None and not as_json:
        raise InputError(
            "--ledger would charge the cohort for labels that nothing keeps.",
            "Give --out for a file of labels, or --json to print them.",
        )
    count, names = read_classes(read_class_names(classes))
    array = load_predictions(predictions, key, names=names)
    with stages() as progress:
        result = run(
            array,
            classes=names or count,
            threshold=threshold,
            sigma=sigma,
            unit=unit,
            votes=votes,
            spread=spread,
            delta=delta,
            budget=_budget(budget, delta, ledger, cohort),
            progress=progress,
        )
    if out is not None:
        save_labels(out, result.labels, names)
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
    stats = result.stats
    return {
        **{name: value for name, value in asdict(result.task).items() if name != "nonce"},
        "class_names": result.class_names,
        "answered": result.answered,
        **asdict(stats),
        "seconds": stats.seconds,
        "rounds": stats.rounds,
        "server_bytes": stats.server_bytes,
        "teacher_bytes": {"s0": stats.teacher_bytes[0], "s1": stats.teacher_bytes[1]},
        "privacy": None if result.privacy is None else asdict(result.privacy),
    }


def _summary(result: Result) -> Table:
    """A short summary for people."""
    task, stats = result.task, result.stats
    share = result.answered / task.samples
    table = Table(title="Aggregation", title_justify="left", show_header=False)
    table.add_row("teachers", voters(task.teachers, task.votes))
    table.add_row("samples", f"{task.samples:,} of {classes_row(task.classes, result.class_names)}")
    at = f"at {task.threshold:,} of {task.most_votes:,} votes or more"
    table.add_row("consensus", f"{result.answered:,} samples ({share:.1%}), {at}")
    table.add_row("noise", f"sigma {task.sigma:g}")
    table.add_row("a teacher sent", f"{size(stats.teacher_bytes[0])} to S0, {size(stats.teacher_bytes[1])} to S1")
    if result.privacy is not None:
        for what, text in epsilon_rows(result.privacy):
            table.add_row(what, text)
    return table
