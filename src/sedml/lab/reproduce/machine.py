"""The machine, the date and the command of a run, in words and without names."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np

__all__ = ["About", "about_now", "machine_words"]


@dataclass(frozen=True)
class About:
    """Where results come from."""

    command: str
    date: str
    machine: str
    sedml: str


def about_now(command: str) -> About:
    """This machine, now."""
    try:
        own = version("sedml-pate")
    except PackageNotFoundError:
        own = "not installed"
    return About(command, datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), machine_words(), own)


def machine_words() -> str:
    """Cores, memory, Python; no host name."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parts = [f"{cores} {'core' if cores == 1 else 'cores'} ({platform.machine()})"]
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        parts.append(f"{memory / 2**30:.0f} GiB of memory")
    except (ValueError, OSError, AttributeError):
        pass
    return ", ".join([*parts, platform.system(), f"Python {platform.python_version()}", f"NumPy {np.__version__}"])
