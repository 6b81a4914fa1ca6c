"""A test run that is killed leaves no process behind: no PostgreSQL, no `sedml up` and none of its servers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.server_process import until
from support.tiers import thorough

pytestmark = [thorough, pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")]

TESTS = Path(__file__).parent
RUN = """
import subprocess, sys
from pathlib import Path
from support.postgres_server import running_postgres
from support.sweeper import run_folder

def test_that_never_ends():
    here = Path(__file__).parent
    up = [sys.executable, "-m", "sedml", "up", "--teachers", "1", "--folder", str(here / "kits")]
    with running_postgres() as postgres, subprocess.Popen(up, stdout=subprocess.PIPE, text=True) as process:
        assert any("Ctrl-C" in line for line in process.stdout)
        master = (postgres.folder / "data" / "postmaster.pid").read_text().split()[0] if postgres else ""
        (here / "began").write_text(f"{run_folder()} {process.pid} {master}")
        (here / "began").rename(here / "runs")
        process.wait()
"""


def children_of(parent: int) -> set[int]:
    """With theirs."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = {parent}
    while more := {child for child, its in parents.items() if its in found} - found:
        found |= more
    return found - {parent}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_of_a_run_that_is_killed(tmp_path, number):
    (tmp_path / "test_run.py").write_text(RUN)
    words = ["-p", "conftest", "-p", "no:cacheprovider", "-n", "1", "-c", str(TESTS.parent / "pyproject.toml")]
    paths = os.pathsep.join([str(TESTS), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *words, str(tmp_path / "test_run.py")],
        env=os.environ | {"PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as run:
        try:
            until((tmp_path / "runs").exists, "all of it runs")
            folder, up, *master = (tmp_path / "runs").read_text().split()
            started = children_of(run.pid) | set(map(int, master))
            assert len(children_of(int(up))) >= 2, "both servers"
        finally:
            run.send_signal(number)
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in started), "all have ended")
    until(lambda: not Path(folder).exists(), "the folder is gone")
