"""Measure the general MPC engines that one would pick instead, on the same work: the label of shared counts.

Every engine gets the same counts and the same noise, already secret-shared, and its best formulation of the same two
steps: open whether some n_i + g reaches T, and nothing else; then find the first class of the highest n_i + g_i where
it does. A run ends when the parties hold shares of the labels, which the requester would put together; they are
opened after the clock has stopped, and checked against `sedml.protocol.ideal`.

- *Counted* is the time from shared counts to shared labels, between processes on loopback, and all traffic between
  them. Where an engine makes its one-use randomness while it computes, that is counted too, for it cannot be told
  apart: the `trust` of each result says who deals, and when.
- *Not counted* are sharing the inputs, connecting, compiling, and a first run that warms up.
- The engines' links are plain TCP; SEDML's own figures are over TLS.

An engine runs in the environment where it is installed, in one of its own if need be: `install("spu")`.

    from sedml.lab.peers import install, run_peers
    install("mpyc")
    results = run_peers(counts, threshold, g, g_i, engines=["mpyc"])
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import numpy as np

from sedml import Progress, silent
from sedml.errors import InputError
from sedml.lab.peers.environments import find_python, install
from sedml.lab.peers.peer_result import PeerResult
from sedml.lab.peers.table import ALL, ENGINES, Engine
from sedml.lab.peers.workers import Answer, NoAnswer, ask, write_work
from sedml.mpc.ring import Array
from sedml.protocol.ideal import labels

__all__ = ["ALL", "ENGINES", "Engine", "PeerResult", "install", "run_peers"]


_LARGEST = 1 << 29
"""The engines' narrowest ring has 32 bits, signed, and compares by subtracting."""


def run_peers(
    counts: Array,
    threshold: int,
    g: Array,
    g_i: Array,
    *,
    engines: Iterable[str | Engine] = ALL,
    repeat: int = 5,
    progress: Progress = silent,
    timeout: float = 600.0,
) -> list[PeerResult]:
    """counts: int[N, Q], g: int[Q], g_i: int[N, Q] -> a result for every variant of every engine, none left out.

    `timeout` is for each variant, in seconds; `progress` is told the variant's name.
    """
    _check(counts, threshold, g, g_i, repeat)
    chosen = [_engine(name) for name in engines]
    expected = labels(counts, threshold, g, g_i)
    results = []
    with tempfile.TemporaryDirectory(prefix="sedml-peers-") as place:
        work = Path(place) / "work.npz"
        write_work(work, counts, threshold, g, g_i)
        for engine in chosen:
            python = find_python(engine) if engine.worker else None
            for variant in engine.variants:
                progress(f"{engine.name} {variant}, {counts.shape[1]:,} samples", 0, 1)
                if not engine.worker:
                    results.append(_quoted(engine, variant, counts.shape))
                    continue
                answer = _answer(engine, python, work, variant, repeat, timeout)
                results.append(_result(engine, variant, expected, counts.shape, answer))
    return results


def _check(counts: Array, threshold: int, g: Array, g_i: Array, repeat: int) -> None:
    if repeat < 1:
        raise InputError(f"{repeat} repetitions cannot be run.", "Use at least 1.")
    if counts.ndim != 2 or counts.shape[0] < 2 or counts.shape[1] < 1:
        raise InputError(f"The counts have shape {counts.shape}.", "Pass (classes, samples), with two classes or more.")
    if g.shape != counts.shape[1:] or g_i.shape != counts.shape:
        raise InputError(
            f"The noise has shapes {g.shape} and {g_i.shape}, and the counts {counts.shape}.",
            "Pass one value per sample, and one per class and sample.",
        )
    if any(not np.issubdtype(array.dtype, np.integer) for array in (counts, g, g_i)):
        raise InputError("The counts or the noise are not integers.", "Pass integer arrays.")
    if any(np.abs(array.astype(np.int64)).max() >= _LARGEST for array in (counts, g, g_i, np.array(threshold))):
        raise InputError("The counts, the noise or the threshold are too large for 32 bits.", "Pass smaller numbers.")


def _engine(name: str | Engine) -> Engine:
    if isinstance(name, Engine):
        return name
    if name not in ENGINES:
        raise InputError(f"There is no engine {name!r}.", f"Choose from {', '.join(ENGINES)}.")
    return ENGINES[name]


def _answer(
    engine: Engine, python: Path | None, work: Path, variant: str, repeat: int, timeout: float
) -> Answer | NoAnswer:
    if python is None:
        return NoAnswer(f"it is not installed; sedml.lab.peers.install({engine.name!r}) installs it")
    return ask(engine, python, work, variant, repeat, timeout)


def _result(
    engine: Engine, variant: str, expected: Array, shape: tuple[int, ...], answer: Answer | NoAnswer
) -> PeerResult:
    if isinstance(answer, NoAnswer):
        return _skipped(engine, variant, shape, answer.reason)
    return PeerResult(
        engine=engine.name,
        variant=variant,
        samples=shape[1],
        classes=shape[0],
        seconds=median(answer.seconds),
        bytes=answer.bytes,
        rounds=answer.rounds,
        trust=engine.variants[variant],
        matches_ideal=all(np.array_equal(run, expected) for run in answer.labels),
        skipped=None,
        measured="here",
        version=", ".join(f"{name} {number}" for name, number in answer.versions.items()),
    )


def _quoted(engine: Engine, variant: str, shape: tuple[int, ...]) -> PeerResult:
    quote = engine.quotes[variant]
    if shape != (quote.classes, quote.samples):
        reason = f"it was not measured here, only quoted for {quote.samples:,} samples of {quote.classes} classes"
        return _skipped(engine, variant, shape, reason)
    return PeerResult(
        engine=engine.name,
        variant=variant,
        samples=shape[1],
        classes=shape[0],
        seconds=quote.seconds,
        bytes=quote.bytes,
        rounds=None,
        trust=engine.variants[variant],
        matches_ideal=None,
        skipped=None,
        measured="elsewhere",
        version=None,
    )


def _skipped(engine: Engine, variant: str, shape: tuple[int, ...], reason: str) -> PeerResult:
    return PeerResult(
        engine=engine.name,
        variant=variant,
        samples=shape[1],
        classes=shape[0],
        seconds=None,
        bytes=None,
        rounds=None,
        trust=engine.variants[variant],
        matches_ideal=None,
        skipped=reason,
        measured="here" if engine.worker else "elsewhere",
        version=None,
    )
