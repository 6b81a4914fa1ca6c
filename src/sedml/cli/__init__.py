"""The command line: thin commands over the Python calls.

Exit codes: 0 done, 1 the job failed, 2 the input or the options cannot be used, 3 a check of the result failed.
"""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from sedml.cli.output import complain, warnings_shown
from sedml.errors import SedmlError
from sedml.extras import explain_missing

__all__ = ["app", "main"]

_PANELS = {
    "Try it": {"demo": "learning", "up": "serve", "aggregate": "aggregate", "run": "learning"},
    "Teachers": {"enrol": "kit_files", "shard": "parts", "train": "parts", "vote": "vote", "receipts": "log"},
    "Requesters": {"job": "job"},
    "Everybody with a kit": {
        "console": "console",
        "doctor": "doctor",
        "budget": "cohorts",
        "log": "log",
        "witness": "log",
        "evidence": "evidence",
        "rotate": "kit_files",
    },
    "Operators": {
        "provision": "kit_files",
        "serve": "serve",
        "account": "operator",
        "certify": "kit_files",
        "rekey": "kit_files",
    },
    "Plan and measure": {"privacy": "privacy", "bench": "bench", "reproduce": "reproduce", "data": "learning"},
}
"""Every command, by who uses it, and the module that has it: imported when the command is asked for."""

_MANY = 10_000
"""Objects that may have come since garbage was last looked for."""
_SETTINGS: Any = {"help_option_names": ["-h", "--help"]}


class _Made(Mapping[str, Any]):
    """The commands, each made when it is asked for: whoever votes does not wait for what plans and measures."""

    def __iter__(self) -> Iterator[str]:
        return (name for commands in _PANELS.values() for name in commands)

    def __len__(self) -> int:
        return sum(map(len, _PANELS.values()))

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - a command or a group of them
        for panel, commands in _PANELS.items():
            if name in commands:
                return _made(name, commands[name], panel)
        raise KeyError(name)


@cache
def _made(name: str, module: str, panel: str) -> Any:  # noqa: ANN401
    found = getattr(import_module(f"sedml.cli.{module}"), name)
    if isinstance(found, typer.Typer):
        made: Any = typer.main.get_group(found)  # get_command would take a group of one command for that command
    else:
        alone = typer.Typer(rich_markup_mode="markdown", add_completion=False)
        alone.command(name)(found)
        made = typer.main.get_command(alone)
    made.name, made.rich_help_panel = name, panel
    for one in (made, *getattr(made, "commands", {}).values()):
        # A group shows a help text with the line breaks of the source, wherever the terminal's come.
        one.help = re.sub(r"(?<!\n)\n(?!\n)", " ", one.help or "")
        _without_values(one.get_params(typer.Context(one, **_SETTINGS)))
    return made


class _Commands(TyperGroup):
    """What `sedml` alone can do."""

    def __init__(self, **kinds: Any) -> None:  # noqa: ANN401 - as typer makes it
        super().__init__(**kinds)
        self.commands: Any = _Made()

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - typer's own kind of context
        """The options of `sedml` itself."""
        return _without_values(super().get_params(ctx))


def _without_values(options: list[Any]) -> list[Any]:
    """Help says `--json`, and not `--json <bool>`."""
    for option in options:
        if getattr(option, "is_flag", False):
            option.metavar = ""
    return options


app = typer.Typer(
    name="sedml",
    cls=_Commands,
    help="Teach one model together without sharing data: private, secure aggregation of teacher votes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
    rich_markup_mode="markdown",
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: bool = typer.Option(
        False, "--version", help="Print the version, what the hot loops run on and the hash of the code, and exit."
    ),
) -> None:
    if version:
        import sedml
        from sedml.mpc.kernel import kernel_in_use
        from sedml.release import release_hash

        typer.echo(f"sedml {sedml.__version__}")
        typer.echo(f"kernel: {kernel_in_use()}")
        typer.echo(f"release: {release_hash()}")
        raise typer.Exit
    context.with_resource(warnings_shown())


def main() -> None:
    """The `sedml` command."""
    # Most commands make next to no garbage: they shall not look for it in all that they import, nor at their end.
    gc.set_threshold(_MANY)
    atexit.register(gc.freeze)
    # Or pydantic looks at everything that is installed for plug-ins, at every start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    try:
        with explain_missing():
            app()
    except SedmlError as error:
        sys.exit(complain(error))
    except KeyboardInterrupt:
        sys.exit(130)
