"""Ask a worker: hand it a job in a file, wait for its answer, and end all its processes if none comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from sedml.lab.peers.environments import environment_of_worker
from sedml.lab.peers.table import Engine
from sedml.mpc.ring import Array

__all__ = ["ask", "write_work"]

_LONGEST_REASON = 300


def write_work(path: Path, counts: Array, threshold: int, g: Array, g_i: Array) -> None:
    """counts: int[N, Q], g: int[Q], g_i: int[N, Q] -> the file that every worker reads."""
    np.savez(path, counts=counts, g=g, g_i=g_i, threshold=np.int64(threshold))


def ask(
    engine: Engine, python: Path, work: Path, variant: str, expected: Array, *, repeat: int, timeout: float
) -> dict[str, Any]:
    """Run a worker on a job whose labels are known.

    What is reported of it: the fields of a `PeerResult`, or why it was `skipped`, as where no answer came in `timeout`
    seconds.
    """
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
            return {"skipped": f"it did not answer within {timeout:g} s"}
        finally:
            # The parties are processes of the worker's session: none may outlive it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code != 0:
        return {"skipped": f"it failed: {_last_line(errors)}"}
    return _figures(target, expected)


def _last_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:_LONGEST_REASON] if lines else "it gave no reason"


def _figures(path: Path, expected: Array) -> dict[str, Any]:
    try:
        answer = json.loads(path.read_text())
        labels, seconds = np.array(answer["labels"], np.int64), [float(one) for one in answer["seconds"]]
        figures = {
            "seconds": median(seconds),
            "bytes": answer["bytes"],
            "rounds": answer["rounds"],
            "matches_ideal": all(np.array_equal(run, expected) for run in labels),
            "version": ", ".join(f"{name} {number}" for name, number in answer["versions"].items()),
        }
    except (OSError, ValueError, TypeError, LookupError) as error:
        return {"skipped": f"its answer cannot be read ({type(error).__name__})"}
    if labels.ndim != 2 or len(labels) != len(seconds):
        return {"skipped": "its answer is not one row of labels and one time for every run"}
    return figures
