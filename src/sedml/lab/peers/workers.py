"""Ask a worker: hand it a job in a file, wait for its answer, and end all its processes if none comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sedml.lab.peers.environments import environment_of_worker
from sedml.lab.peers.table import Engine
from sedml.mpc.ring import Array

__all__ = ["Answer", "ask", "write_work"]

_LONGEST_REASON = 300


@dataclass(frozen=True)
class Answer:
    """What a worker measured: labels int64[repeat, Q] and seconds of each run, bytes and rounds of one."""

    labels: npt.NDArray[np.int64]
    seconds: list[float]
    bytes: int | None
    rounds: int | None
    versions: dict[str, str]


def write_work(path: Path, counts: Array, threshold: int, g: Array, g_i: Array) -> None:
    """counts: int[N, Q], g: int[Q], g_i: int[N, Q] -> the file that every worker reads."""
    np.savez(path, counts=counts, g=g, g_i=g_i, threshold=np.int64(threshold))


def ask(engine: Engine, python: Path, work: Path, variant: str, repeat: int, timeout: float) -> Answer | str:
    """Run a worker on a job; the reason in words where it gives no answer, or none in `timeout` seconds."""
    target, errors = work.with_name("answer.json"), work.with_name("errors.txt")
    target.unlink(missing_ok=True)
    command = [str(python), "-m", engine.worker, str(work), str(target), variant, str(repeat)]
    with errors.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - an interpreter of ours and a worker of the table
            command,
            cwd=work.parent,
            env=environment_of_worker(engine),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            return f"it did not answer within {timeout:g} s"
        finally:
            # The parties are processes of the worker's session: none may outlive it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code != 0:
        return f"it failed: {_last_line(errors)}"
    return _read(target)


def _last_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:_LONGEST_REASON] if lines else "it gave no reason"


def _read(path: Path) -> Answer | str:
    try:
        answer = Answer(**json.loads(path.read_text()))
        answer = replace(answer, labels=np.array(answer.labels, np.int64))
    except (OSError, ValueError, TypeError) as error:
        return f"its answer cannot be read ({type(error).__name__})"
    if not answer.seconds or answer.labels.ndim != 2 or len(answer.labels) != len(answer.seconds):
        return "its answer is not one row of labels and one time for every run"
    return answer
