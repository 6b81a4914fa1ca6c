"""`sedml demo`, `sedml run` and `sedml data`: from private data to a student model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.text import Text

from sedml.cli.output import AsJson, answer, cost_table, print_json, show, stages
from sedml.extras import require_libraries

if TYPE_CHECKING:
    from sedml.learn.experiment import Experiment, Outcome

data = typer.Typer(name="data", help="Data sets to learn from.", no_args_is_help=True)

_WRONG = 3

_Out = Annotated[Path, typer.Option(help="Folder for the report, the labels and the figures.")]


def demo(
    dataset: Annotated[
        Literal["printed", "digits"],
        typer.Option(help="printed: digits rendered from fonts; digits: 1,797 handwritten ones, too few for privacy."),
    ] = "printed",
    out: _Out = Path("sedml-report"),
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same data, noise and report.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Let teachers who share no data teach a student to read digits: nothing to download, some ten seconds.

    Example: sedml demo --out sedml-report
    """
    from sedml.learn.experiment import DEMONSTRATIONS

    _run(replace(DEMONSTRATIONS[dataset], seed=seed), out, as_json, fixed_noise=True)


def run(
    experiment: Annotated[
        Path, typer.Argument(help="A TOML file; its keys are the fields of sedml.learn.experiment.Experiment.")
    ],
    out: _Out = Path("sedml-report"),
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the data sets are, instead of what the file or SEDML_DATA_DIR says.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Leave out the votes and the teachers' accuracies, which are not private.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment: split, train the teachers, vote, aggregate, train the student, report.

    Example: sedml run examples/digits.toml --out results/digits
    """
    from sedml.learn.experiment import read_experiment

    found = read_experiment(experiment)
    found = replace(found, data_dir=str(data_dir)) if data_dir else found
    _run(found, out, as_json, public=public)


@data.command()
def fetch(
    name: Annotated[str, typer.Argument(help="mnist, fashion-mnist or svhn.")],
    data_dir: Annotated[
        Path | None, typer.Option(envvar="SEDML_DATA_DIR", help="Where to put it. Default: ./data.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download a data set and check its checksums; files that are already there and intact are kept.

    Example: sedml data fetch mnist --data-dir data
    """
    from sedml.learn.fetch import fetch as download

    with stages() as progress:
        files = download(name, data_dir, progress)
    names = [str(path) for path in files]
    answer(as_json, {"files": names}, *names)


def _run(experiment: Experiment, out: Path, as_json: bool, *, public: bool = False, fixed_noise: bool = False) -> None:
    from sedml.lab.report.experiment_page import document, write_results
    from sedml.learn.experiment import run_experiment

    require_libraries("matplotlib", "jinja2")  # for the report, before the training
    with stages() as progress:
        outcome = run_experiment(experiment, progress, fixed_noise=fixed_noise)
        progress("report", 0, 1)
        write_results(outcome, out, public=public)
    if as_json:
        print_json(document(outcome, public=public))
    else:
        _print(outcome, out, public)
    if not outcome.same_as_plain:
        raise typer.Exit(_WRONG)


def _print(outcome: Outcome, out: Path, public: bool) -> None:
    from sedml.lab.report.experiment_page import NOT_FOR_PUBLICATION, accuracy_table, meaning, privacy_table

    task = outcome.task
    share = outcome.answered / task.samples
    show(
        Text(
            f"{task.teachers} teachers voted on {task.samples:,} public samples of {task.classes} classes: "
            f"{outcome.answered:,} found a consensus ({share:.0%})."
        ),
        accuracy_table(outcome, public=public),
        privacy_table(outcome),
        Text(f"{meaning(outcome)}\n"),
        cost_table(outcome.stats),
        "Labels agree with plain aggregation for the same noise, bit for bit."
        if outcome.same_as_plain
        else Text("LABELS DIFFER from plain aggregation for the same noise.", style="bold red"),
    )
    if outcome.own_data and not public:
        show(NOT_FOR_PUBLICATION)
    show(f"Report: {out / 'index.html'}")
