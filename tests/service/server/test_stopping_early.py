"""A server that is told to stop while it starts, at any moment: it ends at once, and with 0."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.live_servers import make_kits, settings_of
from support.server_process import WITHIN, Server
from support.tiers import thorough

# `sedml serve`, which is sent SIGTERM as the n-th thing of a kind happens after it has begun to listen for that.
_STRUCK = """
import gc, os, signal, sys
kind, left = sys.argv.pop(1), int(sys.argv.pop(1))

def happens(what):
    global left
    if what == kind and left and signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGTERM)

gc.callbacks.append(lambda phase, info: happens("garbage"))
sys.addaudithook(lambda event, args: happens(event))
if kind.startswith("c_"):
    sys.setprofile(lambda frame, event, arg: event.startswith("c_") and happens(f"{event} {arg.__name__}"))
from sedml.cli import main
main()
"""


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    return make_kits(tmp_path_factory.mktemp("early") / "kits", settings_of(), teachers=0, requesters=0) / "s0"


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        # In a callback of the garbage collector no exception comes through.
        ("garbage", 20),
        *(pytest.param("import", number, marks=thorough) for number in (1, 300)),
        pytest.param("fcntl.flock", 1, marks=thorough),
        ("sqlite3.connect", 1),
        pytest.param("socket.bind", 2, marks=thorough),
        # Around the calls by which asyncio takes over.
        pytest.param("c_return set_wakeup_fd", 1, marks=thorough),
        *(
            pytest.param(f"c_{moment}", number, marks=thorough)
            for moment, number in (
                ("call set_wakeup_fd", 1),
                ("call siginterrupt", 1),
                ("call siginterrupt", 2),
                ("return siginterrupt", 2),
            )
        ),
    ],
)
def test_it_ends_well_at_any_moment_of_its_start(kit, kind, number):
    command = [sys.executable, "-c", _STRUCK, kind, str(number), "serve", str(kit)]
    ended = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=WITHIN
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


def test_it_ends_as_soon_as_it_exists(kit):
    """Before Python has begun, it is the signal that ends it."""
    server = Server(kit, [sys.executable, "-m", "sedml", "serve"])
    server.start()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(WITHIN) in (0, -signal.SIGTERM)
