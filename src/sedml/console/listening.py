"""Serving the console on this machine until Ctrl-C, and opening it in a browser."""

from __future__ import annotations

import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from html import escape
from pathlib import Path

import typer
import uvicorn

from sedml.console.gate import Admission
from sedml.console.session import Session, opened_session
from sedml.console.web_app import make_app
from sedml.errors import InputError

_LOOPBACK = "127.0.0.1"
_FAREWELL = 2  # seconds that requests have to finish once the console is told to stop


def listen(folder: Path, port: int, *, opened: bool) -> None:
    """Serve the console of a kit until it is interrupted."""
    with opened_session(folder) as session, _listener(port) as listener:
        admission = Admission(listener.getsockname()[1])
        app = make_app(session, admission)
        config = uvicorn.Config(
            app,
            access_log=False,
            log_level="critical",  # the gate says what failed, without a word of what was in it
            server_header=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            timeout_graceful_shutdown=_FAREWELL,
        )
        with ExitStack() as stack:

            def begin() -> None:
                _announce(session, admission)
                stack.enter_context(_browser(admission, opened))

            _Server(config, begin).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn, with something to do once it listens: from then on it ends well whenever it is told to."""

    def __init__(self, config: uvicorn.Config, begin: Callable[[], None]) -> None:
        super().__init__(config)
        self._begin = begin

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self._begin()


@contextmanager
def _listener(port: int) -> Iterator[socket.socket]:
    """A socket that only this machine reaches."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_LOOPBACK, port))
        except OSError as error:
            what = f"Nothing can listen on port {port} ({error.strerror})."
            raise InputError(what, "Use another --port, or 0 for any that is free.") from None
        listener.listen()
        yield listener


def _announce(session: Session, admission: Admission) -> None:
    typer.echo(f"The console of {session.role} {session.kit.name} is open. This address lets one browser in, once:")
    typer.echo(f"  {admission.address}")
    typer.echo("Ctrl-C closes it.")


@contextmanager
def _browser(admission: Admission, wanted: bool) -> Iterator[None]:
    """Open the console in a browser.

    By a file that only its owner may read and that leads there: the arguments of a program are seen by everybody on
    the machine, and the first to show the token is let in.
    """
    if not wanted:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="sedml-console-") as folder:
        page = Path(folder) / "open.html"
        refresh = f'<meta http-equiv="refresh" content="0;url={escape(admission.address)}">'
        page.write_text(f'<!doctype html><meta charset="utf-8"><title>SEDML console</title>{refresh}')
        # In a thread: a browser in a terminal does not return before it is left.
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        yield
