"""`sedml up` from its first word to the labels: what it prints is pasted into a shell, as it is."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sedml
from support.server_process import WITHIN
from support.tiers import thorough


@pytest.fixture
def shell() -> dict[str, str]:
    """An environment in which nobody's kit is set, and which does not know where `sedml` is."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SEDML_")}
    clean["PYTHONPATH"] = str(Path(sedml.__file__).parents[1])
    return clean | {"PATH": os.defpath, "COLUMNS": "80"}


@thorough
def test_what_it_prints_runs_as_it_is_to_the_labels(tmp_path: Path, shell):
    """With few teachers, for its time: docs/tutorials/one-machine.md is run with forty."""
    kits = tmp_path / "my [red] kits"
    arguments = [sys.executable, "-m", "sedml", "up", "--teachers", "3", "--folder", str(kits)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=shell) as up:
        try:
            printed = []
            for line in up.stdout:
                printed.append(line.rstrip("\n"))
                if "Ctrl-C" in line:
                    break
            commands = [line for line in printed if line.startswith("  ")]
            places = (str(kits), str(Path(sys.executable).parent))
            assert [line for line in printed if len(line) > 80 and not any(place in line for place in places)] == []
            script = "\n".join(["set -e", *commands])
            done = subprocess.run(["sh", "-c", script], cwd="/", env=shell, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        finally:
            # Not killed: it has two servers to stop.
            up.send_signal(signal.SIGTERM)
            up.communicate(timeout=WITHIN)
    assert up.returncode == 0
    labels = np.load(kits / "labels.npy")
    assert labels.shape == (60,)
    assert set(labels.tolist()) <= {-1, 0, 1, 2}
    assert re.search(r"warning: At most \d+% of the labels would be right, even if all 3 teachers", done.stderr)


@thorough
@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of POSIX")
def test_on_a_terminal_the_servers_do_not_talk_into_what_it_prints(tmp_path: Path, shell):
    terminal, side = os.openpty()
    arguments = [sys.executable, "-m", "sedml", "up", "--teachers", "2", "--folder", str(tmp_path / "kits")]
    with subprocess.Popen(arguments, stdin=side, stdout=side, stderr=side, env=shell | {"TERM": "xterm"}) as up:
        os.close(side)
        told = b""
        while b"Ctrl-C stops both" not in told:
            told += os.read(terminal, 1 << 16)
        up.send_signal(signal.SIGTERM)
        up.wait(WITHIN)
    os.close(terminal)
    assert told.count(b"listens on") == 2
    assert b"log follows" not in told
