"""The hot loops in C, if `sedml-pate-kernel` is installed and this processor can run it.

It gives the same bytes as the NumPy code, which is the reference and runs everywhere: `tests/mpc/test_kernel.py`
compares them.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

import numpy.typing as npt

__all__ = ["Kernel", "kernel"]

Memory: TypeAlias = npt.NDArray[Any] | bytes
"""Contiguous; a wrong size is a ValueError."""


class Kernel(Protocol):
    """What the module offers."""

    def schedule(self, seeds: Memory, /) -> bytes:
        """The 11 round keys of AES-128, of each seed of 16 bytes."""

    def fold(
        self, keys: Memory, first: int, counter: bytes, words: int, columns: Memory, sums: Memory | None, /
    ) -> None:
        """AES-CTR of all leaves from `first` on: columns uint64[TREES, DEPTH, words] by bit, sums [TREES, words]."""

    def transpose(self, columns: Memory, stride: int, words: int, rows: Memory, /) -> None:
        """The first `words` of columns uint64[128, stride] -> rows uint64[64 words, 2]."""

    def hash_rows(self, keys: Memory, rows: Memory, first: int, out: Memory, /) -> None:
        """TMMO of rows uint64[n, 2], with tweaks from `first` on."""

    def garble(
        self, keys: Memory, a: Memory, b: Memory, delta: Memory, first: int, block: int, tables: Memory, out: Memory, /
    ) -> None:
        """AND of labels for 0 uint64[rows, 2]: tables uint64[2, rows, 2] and labels out; tweaks (first.., block)."""

    def evaluate(
        self, keys: Memory, a: Memory, b: Memory, first: int, block: int, tables: Memory, out: Memory, /
    ) -> None:
        """AND of active labels."""


@cache
def kernel() -> Kernel | None:
    """The compiled kernel, or None."""
    try:
        return cast(Kernel, import_module("sedml_kernel"))
    except ImportError:
        return None
