"""Memory and processor time of a process, as Linux tells them."""

from __future__ import annotations

import math
import os
import resource
from contextlib import suppress
from pathlib import Path


def resident_mb(process: int) -> float:
    """What a process has resident now, in MB; nan where Linux does not tell."""
    return _status_mb(process, "VmRSS:")


def peak_mb(process: int | None = None) -> float:
    """The most that a process, or this one, has had resident, in MB.

    `getrusage`, where there is no Linux to ask, also counts what the parent had when it started this process.
    """
    found = _status_mb(os.getpid() if process is None else process, "VmHWM:")
    if process is None and math.isnan(found):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def cpu_seconds(process: int) -> float:
    """Processor time that a process has used, its own and the system's for it; nan where Linux does not tell."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.is_file():
        return math.nan
    fields = stat.read_text().rpartition(")")[2].split()  # from the third on: a name may have spaces
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def family(process: int) -> list[int]:
    """A process and all that it has started and that still run, and what those have started."""
    children: list[str] = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # of a thread that has ended
            children += file.read_text().split()
    return [process, *(one for child in children for one in family(int(child)))]


def _status_mb(process: int, field: str) -> float:
    status = Path(f"/proc/{process}/status")
    if status.is_file():
        for line in status.read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) / 1024
    return math.nan
