"""`sedml serve` and `sedml up`: one server for good, or both on this machine to try things out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sedml.cli.output import handling, plain_console, show
from sedml.cli.trial import lay_out, trial_commands
from sedml.errors import SedmlError, ServerError
from sedml.privacy.unit import MAX_VOTES, ORGANISATION

if TYPE_CHECKING:
    from sedml.service.kits import ServerKit

_POLL = 0.1
_READY_WITHIN = 60.0
_STOP_WITHIN = 20.0
_SEE = "See what it wrote above."
_GOOD_LABELS = 40
"""Teachers with whose votes the trial gives mostly right labels."""
# Settings of one server that would put both on the same port or file.
_OWN = {
    f"SEDML_SERVER__{name}" for name in ("HOST", "PORT", "LINK_HOST", "LINK_PORT", "DATA_DIR", "DATABASE", "LEDGER")
}


def serve(
    kit: Annotated[Path, typer.Argument(help="The kit of the server, such as kits/s0.")],
    host: Annotated[str | None, typer.Option(help="Listen on this host instead of the kit's.")] = None,
    port: Annotated[int | None, typer.Option(help="Listen on this port instead of the kit's.")] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Processes that take requests.")] = 1,
) -> None:
    """Run one of the two servers until it is stopped (SIGTERM or Ctrl-C).

    Settings are in server.toml in the kit; environment variables SEDML_SERVER__... override them.

    Example: sedml serve kits/s0
    """
    from sedml.service.server import serve as run

    # Told to stop while it starts, it does so at once, and well: a crash would lose nothing either. An exception would
    # be lost wherever one is swallowed, as in a callback of the garbage collector. Once it listens, it stops in order.
    with handling(lambda *_: os._exit(0), "SIGTERM"):
        # Where nobody looks at it there is the log, which says the same.
        run(kit, {"host": host, "port": port}, _tell if plain_console().is_terminal else None, workers)


def up(
    teachers: Annotated[int, typer.Option(help="How many teachers to make kits for.")] = 3,
    votes: Annotated[
        int,
        typer.Option(
            min=1,
            max=MAX_VOTES,
            help="Votes of each: with more than one, a teacher has split its data into as many parts by patient, and "
            "it is patients that are protected.",
        ),
    ] = 1,
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Where to keep the kits; existing ones are used again. Default: a folder deleted at the end."
        ),
    ] = None,
) -> None:
    """Try a deployment out: run both servers on this machine, with throw-away kits, until Ctrl-C.

    It prints the commands to try next, and writes the samples and predictions that they need.

    Only this machine can reach them. Exit code 1 if one of them stops by itself.

    Example: sedml up --teachers 3

    Example: sedml up --teachers 8 --votes 31
    """
    from sedml.service import kits
    from sedml.service.server import check_installed

    check_installed()  # or both children would end, each with the same complaint
    with ExitStack() as stack:
        # No event: a signal that comes while one is waited for would wait for the lock that the wait has.
        stops = list[int]()
        stack.enter_context(handling(lambda number, _: stops.append(number), "SIGINT", "SIGTERM", "SIGHUP"))
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sedml-up-"))) / "kits"
        if not (folder / "s0").exists():
            s0, s1, link = (f"127.0.0.1:{port}" for port in kits.free_ports(3))
            kits.provision(folder, (s0, s1), link, teachers, 1, unit="patient" if votes > 1 else ORGANISATION)
        servers = [kits.ServerKit.load(folder / name) for name in ("s0", "s1")]
        children = stack.enter_context(_children(servers))
        with plain_console(stderr=True).status("starting both servers"):
            _wait_until_ready(servers, children, stops)
        if not stops:
            show(*_advice(folder, lay_out(folder, votes), votes, servers))
        while not stops:
            _check_alive(children)
            time.sleep(_POLL)
    _check_ended_well(children)


def _tell(line: str) -> None:
    show(line, "Ctrl-C stops it. Its log follows.")


def _advice(folder: Path, teachers: list[str], votes: int, servers: list[ServerKit]) -> list[str]:
    from sedml.service.kits import Address

    s0, s1 = servers
    few = (
        "So few votes show how it is done, not how good the labels get: for that, start",
        f"with `sedml up --teachers {_GOOD_LABELS}`, or `sedml up --teachers 8 --votes 31`.",
    )
    return [
        f"Both servers are ready. Their kits, and everybody's, are in {folder}.",
        f"S0 listens on {Address(s0.host, s0.port).url}, for S1 on {Address(s0.link_host, s0.link_port)}",
        f"S1 listens on {Address(s1.host, s1.port).url}",
        "To try them, paste this into another terminal:",
        "",
        *(f"  {line}" for line in trial_commands(folder, teachers, votes)),
        "",
        "The samples and the votes in trial/ are made up.",
        *(few if len(teachers) * votes < _GOOD_LABELS else ()),
        "Ctrl-C stops both servers.",
    ]


def _command(kit: ServerKit) -> list[str]:
    return [sys.executable, "-m", "sedml", "serve", str(kit.folder)]


@contextmanager
def _children(kits: list[ServerKit]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Both servers as processes; those that still run are stopped at the end."""
    environment = {key: value for key, value in os.environ.items() if key.upper() not in _OWN}
    environment.setdefault("SEDML_SERVER__LOG_FORMAT", "console")
    environment.setdefault("SEDML_SERVER__LOG_LEVEL", "warning")
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for kit in kits:
            # In a group of its own: Ctrl-C comes to this process alone, which then stops them in order.
            children[kit.name] = subprocess.Popen(  # noqa: S603 - this very program
                _command(kit),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # what it says when it starts is said here for both; its log is elsewhere
                env=environment,
                process_group=0,
            )
        yield children
    finally:
        for child in children.values():
            child.terminate()
        deadline = time.monotonic() + _STOP_WITHIN
        for child in children.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, deadline - time.monotonic()))
            child.kill()
            child.wait()


def _wait_until_ready(kits: list[ServerKit], children: dict[str, subprocess.Popen[bytes]], stops: list[int]) -> None:
    import anyio

    deadline = time.monotonic() + _READY_WITHIN
    for kit in kits:
        while (reason := anyio.run(_not_ready, kit)) is not None:
            _check_alive(children)
            if time.monotonic() > deadline:
                raise ServerError(f"The server {kit.name} was not ready within {_READY_WITHIN:g} s ({reason}).", _SEE)
            time.sleep(_POLL)
            if stops:
                return


async def _not_ready(kit: ServerKit) -> str | None:
    """Why it is not ready, None if it is."""
    from sedml.service.client.connection import opened
    from sedml.service.kits import Access, Address
    from sedml.service.server_messages import Readiness

    nobody = Access(Address(kit.host, kit.port).url, "")
    try:
        async with opened(kit.name, nobody, kit.credentials.authority, patience=0) as server:
            found = await server.get("/readyz", Readiness, accept=503)
    except SedmlError as error:
        return error.what
    return None if found.ready else "it says that it is not"


def _check_alive(children: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, child in children.items():
        if (code := child.poll()) is not None:
            what = f"The server {name} stopped by itself (exit code {code}); the other one was stopped too."
            raise ServerError(what, _SEE)


def _check_ended_well(children: dict[str, subprocess.Popen[bytes]]) -> None:
    for name, child in children.items():
        if child.returncode not in (0, -signal.SIGTERM):  # the latter before it had begun at all
            raise ServerError(f"The server {name} did not stop cleanly (exit code {child.returncode}).", _SEE)
