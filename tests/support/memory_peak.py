"""What a call takes of memory, whichever library takes it: not all of them tell Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

__all__ = ["peak"]

_HERE = Path("/proc/self")


def peak(call: Callable[[], object]) -> int:
    """Bytes that the process has at its peak, beyond those that it had before."""
    try:
        (_HERE / "clear_refs").write_text("5")  # the peak is now, says Linux
    except OSError:
        pytest.skip("only Linux tells what a process had at its peak")
    before = _figure("VmRSS")
    call()
    return _figure("VmHWM") - before


def _figure(name: str) -> int:
    lines = (_HERE / "status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))
