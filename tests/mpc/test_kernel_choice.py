"""How the kernel in C is asked for, and what is said where there is none."""

from __future__ import annotations

import platform
import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest

from sedml.errors import InputError
from sedml.mpc import kernel as dispatch

COMPILED = "sedml.mpc._kernel"


@pytest.fixture(autouse=True)
def not_built(monkeypatch):
    monkeypatch.setitem(sys.modules, COMPILED, None)
    monkeypatch.setenv("SEDML_KERNEL", "auto")
    dispatch.kernel.cache_clear()
    yield
    dispatch.kernel.cache_clear()


def test_numpy_is_used(monkeypatch):
    monkeypatch.delenv("SEDML_KERNEL")
    assert dispatch.kernel() is None


@pytest.mark.parametrize(
    ("machine", "said"),
    [("aarch64", "no kernel in C was built at install, which takes a C compiler"), ("riscv64", "riscv64 processors")],
)
def test_why_there_is_none(machine, said, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert dispatch.kernel_in_use().startswith("NumPy (")
    assert said in dispatch.kernel_in_use()
    monkeypatch.setenv("SEDML_KERNEL", "on")
    assert said in dispatch.kernel_in_use()
    with pytest.raises(InputError, match=said):
        dispatch.kernel()


def test_a_kernel_that_is_switched_off(monkeypatch):
    monkeypatch.setenv("SEDML_KERNEL", "off")
    assert dispatch.kernel_in_use() == "NumPy (switched off by SEDML_KERNEL)"


def test_a_processor_that_cannot_run_it(monkeypatch):
    def refused(_name: str) -> ModuleType:
        raise ImportError("this processor lacks AES, PCLMULQDQ or AVX2")

    monkeypatch.setattr(dispatch, "import_module", refused)
    assert dispatch.kernel() is None
    assert dispatch.kernel_in_use() == "NumPy (this processor lacks AES, PCLMULQDQ or AVX2)"


@pytest.mark.parametrize("stale", [None, lambda seeds, more, /: b""], ids=["missing", "changed"])
def test_a_build_that_is_older_than_the_sources_is_not_used(stale, monkeypatch):
    own = {name: partial(function, None) for name, function in dispatch._offered().items()}
    monkeypatch.setitem(sys.modules, COMPILED, SimpleNamespace(**own))
    assert dispatch.kernel() is not None
    dispatch.kernel.cache_clear()
    monkeypatch.setitem(sys.modules, COMPILED, SimpleNamespace(**{**own, "schedule": stale}))
    assert dispatch.kernel() is None
    assert "built from other sources; install the package again" in dispatch.kernel_in_use()


def test_a_wish_that_means_nothing_is_refused(monkeypatch):
    monkeypatch.setenv("SEDML_KERNEL", "yes")
    with pytest.raises(InputError, match="auto, on or off"):
        dispatch.kernel()
