"""`sedml data`: data sets where there is a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sedml.cli.output import AsJson, answer, stages

__all__ = ["data"]

data = typer.Typer(help="Data sets to learn from.", no_args_is_help=True)


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
