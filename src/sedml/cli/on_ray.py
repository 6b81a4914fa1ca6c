"""`--ray`: where commands that train do so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from sedml.learn.cluster import Cluster

__all__ = ["RayOption", "on_cluster"]

RayOption = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="auto|ADDRESS",
        help="Train as tasks of a Ray cluster: at this address, or 'auto' for one on this machine.",
    ),
]


@contextmanager
def on_cluster(address: str | None) -> Iterator[Cluster | None]:
    """The cluster that was asked for, or none."""
    if address is None:
        yield None
        return
    from sedml.learn.cluster import connected

    with connected(address) as cluster:
        yield cluster
