"""Several processes at one address: replaced when they end, ended when they are told to, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.live_servers import make_kits, settings_of
from support.server_process import WITHIN, Server, until

SERVE = [sys.executable, "-m", "sedml", "serve", "--workers", "2"]


def children(process: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.fixture
def server(tmp_path):
    kits = make_kits(tmp_path / "kits", settings_of(lease="1s"), teachers=1, requesters=0)
    made = Server(kits / "s0", SERVE)
    made.restart()
    yield made
    if made.running:
        made.kill()


def test_a_worker_that_is_killed_is_replaced_and_nobody_notices(server):
    for _ in range(3):
        before = until(lambda: found if len(found := children(server.process.pid)) == 2 else None, "two workers")
        for victim in before[:1]:
            os.kill(victim, signal.SIGKILL)
        assert server.ask("GET", "/healthz").status == 200
        until(lambda old=before[0]: old not in children(server.process.pid), "it is replaced")
    until(lambda: "leads" in server.log.read_text(), "one of them leads")
    server.stop()


def test_all_end_with_the_one_that_started_them_however_that_ends(server):
    workers = until(lambda: found if len(found := children(server.process.pid)) == 2 else None, "two workers")
    server.kill()
    until(lambda: not any(map(alive, workers)), "no worker is left behind")


def test_told_to_stop_all_end_well(server):
    workers = until(lambda: found if len(found := children(server.process.pid)) == 2 else None, "two workers")
    server.stop()
    assert not any(map(alive, workers))


def test_what_is_wrong_is_said_once_before_there_are_several(tmp_path):
    kits = make_kits(tmp_path / "kits", settings_of(), teachers=0, requesters=0)
    (kits / "s0" / "data").write_text("no folder")
    ended = subprocess.run([*SERVE, str(kits / "s0")], capture_output=True, text=True, check=False, timeout=WITHIN)
    assert ended.returncode == 1
    assert " ".join(ended.stderr.split()).count("cannot be created") == 1


_FAILS = """
import sys
from sedml.errors import ServerError
from sedml.service.server.ops.server_processes import supervise
try:
    supervise(2, lambda started: sys.exit(3), lambda: None)
except ServerError as error:
    print(error.what)
"""


def test_a_worker_that_cannot_start_ends_all():
    ended = subprocess.run([sys.executable, "-c", _FAILS], capture_output=True, text=True, check=False, timeout=WITHIN)
    assert "A worker could not start (exit code 1)" in ended.stdout


_ORPHANED = """
import os, signal, time
from sedml.service.server.ops.server_processes import supervise
def work(started):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as if it had not arrived yet
    parent = os.getppid()
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        time.sleep(0.01)
    started()
    print("it has started for nobody")
supervise(1, work, lambda: None)
"""


def test_a_worker_that_starts_as_the_one_that_started_it_is_killed_ends_without_a_word():
    """The pipe closes when the worker has ended, so its output is whole."""
    ended = subprocess.run(
        [sys.executable, "-c", _ORPHANED], capture_output=True, text=True, check=False, timeout=WITHIN
    )
    assert (ended.stdout, ended.stderr) == ("", "")
