"""How the kernel in C is asked for, where it is not installed."""

from __future__ import annotations

import sys

import pytest

from sedml.errors import InputError
from sedml.mpc import kernel as dispatch


@pytest.fixture(autouse=True)
def not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "sedml_kernel", None)
    dispatch.kernel.cache_clear()
    yield
    dispatch.kernel.cache_clear()


def test_numpy_is_used(monkeypatch):
    monkeypatch.delenv("SEDML_KERNEL")
    assert dispatch.kernel() is None
    assert dispatch.kernel_in_use() == "NumPy"


def test_a_kernel_that_must_be_there_is_missed(monkeypatch):
    monkeypatch.setenv("SEDML_KERNEL", "on")
    with pytest.raises(InputError, match="not installed"):
        dispatch.kernel()


def test_a_wish_that_means_nothing_is_refused(monkeypatch):
    monkeypatch.setenv("SEDML_KERNEL", "yes")
    with pytest.raises(InputError, match="auto, on or off"):
        dispatch.kernel()
