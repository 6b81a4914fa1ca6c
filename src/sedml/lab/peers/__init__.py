"""Measure the general MPC engines that one would pick instead, on the same work: the label of shared counts.

Every engine gets the same counts and the same noise, already secret-shared, and its best formulation of the same two
steps: open whether some n_i + g reaches T, and nothing else; then find the first class of the highest n_i + g_i where
it does. A run ends when the parties hold shares of the labels, which the requester would put together; they are
opened after the clock has stopped, and checked against `sedml.lab.semi_honest.two_noise_ideal`.

- *Counted* is the time from shared counts to shared labels, between processes on loopback, and all traffic between
  them. Where an engine makes its one-use randomness while it computes, that is counted too, for it cannot be told
  apart: the `trust` of each result says who deals, and when.
- *Not counted* are sharing the inputs, connecting, compiling, and a first run that warms up.
- The engines' links are plain TCP; SEDML's own figures are over TLS.

An engine runs in an environment of its own, which `install("spu")` makes.

    from sedml.lab.peers import ENGINES, install, run_peers
    install("mpyc")
    results = run_peers(counts, threshold, g, g_i, engines=[ENGINES["mpyc"]])
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from sedml import Progress, silent
from sedml.lab.peers.environments import find_python, install
from sedml.lab.peers.table import ENGINES, Engine, PeerResult
from sedml.lab.peers.workers import ask, write_work
from sedml.lab.semi_honest.two_noise_ideal import labels
from sedml.mpc.ring import Array

__all__ = ["ENGINES", "Engine", "PeerResult", "install", "run_peers"]


def run_peers(
    counts: Array,
    threshold: int,
    g: Array,
    g_i: Array,
    *,
    engines: Iterable[Engine] = tuple(ENGINES.values()),
    repeat: int = 5,
    progress: Progress = silent,
    timeout: float = 600.0,
) -> list[PeerResult]:
    """counts: int[N, Q], g: int[Q], g_i: int[N, Q] -> a result for every variant of every engine, none left out.

    All numbers must be below 2^29: the engines' narrowest ring has 32 bits, signed, and compares by subtracting.
    `timeout` is for each variant, in seconds; `progress` is told the variant's name.
    """
    expected = labels(counts, threshold, g, g_i)
    results = []
    with tempfile.TemporaryDirectory(prefix="sedml-peers-") as place:
        work = Path(place) / "work.npz"
        write_work(work, counts, threshold, g, g_i)
        for engine in engines:
            python = find_python(engine) if engine.worker else None
            for variant, trust in engine.variants.items():
                progress(f"{engine.name} {variant}, {counts.shape[1]:,} samples", 0, 1)
                if not engine.worker:
                    found = _quoted(engine, variant, counts.shape)
                elif python is None:
                    how = f"sedml.lab.peers.install({engine.name!r})"
                    found = {"skipped": f"it is not installed; {how} installs it"}
                else:
                    found = ask(engine, python, work, variant, expected, repeat=repeat, timeout=timeout)
                size = counts.shape[1], counts.shape[0]
                where: Literal["here", "elsewhere"] = "here" if engine.worker else "elsewhere"
                results.append(PeerResult(engine.name, variant, *size, trust, where, **found))
    return results


def _quoted(engine: Engine, variant: str, shape: tuple[int, ...]) -> dict[str, Any]:
    quote = engine.quotes[variant]
    if shape == (quote.classes, quote.samples):
        return {"seconds": quote.seconds, "bytes": quote.bytes, "ands": quote.ands}
    return {
        "skipped": f"it was not measured here, only quoted for {quote.samples:,} samples of {quote.classes} classes"
    }
