"""`sedml console`: a page on this machine for whoever has a kit."""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from sedml.cli.output import handling
from sedml.extras import require_libraries


def console(
    kit: Annotated[Path, typer.Option(envvar="SEDML_KIT", help="Folder of your kit.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen on this port. Default: any that is free.")] = 0,
    open_: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """Open a page in your browser to do with your kit what the other commands do.

    A requester plans, creates and runs jobs there, a teacher votes, an operator looks after its server. Only this
    machine can reach the page, and only the browser that opens the printed address first is let in.

    Example: sedml console --kit kits/requester-1
    """
    require_libraries("starlette", "uvicorn")
    from sedml.console.listening import listen

    # From here on SIGTERM ends the console as Ctrl-C does: well, and with the files that were sent to it deleted.
    with handling(signal.default_int_handler, "SIGTERM"), suppress(KeyboardInterrupt):
        listen(kit, port, opened=open_)
