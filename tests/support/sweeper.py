"""What a test run has started does not outlive it, however it ends: `python sweeper.py PID FOLDER` sees to that.

The folder is the run's own, and its name is in the environment of the run, and so of every process that it starts. Once
the run is over, or killed, all of these are ended and the folder is removed. Linux only; elsewhere nobody looks.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "TEST_RUN_FOLDER"
_STOP_WITHIN = 10.0  # seconds between being asked to and being made to


def watch_over_this_run() -> None:
    """Give this process a folder and a sweeper; a run that is part of another one is swept with it too."""
    folder = tempfile.mkdtemp(prefix="run-", dir=os.environ.get(VARIABLE))  # short, for it will have sockets in it
    Path(folder).chmod(0o711)  # PostgreSQL may run as another user
    if sys.platform == "linux":
        command = [sys.executable, "-I", __file__, str(os.getpid()), folder]
        nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        # In a session of its own, so that what ends the run does not end its sweeper.
        os.posix_spawn(command[0], command, os.environ, file_actions=nothing, setsid=True)
    os.environ[VARIABLE] = folder


def run_folder() -> Path:
    """What lies here is removed with the run."""
    return Path(os.environ[VARIABLE])


def processes_of(folder: str) -> list[int]:
    """Those that have the folder in their environment, or one within it."""
    mark, found = f"\0{VARIABLE}={folder}".encode(), []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if mark in b"\0" + (place / "environ").read_bytes():
                found.append(int(place.name))
    return found


def _main(pid: int, folder: str) -> None:
    with suppress(ProcessLookupError):  # it has ended already
        over = select.poll()
        over.register(os.pidfd_open(pid), select.POLLIN)
        over.poll()
    deadline = time.monotonic() + _STOP_WITHIN
    number = signal.SIGTERM
    while left := processes_of(folder):
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        number = signal.SIGKILL if time.monotonic() > deadline else 0
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), sys.argv[2])
