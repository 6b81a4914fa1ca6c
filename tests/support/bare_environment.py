"""An environment as an install without extras leaves it: the wheel of this checkout, and what that requires.

The wheel is built as where there is no compiler, hence without the kernel in C. No network is needed: what it requires
is linked from the environment of the tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dist import copy_checkout

_BUILD = "import setuptools.build_meta as backend; backend.build_wheel('dist')"
_COMMANDS = """
import contextlib, io, json, sys, traceback
from sedml.cli import main

answers = []
for arguments in json.load(sys.stdin):
    sys.argv = ["sedml", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = -1
    answers.append((code, out.getvalue(), err.getvalue()))
json.dump(answers, sys.stdout)
"""


@dataclass(frozen=True)
class Answer:
    """What a command came to; the code is -1 if it ended with a traceback."""

    code: int
    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line of what it complained about."""
        return self.err.strip().splitlines()[-1].strip()


@dataclass(frozen=True)
class Bare:
    """A virtual environment of its own, without pip."""

    folder: Path
    distributions: tuple[str, ...]

    def command(self, *arguments: str) -> list[str]:
        """A command line of `python -m sedml` in it, whatever the variables of this process say."""
        return [str(self.folder / "bin" / "python"), "-I", "-m", "sedml", *arguments]

    def sedml(self, *arguments: str) -> str:
        """Run a command that must go well, as a process; what it prints."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def all_of(self, lines: Sequence[Sequence[str]]) -> list[Answer]:
        """Run many commands in one process."""
        answers = json.loads(self.python(_COMMANDS, json.dumps(lines)))
        return [Answer(*answer) for answer in answers]

    def python(self, script: str, given: str = "") -> str:
        """Run a script that must go well; what it prints."""
        command = [str(self.folder / "bin" / "python"), "-I", "-c", script]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def make_bare(place: Path, extras: Sequence[str] = ()) -> Bare:
    """Build the wheel, and an environment around it; with extras, what an install with them leaves."""
    folder = place / "bare"
    venv.create(folder, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    with zipfile.ZipFile(_build_wheel(place / "checkout")) as wheel:
        wheel.extractall(site)
    (own,) = metadata.distributions(path=[str(site)])
    required: dict[str, metadata.Distribution] = {}
    _collect(own, extras, required)
    for distribution in required.values():
        for name in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            (site / name).symlink_to(Path(distribution.locate_file(name)))
    return Bare(folder, tuple(sorted(required)))


def _build_wheel(place: Path) -> Path:
    """From a copy: building leaves files behind, and takes up what an earlier build has left."""
    copy_checkout(place)
    environment = {**os.environ, "CC": "false"}
    command = [sys.executable, "-c", _BUILD]
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (place / "dist").glob("*.whl")
    return wheel


def _collect(of: metadata.Distribution, extras: Sequence[str], found: dict[str, metadata.Distribution]) -> None:
    """What a distribution requires, and what that requires."""
    for requirement in map(Requirement, of.requires or ()):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in ("", *extras)):
            name = canonicalize_name(requirement.name)
            if name not in found:
                found[name] = metadata.distribution(name)
                _collect(found[name], sorted(requirement.extras), found)
