"""Where an engine is installed: in an environment of its own, for the engines' dependencies exclude each other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sedml.errors import InputError, SedmlError
from sedml.lab.peers.table import ENGINES, Engine

__all__ = ["environment_of_worker", "find_python", "install", "peers_folder"]


def peers_folder() -> Path:
    """Where environments are: `$SEDML_PEERS_DIR`, or `sedml/peers` in the user's cache."""
    if chosen := os.environ.get("SEDML_PEERS_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sedml" / "peers"


def install(engine: str, *, python: str = sys.executable) -> Path:
    """Make an environment with the pinned versions of an engine, and return its interpreter.

    `python` is the interpreter to base it on: SPU is published for Python 3.10 and 3.11 only. pip's own settings
    apply.
    """
    terms = ENGINES.get(engine)
    if terms is None or not terms.worker:
        known = ", ".join(name for name, entry in ENGINES.items() if entry.worker)
        raise InputError(f"{engine!r} cannot be installed.", f"Choose one of {known}.")
    place = peers_folder() / engine
    place.parent.mkdir(parents=True, exist_ok=True)
    interpreter = _interpreter(engine)
    pip = [str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        _run([python, "-m", "venv", "--clear", str(place)], engine)
        _run([*pip, *terms.requirements], engine)
    except BaseException:
        # Half an environment would be taken for a whole one.
        shutil.rmtree(place, ignore_errors=True)
        raise
    return interpreter


def find_python(engine: Engine) -> Path | None:
    """The interpreter of the engine's environment, if there is one."""
    interpreter = _interpreter(engine.name)
    return interpreter if interpreter.is_file() else None


def environment_of_worker(engine: Engine) -> dict[str, str]:
    """The variables of a worker: nothing of this interpreter's path but the worker's own folder."""
    kept = {name: value for name, value in os.environ.items() if name not in {"PYTHONHOME", "PYTHONWARNINGS"}}
    return {**kept, "PYTHONPATH": str(engine.home), "PYTHONDONTWRITEBYTECODE": "1"}


def _interpreter(engine: str) -> Path:
    return peers_folder() / engine / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _run(command: list[str], engine: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pip and venv
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["no reason was given."]
        reason = next((line for line in lines if line.startswith("ERROR:")), lines[-1])
        raise SedmlError(f"{engine} could not be installed: {reason}", "Install it by hand, or leave it out.")
