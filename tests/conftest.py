"""Settings and fixtures of the whole suite: property tests are repeatable, real data is found or skipped."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# The reference is what is tested; the kernel in C is compared with it (tests/mpc/test_kernel.py). SEDML_KERNEL=on runs
# everything on the kernel.
os.environ.setdefault("SEDML_KERNEL", "off")

# Databases wait for the disk at every commit, and nobody cuts the power here.
_IN_MEMORY = Path("/dev/shm")
if os.access(_IN_MEMORY, os.W_OK) and shutil.disk_usage(_IN_MEMORY).free > 1 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))

pytest.register_assert_rewrite("support")

from support.postgres_server import postgres  # noqa: E402 - after it was registered
from support.sweeper import watch_over_this_run  # noqa: E402

__all__ = ["postgres"]

# The same examples on every run; HYPOTHESIS_PROFILE=explore looks for new ones.
settings.register_profile(
    "steady",
    max_examples=50,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=False,
)
settings.register_profile("explore", settings.get_profile("steady"), derandomize=False, max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # a worker belongs to the run that has started it
        watch_over_this_run()
    # A handful of teachers is enough for a test, and the clients warn of every job with so few.
    config.addinivalue_line("filterwarnings", "ignore::sedml.errors.SedmlWarning")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No deployment runs the laboratory or trains on its data sets: all tests of that are in the second tier."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here / "lab") or item.path.is_relative_to(here / "learn"):
            item.add_marker(pytest.mark.thorough)
    from support.work_units import long_ones_first

    long_ones_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from support.work_units import ByFile

    return ByFile(config, log)


def pytest_collection_finish() -> None:
    """What all tests and libraries consist of stays to the end: let no search for garbage go through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SEDML_DATA_DIR", default))
    if not folder.is_dir():
        pytest.skip(f"no real data: set SEDML_DATA_DIR (looked in {folder})")
    return folder


@pytest.fixture(scope="session")
def credentials():
    from sedml.mpc.certificates import throwaway_credentials

    return throwaway_credentials()


@pytest.fixture(scope="module")
def one_set_up() -> Iterator[None]:
    """Quick set-ups of two servers in this process: base transfers have tests of their own."""
    from sedml.mpc.ot import fresh_deltas
    from support.open_base_ots import open_base_ots

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fresh_deltas, "base_ots", open_base_ots)
        yield
