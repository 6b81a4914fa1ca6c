"""Tests that share what their fixtures make go to one worker."""

from __future__ import annotations

from pathlib import Path

from support.work_units import _APART, _TOGETHER, ByFile

ROOT = Path(__file__).parents[1]


def unit(nodeid: str) -> str:
    return ByFile._split_scope(ByFile.__new__(ByFile), nodeid)


def test_a_file_is_a_unit():
    assert unit("tests/a.py::test_one[x::y]") == unit("tests/a.py::test_two") != unit("tests/b.py::test_one")


def test_files_that_share_servers_are_one_and_long_tests_that_share_nothing_are_many():
    assert unit("tests/e2e/test_e2e_jobs.py::test_a") == unit("tests/e2e/test_e2e_floods.py::test_b")
    assert unit("tests/e2e/test_e2e_jobs.py::test_a") != unit("tests/console/test_calls.py::test_b")
    assert unit(f"{_APART[0]}::test_a[1]") != unit(f"{_APART[0]}::test_a[2]")


def test_the_files_exist():
    assert [name for name in (*_APART, *_TOGETHER) if not (ROOT / name).is_file()] == []
