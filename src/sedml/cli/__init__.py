"""The command line: thin commands over the Python calls.

Exit codes: 0 done, 1 the job failed, 2 the input or the options cannot be used, 3 a check of the result failed.
"""

from __future__ import annotations

import sys

import typer

from sedml.cli.account import account, rotate
from sedml.cli.aggregate import aggregate
from sedml.cli.audit_trail import audit
from sedml.cli.bench import bench
from sedml.cli.cohorts import budget
from sedml.cli.console import console
from sedml.cli.data import data
from sedml.cli.demo import demo, run
from sedml.cli.doctor import doctor
from sedml.cli.job import job
from sedml.cli.kit_files import certify, enrol, provision, rekey
from sedml.cli.output import complain, warnings_shown
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
app.command()(aggregate)
app.command()(demo)
app.command()(run)
app.command()(reproduce)
app.command()(provision)
app.command()(enrol)
app.command()(certify)
app.command()(rekey)
app.command()(serve)
app.command()(up)
app.command()(vote)
app.command()(doctor)
app.command()(console)
app.command()(rotate)
app.command()(audit)
app.command()(budget)
app.add_typer(job, name="job")
app.add_typer(account, name="account")
app.add_typer(bench, name="bench")
app.add_typer(privacy, name="privacy")
app.add_typer(data, name="data")


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
