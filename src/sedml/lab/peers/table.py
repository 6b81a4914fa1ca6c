"""The engines, the versions that are known to work, whom one has to trust with each, and what is reported of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

__all__ = ["ENGINES", "Engine", "PeerResult", "Quote", "Trust"]

Trust: TypeAlias = Literal["dealer", "semi-honest", "honest majority", "malicious"]
"""Two parties, and somebody who knows the randomness of both; two alone that follow the protocol; three that do, no two
of which collude; two, of which one may do anything."""


@dataclass(frozen=True)
class Quote:
    """Figures of a job of this size that were measured once, apart from this run."""

    samples: int
    classes: int
    seconds: float
    bytes: int | None = None
    ands: int | None = None
    """AND gates of the circuit, where one was run."""


@dataclass(frozen=True)
class Engine:
    """A general MPC engine: how it is installed and run, or what is quoted of it."""

    name: str
    variants: Mapping[str, str]
    """The variants that are measured, each with its trust model in words."""
    trusted: Mapping[str, Trust] = field(default_factory=dict)
    """What of each variant the others are compared with: engines that ask for the same trust."""
    worker: str = ""
    """The module that runs it, `home` being on the path; empty where the engine is only quoted."""
    home: Path = Path(__file__).parent
    requirements: tuple[str, ...] = ()
    quotes: Mapping[str, Quote] = field(default_factory=dict)


@dataclass(frozen=True)
class PeerResult:
    """One engine in one variant on one job; where it was `skipped`, the reason, and no figures."""

    engine: str
    variant: str
    samples: int
    classes: int
    trust: str
    """Who computes, who deals, and who must be trusted not to do what."""
    measured: Literal["here", "elsewhere"]
    ands: int | None = None
    """AND gates of the circuit, where the engine runs one and says how many."""
    seconds: float | None = None
    """The median over the repetitions, after a first run that does not count."""
    bytes: int | None = None
    """All traffic between all parties, a dealer's included: the median, too."""
    rounds: int | None = None
    """Exchanges between the two computing parties, where the engine tells."""
    matches_ideal: bool | None = None
    """Whether every repetition gave the labels of the plain algorithm; None where no labels came."""
    skipped: str | None = None
    version: str | None = None


_SPU = Engine(
    name="spu",
    worker="engines.spu_worker",
    requirements=("spu==0.9.5", "jax==0.4.34", "jaxlib==0.4.34", "numpy==1.26.4"),
    variants={
        "SEMI2K-FM32": (
            "Two semi-honest parties. The first of them makes the one-use randomness of both and could read every "
            "input, so its documentation keeps this setting for debugging; nothing is sent for dealing. Labels are "
            "computed for all samples, for a compiled program has fixed shapes."
        ),
        "CHEETAH-FM32": (
            "Two semi-honest parties and no dealer: oblivious transfers make the one-use randomness and are part of "
            "the time and the traffic, all but the first, large batch, which the warm-up makes. Labels are computed "
            "for all samples, for a compiled program has fixed shapes."
        ),
        "ABY3-FM32": (
            "Three semi-honest parties, no two of which collude; no dealer. Labels are computed for all samples, for "
            "a compiled program has fixed shapes."
        ),
    },
    trusted={"SEMI2K-FM32": "dealer", "CHEETAH-FM32": "semi-honest", "ABY3-FM32": "honest majority"},
)

_MPYC = Engine(
    name="mpyc",
    worker="engines.mpyc_worker",
    requirements=("mpyc==0.11", "gmpy2==2.3.2", "numpy==2.4.6"),
    variants={
        "M3": (
            "Three semi-honest parties, no two of which collude; no dealer: the parties make their random bits "
            "while they compute, which is part of the time and the traffic."
        ),
    },
    trusted={"M3": "honest majority"},
)

_QUOTED = "Quoted: measured once, on a machine with two cores, in the same hour as the other quotes."

_MP_SPDZ = Engine(
    name="mp-spdz",
    variants={
        "dealer-ring": f"Two semi-honest parties and a dealer that colludes with neither. {_QUOTED}",
        "semi-bin": f"Two semi-honest parties and no dealer, on a binary circuit. {_QUOTED}",
        "semi2k": f"Two semi-honest parties and no dealer, in a ring. {_QUOTED}",
        "tinier": f"Two parties, one of which may do anything; no dealer. {_QUOTED}",
    },
    trusted={"dealer-ring": "dealer", "semi-bin": "semi-honest", "semi2k": "semi-honest", "tinier": "malicious"},
    quotes={
        "dealer-ring": Quote(samples=1000, classes=10, seconds=0.042, bytes=730_000),
        "semi-bin": Quote(samples=1000, classes=10, seconds=0.069, bytes=14_700_000),
        "semi2k": Quote(samples=1000, classes=10, seconds=0.113, bytes=30_000_000),
        "tinier": Quote(samples=1000, classes=10, seconds=5.5, bytes=764_000_000, ands=435_000),
    },
)

_EMP = Engine(
    name="emp",
    variants={
        "sh2pc": f"Two semi-honest parties and no dealer: one garbles, the other evaluates. {_QUOTED}",
        "ag2pc": (
            "Two parties, one of which may do anything; no dealer: authenticated garbling, as SEDML does, in C++. "
            f"{_QUOTED}"
        ),
    },
    trusted={"sh2pc": "semi-honest", "ag2pc": "malicious"},
    quotes={
        "sh2pc": Quote(samples=1000, classes=10, seconds=0.036),
        "ag2pc": Quote(samples=1000, classes=10, seconds=0.705, bytes=125_000_000, ands=435_000),
    },
)

ENGINES: Mapping[str, Engine] = {engine.name: engine for engine in (_SPU, _MPYC, _MP_SPDZ, _EMP)}
