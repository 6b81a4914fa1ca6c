"""The command line: thin commands over the Python calls.

Exit codes: 0 done, 1 the job failed, 2 the input or the options cannot be used, 3 a check of the result failed.
"""

from __future__ import annotations

import sys
from typing import Any

import typer

from sedml.cli.aggregate import aggregate
from sedml.cli.bench import bench
from sedml.cli.cohorts import budget
from sedml.cli.console import console
from sedml.cli.doctor import doctor
from sedml.cli.job import job
from sedml.cli.kit_files import certify, enrol, provision, rekey, rotate
from sedml.cli.learning import data, demo, run
from sedml.cli.operator import account, audit
from sedml.cli.output import complain, warnings_shown
from sedml.cli.parts import shard, train
from sedml.cli.privacy import privacy
from sedml.cli.reproduce import reproduce
from sedml.cli.serve import serve, up
from sedml.cli.vote import vote
from sedml.errors import SedmlError, explain_missing

__all__ = ["app", "main"]

app = typer.Typer(
    name="sedml",
    help="Teach one model together without sharing data: private, secure aggregation of teacher votes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)
_PANELS: dict[str, tuple[Any, ...]] = {
    "Try it": (demo, up, aggregate, run),
    "Teachers": (enrol, shard, train, vote),
    "Requesters": (job,),
    "Everybody with a kit": (console, doctor, budget, rotate),
    "Operators": (provision, serve, account, audit, certify, rekey),
    "Plan and measure": (privacy, bench, reproduce, data),
}
for panel, commands in _PANELS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and what the hot loops run on, and exit."),
) -> None:
    if version:
        import sedml
        from sedml.mpc.kernel import kernel_in_use

        typer.echo(f"sedml {sedml.__version__}")
        typer.echo(f"kernel: {kernel_in_use()}")
        raise typer.Exit
    context.with_resource(warnings_shown())


def main() -> None:
    """The `sedml` command."""
    try:
        with explain_missing():
            app()
    except SedmlError as error:
        sys.exit(complain(error))
    except KeyboardInterrupt:
        sys.exit(130)
