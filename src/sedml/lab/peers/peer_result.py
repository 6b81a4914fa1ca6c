"""What is reported of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["PeerResult"]


@dataclass(frozen=True)
class PeerResult:
    """One engine in one variant on one job; where it was `skipped`, the reason, and no figures."""

    engine: str
    variant: str
    samples: int
    classes: int
    seconds: float | None
    """The median over the repetitions, after a first run that does not count."""
    bytes: int | None
    """All traffic between all parties, a dealer's included: the median, too."""
    rounds: int | None
    """Exchanges between the two computing parties, where the engine tells."""
    trust: str
    """Who computes, who deals, and who must be trusted not to do what."""
    matches_ideal: bool | None
    """Whether every repetition gave the labels of `sedml.protocol.ideal`; None where no labels came."""
    skipped: str | None
    measured: Literal["here", "elsewhere"]
    version: str | None
