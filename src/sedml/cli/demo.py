"""`sedml demo` and `sedml run`: from private data to a student model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from sedml.cli.output import cost_table, print_json, show, stages
from sedml.errors import require_libraries

if TYPE_CHECKING:
    from sedml.learn.experiment import Experiment, Outcome

__all__ = ["demo", "run"]

_WRONG = 3


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the labels and the figures.")] = Path(
        "sedml-report"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the split and the training; the noise is always fresh.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Let 100 teachers who share no data teach a student to read digits: no download, a few seconds.

    Example: sedml demo --out sedml-report
    """
    from sedml.learn.experiment import Experiment

    _run(Experiment(seed=seed), out, as_json)


def run(
    experiment: Annotated[
        Path, typer.Argument(help="A TOML file; its keys are the fields of sedml.learn.experiment.Experiment.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for the report, the labels and the figures.")] = Path(
        "sedml-report"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Run an experiment: split, train the teachers, vote, aggregate, train the student, report.

    Example: sedml run examples/digits.toml --out results/digits
    """
    from sedml.learn.experiment import read_experiment

    _run(read_experiment(experiment), out, as_json)


def _run(experiment: Experiment, out: Path, as_json: bool) -> None:
    from sedml.lab.report.experiment_page import document, write_results
    from sedml.learn.experiment import run_experiment

    require_libraries("matplotlib", "jinja2")  # for the report, before the training
    with stages() as progress:
        outcome = run_experiment(experiment, progress)
        progress("report", 0, 1)
        write_results(outcome, out)
    if as_json:
        print_json(document(outcome))
    else:
        _print(outcome, out)
    if not outcome.same_as_plain:
        raise typer.Exit(_WRONG)


def _print(outcome: Outcome, out: Path) -> None:
    from sedml.lab.report.experiment_page import accuracy_table, privacy_table

    task = outcome.task
    share = outcome.answered / task.samples
    show(
        f"{task.teachers} teachers voted on {task.samples:,} public samples of {task.classes} classes: "
        f"{outcome.answered:,} found a consensus ({share:.0%}).",
        accuracy_table(outcome),
        privacy_table(outcome),
        cost_table(outcome.stats),
        "Labels agree with plain aggregation for the same noise, bit for bit."
        if outcome.same_as_plain
        else Text("LABELS DIFFER from plain aggregation for the same noise.", style="bold red"),
        f"Report: {out / 'index.html'}",
    )
