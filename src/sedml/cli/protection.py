"""Whom epsilon protects: the options `--unit`, `--votes` and `--spread`, and how tables say it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

__all__ = ["SpreadOption", "UnitOption", "VotesOption", "voters"]

UnitOption: TypeAlias = Annotated[
    str,
    typer.Option(
        help="Whom epsilon protects: each organisation with all its votes, or each of those whose data it holds, in a "
        "word such as patient or customer."
    ),
]
VotesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        help="How many votes each organisation has on a sample: one of a model for each of as many disjoint parts of "
        "its data."
    ),
]
SpreadOption: TypeAlias = Annotated[
    int, typer.Option(help="In how many parts one patient or customer may appear, those of all organisations together.")
]


def voters(teachers: int, votes: int) -> str:
    """Who votes: 8 organisations x 31 votes."""
    return f"{teachers:,}" if votes == 1 else f"{teachers:,} organisations x {votes} votes"
