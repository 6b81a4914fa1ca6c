"""`sedml demo`: the main job in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer
from rich.table import Table

from sedml.aggregation import Result, aggregate
from sedml.bench.workload import random_votes
from sedml.cli.aggregate import result_document, result_table
from sedml.cli.output import cost_table, print_json, progress_bar, show
from sedml.errors import FileFormatError
from sedml.files import load_predictions
from sedml.ideal import NO_CONSENSUS
from sedml.votes import histogram

__all__ = ["demo"]

_PREDICTIONS = Path("mnist_predictions") / "predictions.npz"
_GENERATED = 5000, 10, 250
_SEED = 7


def demo(
    data_dir: Annotated[
        Path | None,
        typer.Option(envvar="SEDML_DATA_DIR", help="Folder with mnist_predictions/predictions.npz, if you have it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")] = False,
) -> None:
    """Label a public data set by 250 teachers' votes, through two servers, with noise.

    With --data-dir the votes of 250 real networks on MNIST's test images; without, a generated ensemble.

    Example: SEDML_DATA_DIR=data sedml demo
    """
    source, votes, truth = _votes(data_dir)
    with progress_bar("aggregating", votes.shape[1]) as progress:
        result = aggregate(votes, classes=10, threshold=0.6, sigma1=40.0, sigma2=40.0, progress=progress)
    quality = _quality(result, votes, truth)
    if as_json:
        print_json({"source": source, **quality, **result_document(result)})
        return
    table = Table(title="Labels", title_justify="left")
    table.add_column("of the public data set")
    table.add_column("right", justify="right")
    table.add_row("what the requester gets (consensus, noise)", f"{quality['label_accuracy']:.2%}")
    table.add_row("plain plurality of all votes, no privacy", f"{quality['plurality_accuracy']:.2%}")
    table.add_row("the best teacher alone", f"{quality['best_teacher_accuracy']:.2%}")
    show(f"Votes: {source}", result_table(result), cost_table(result.stats), table)


def _votes(data_dir: Path | None) -> tuple[str, npt.NDArray[np.signedinteger], npt.NDArray[np.signedinteger]]:
    if data_dir is None:
        samples, classes, teachers = _GENERATED
        votes, truth = random_votes(samples, classes, teachers, _SEED)
        return "a generated ensemble (set SEDML_DATA_DIR for real ones)", votes, truth
    path = data_dir / _PREDICTIONS
    if not path.is_file():
        raise FileFormatError(
            f"{path} does not exist.",
            "Point --data-dir or SEDML_DATA_DIR at the folder that holds mnist_predictions, or leave it unset.",
        )
    return (
        "250 small networks on MNIST's test images",
        load_predictions(path, "predictions"),
        load_predictions(path, "labels"),
    )


def _quality(
    result: Result, votes: npt.NDArray[np.signedinteger], truth: npt.NDArray[np.signedinteger]
) -> dict[str, float]:
    answered = result.labels != NO_CONSENSUS
    plurality = histogram(votes, result.task.classes).argmax(axis=0)
    return {
        "label_accuracy": float((result.labels == truth)[answered].mean()) if answered.any() else 0.0,
        "plurality_accuracy": float((plurality == truth).mean()),
        "best_teacher_accuracy": float((votes == truth).mean(axis=1).max()),
    }
