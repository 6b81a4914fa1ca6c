"""Servers forked from one process that has imported `sedml serve` already: a restart takes a fraction of a second.

Each is a process of its own from then on, with the command line's own `main`, and can be killed. What differs from a
server in the field: blocks have 8 samples, so that a small job has several; there is no noise, so that all know which
labels are right; what happens every few seconds happens every few tenths; and the clock is off by as many seconds as
the file `clock` in the kit says.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from runpy import run_path

__all__ = ["CLOCK", "Forge", "Forked"]

CLOCK = "clock"
WITHOUT_NOISE = Path(__file__).parents[1] / "support" / "without_noise"
_HURRY = {"_SWEEP": 0.4, "_GREETING": 0.8, "_LONGEST_PAUSE": 0.8}


class Forge:
    """The process that servers are forked from; they end with it."""

    def __init__(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SEDML_")}
        places = [str(Path(__file__).parents[1]), *filter(None, [clean.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "histories.forge"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean | {"PYTHONPATH": os.pathsep.join(places), "OPENBLAS_NUM_THREADS": "1"},
            process_group=0,  # Ctrl-C is for us, who then end it
        )
        self._lock = threading.Lock()

    def start(self, folder: Path, log: Path) -> Forked:
        return Forked(self, int(self.ask("start", str(folder), str(log))))

    def ask(self, *words: str | int) -> int | None:
        with self._lock:
            self._process.stdin.write(json.dumps(words).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Forked:
    """A process that is not our child, used as one that is."""

    def __init__(self, forge: Forge, pid: int) -> None:
        self._forge, self.pid = forge, pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forge.ask("poll", self.pid)
        return self.returncode

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("sedml serve", timeout)
            time.sleep(0.005)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _prepare() -> None:
    """Import all that a server needs, and change what has to differ."""
    run_path(str(WITHOUT_NOISE / "sitecustomize.py"))
    import_module("sedml.cli")
    import_module("sedml.service.server.http.serving")
    from sedml.protocol import task
    from sedml.service.server import node
    from sedml.service.server.run import runner

    task._BLOCK_ANDS = 8
    for name, value in _HURRY.items():
        assert hasattr(runner, name), name
        setattr(runner, name, value)
    open_node = node.open_node
    node.open_node = lambda kit, settings: open_node(kit, settings, clock=partial(_wrong_time, kit.folder / CLOCK))


def _wrong_time(file: Path) -> datetime:
    ahead = 0.0
    with suppress(OSError):
        ahead = float(file.read_text())
    return datetime.now(UTC) + timedelta(seconds=ahead)


def _several(folder: str) -> list[str]:
    """By its settings: of how many processes it is; with Ray, even a small job is worth its workers."""
    settings = tomllib.loads((Path(folder) / "server.toml").read_text())
    if settings.get("compute", "local") != "local":
        from sedml.service.server.run import pacing

        pacing._ENOUGH = 0.0
    return ["--workers", "2"] if settings.get("replicated") else []


def _serve(folder: str, log: str) -> None:
    """In the child, and never back."""
    code = 70
    try:
        for name, flags, number in ((os.devnull, os.O_RDONLY, 0), (log, os.O_WRONLY | os.O_APPEND, 1)):
            os.dup2(os.open(name, flags), number)
        os.dup2(1, 2)
        sys.argv = ["sedml", "serve", folder, *_several(folder)]
        from sedml.cli import main

        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stderr.flush()
        os._exit(code)


def _forge() -> None:
    _prepare()
    children: set[int] = set()
    for line in sys.stdin.buffer:
        word, *rest = json.loads(line)
        answer = None
        if word == "start":
            answer = os.fork()
            if not answer:
                _serve(*rest)
            children.add(answer)
        else:
            pid, status = os.waitpid(rest[0], os.WNOHANG)
            if pid:
                children.discard(pid)
                answer = os.waitstatus_to_exitcode(status)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for pid in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    _forge()
