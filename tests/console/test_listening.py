"""`sedml console` as a process: how it opens a browser, and how it ends."""

from __future__ import annotations

import queue
import signal
import stat
import webbrowser
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from sedml.console.gate import Admission
from sedml.console.listening import _browser
from support.console_process import console_of


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_well_and_leaves_nothing_behind(kits: Path, tmp_path: Path, by: signal.Signals):
    with console_of(kits / "requester-1", TMPDIR=str(tmp_path)) as console:
        assert console.address.startswith("http://127.0.0.1:")
        assert list(tmp_path.iterdir())
        assert console.stop(by) == ""
    assert list(tmp_path.iterdir()) == []


def test_the_token_is_in_no_argument_of_the_browser(monkeypatch: pytest.MonkeyPatch):
    opened: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr(webbrowser, "open", opened.put)
    admission = Admission(40_000)
    with _browser(admission, True):
        address = opened.get(timeout=120)
        page = Path(url2pathname(urlsplit(address).path))
        assert address.startswith("file://")
        assert admission._token not in address
        assert admission.address in page.read_text()
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    assert not page.exists()
    with _browser(admission, False):
        assert opened.empty()
