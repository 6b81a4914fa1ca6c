"""The hot loops in C, if they were compiled when this package was installed and this processor can run them.

They give the same bytes as the NumPy code, which is the reference and runs everywhere: `tests/mpc/test_kernel.py`
compares them. SEDML_KERNEL=off in the environment turns them off, SEDML_KERNEL=on makes their absence an error.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib import import_module
from inspect import isfunction, signature
from typing import Any, Protocol, TypeAlias, cast

import numpy.typing as npt

from sedml.errors import InputError

_VARIABLE = "SEDML_KERNEL"
_COMPILED = "sedml.mpc._kernel"
_PROCESSORS = ("x86_64", "amd64", "aarch64", "arm64")

Memory: TypeAlias = npt.NDArray[Any] | bytes
"""Contiguous; a wrong size is a ValueError."""


class Kernel(Protocol):
    """What the module offers."""

    def schedule(self, seeds: Memory, /) -> bytes:
        """The 11 round keys of AES-128, of each seed of 16 bytes."""

    def stream(self, key: bytes, counter: bytes, out: Memory, /) -> None:
        """The key stream of AES-CTR."""

    def fold(
        self, keys: Memory, first: int, counter: bytes, words: int, columns: Memory, sums: Memory | None, /
    ) -> None:
        """AES-CTR of all leaves from `first` on: columns uint64[TREES, DEPTH, words] by bit, sums [TREES, words]."""

    def tags(self, key: bytes, columns: Memory, size: int, out: Memory, /) -> None:
        """AES-GCM's tag of each column of so many bytes, as additional data: out uint8[columns, 16]."""

    def correct(self, theirs: Memory, masks: Memory, columns: Memory, /) -> None:
        """columns uint64[TREES, DEPTH, m] ^= theirs [TREES - 1, m] where masks [TREES, DEPTH]; the first tree stays."""

    def transpose(self, columns: Memory, stride: int, words: int, rows: Memory, /) -> None:
        """The first `words` of columns uint64[128, stride] -> rows uint64[64 words, 2]."""

    def hash_rows(self, keys: Memory, rows: Memory, first: int, out: Memory, /) -> None:
        """TMMO of rows uint64[n, 2], with tweaks from `first` on."""

    def label(self, zeros: Memory, bits: Memory, delta: Memory, out: Memory, /) -> None:
        """Labels uint64[n, 2] of bits uint8[n], from those for 0."""

    def leaky_offer(
        self,
        keys: Memory,
        first: int,
        delta: Memory,
        own_kept: int,
        peer_kept: int,
        bits: Memory,
        own: Memory,
        peer: Memory,
        c: Memory,
        h: Memory,
        g: Memory,
        /,
    ) -> None:
        """Step 1 of `authenticated.leaky`, of bits uint8[n, 3] and rows uint64[n, 3, 2]."""

    def leaky_take(
        self,
        keys: Memory,
        first: int,
        own_kept: int,
        peer_kept: int,
        bits: Memory,
        own: Memory,
        peer: Memory,
        c: Memory,
        theirs: Memory,
        s: Memory,
        /,
    ) -> None:
        """The end of step 1: adds to s."""

    def leaky_correct(self, d: Memory, delta: Memory, own_kept: int, own: Memory, s: Memory, /) -> None:
        """Step 2: adds d to z and to s."""

    def order(self, keys: Memory, out: Memory, /) -> None:
        """The stable argsort of keys uint32[n]: out uint32[n]."""

    def bucket_bits(self, place: Memory, bits: Memory, e: Memory, x: Memory, y: Memory, /) -> None:
        """`authenticated.buckets.bucket_bits`."""

    def weave(
        self,
        gates: Memory,
        outputs: Memory,
        wires: int,
        samples: int,
        inputs: Memory,
        results: Memory,
        a: Memory,
        b: Memory,
        found: Memory,
        /,
    ) -> None:
        """`authenticated.masks.weave` of rows."""

    def products(
        self,
        first: int,
        place: Memory,
        e: Memory,
        f: Memory,
        g: Memory,
        leaky: Memory,
        a: Memory,
        b: Memory,
        delta: Memory,
        found: Memory,
        words: Memory,
        /,
    ) -> None:
        """`authenticated.masks.products`; delta 0 for rows that are not under it."""

    def garble_masked(
        self,
        keys: Memory,
        gates: Memory,
        wires: int,
        samples: int,
        block: int,
        inputs: Memory,
        a: Memory,
        b: Memory,
        results: Memory,
        delta: Memory,
        tables: Memory,
        labels: Memory,
        /,
    ) -> None:
        """`authenticated.gates.garble`."""

    def evaluate_masked(
        self,
        keys: Memory,
        gates: Memory,
        wires: int,
        samples: int,
        block: int,
        inputs: Memory,
        masked: Memory,
        tables: Memory,
        colours: Memory,
        results: Memory,
        labels: Memory,
        values: Memory,
        /,
    ) -> None:
        """`authenticated.gates.evaluate`."""

    def draw(self, key: bytes, counter: bytes, out: Memory, /) -> None:
        """The first numbers below p among the 31-bit numbers of AES-CTR: out uint32."""

    def examine(
        self,
        x: Memory,
        masks: Memory,
        quotient: Memory,
        z: Memory,
        scales: Memory,
        others: Memory,
        samples: int,
        classes: int,
        out: Memory,
        /,
    ) -> None:
        """`ballots.proof.evaluate`."""

    def gate(self, told: Memory, rho: Memory, votes: int, out: Memory, /) -> None:
        """`ballots.proof.expected`."""

    def use_wide(self, wanted: bool, /) -> bool:
        """Whether AES with 512 bits is used from now on, if the processor has it; and whether it was."""


@cache
def kernel() -> Kernel | None:
    """The compiled kernel, or None."""
    found, why = _find()
    if found is None and os.environ.get(_VARIABLE) == "on":
        raise InputError(
            f"{_VARIABLE} is on, but there is no kernel in C: {why}.",
            "Install the package again where there is a C compiler, or set it to auto.",
        )
    return found


def kernel_in_use() -> str:
    """What the hot loops run on, in a few words, for people and for reports."""
    fast, why = _find()
    if fast is None:
        return f"NumPy ({why})"
    wide = fast.use_wide(False)
    fast.use_wide(wide)
    return f"C (AES with {512 if wide else 128} bits)"


def _find() -> tuple[Kernel | None, str]:
    """The kernel, or why there is none."""
    wish = os.environ.get(_VARIABLE, "auto")
    if wish not in ("auto", "on", "off"):
        raise InputError(f"{_VARIABLE} is {wish!r} in the environment.", "Set it to auto, on or off.")
    if wish == "off":
        return None, f"switched off by {_VARIABLE}"
    try:
        found = cast(Kernel, import_module(_COMPILED))
    except ModuleNotFoundError:
        machine = platform.machine()
        if machine.lower() not in _PROCESSORS:
            return None, f"there is no kernel in C for {machine} processors"
        return None, "no kernel in C was built at install, which takes a C compiler"
    except ImportError as error:  # the processor lacks something
        return None, str(error)
    if any(_takes(getattr(found, name, None)) != _takes(asked)[1:] for name, asked in _offered().items()):
        return None, "the kernel in C was built from other sources; install the package again"
    return found, ""


def _offered() -> dict[str, object]:
    return {name: value for name, value in vars(Kernel).items() if isfunction(value) and not name.startswith("_")}


def _takes(function: Any) -> list[str]:  # noqa: ANN401
    """The names of what a function takes; one that is not there takes nothing."""
    return list(signature(function).parameters) if function is not None else []
