"""What jobs are asked for with: `--classes`, and whom epsilon protects (`--unit`, `--votes`, `--spread`)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from sedml.errors import TaskError, counted
from sedml.files.formats import reason

CLASSES = "How many classes there are; or their names, as in benign,malignant; or a file with a name on each line."

UnitOption: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Whom epsilon protects: each organisation with all its votes, or each of those whose data it holds: say "
        "patient, customer, or another word."
    ),
]
VotesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many votes each organisation has on a sample: one for each of the disjoint parts of its data, from a "
        "model of that part."
    ),
]
SpreadOption: TypeAlias = Annotated[
    int, typer.Option(help="In how many parts, counted over all organisations, one patient or customer may appear.")
]


def read_class_names(classes: str) -> str | list[str]:
    """What `--classes` says: a number or names as they are, or the names in a file."""
    if "," in classes or classes.strip().isdecimal():
        return classes
    try:
        lines = Path(classes).read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        why = reason(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TaskError(
            f"--classes {classes!r} is neither a number nor a list of names, and cannot be read as a file ({why}).",
            "Write --classes 3, --classes benign,malignant, or the name of a file with one name on each line.",
        ) from None
    return [line for line in lines if line.strip()]


def classes_row(classes: int, names: tuple[str, ...]) -> str:
    """How tables say it: 3 classes: benign, malignant, normal."""
    from sedml.protocol.class_names import shown_names

    return f"{classes} classes" + (f": {shown_names(names)}" if names else "")


def voters(teachers: int, votes: int) -> str:
    """Who votes: 8 organisations x 31 votes."""
    return f"{teachers:,}" if votes == 1 else f"{counted(teachers, 'organisation')} x {votes} votes"
