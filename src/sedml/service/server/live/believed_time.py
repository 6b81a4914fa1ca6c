"""Whether the server's clock can be believed: what is deleted, or closed, by a wrong one cannot be brought back.

A clock is doubted

- from each start, and from each jump (it has moved by a minute more or less than time has passed), until the other
  server's agrees with it, or else until it has gone steadily for an hour;
- as long as the other server's is more than five minutes away from it.

While it is doubted, nothing is deleted, expired or closed because of its age. Whatever else a server does goes on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

_JUMP = 60.0
_APART = 300.0
_STEADY = 3600.0

_log = structlog.get_logger("sedml.clock")


@dataclass(frozen=True)
class _Anchor:
    """A moment by the clock and by time that only passes, since when the clock has gone steadily."""

    wall: float
    steady: float
    peer_ahead: float | None = None
    """How far the other server's clock was ahead when it was last heard, if it was heard since."""


class BelievedTime:
    """A server's clock, beside time that only passes and what the other server's clock says."""

    def __init__(self, clock: Callable[[], datetime], steady: Callable[[], float]) -> None:
        self._clock, self._time_passed = clock, steady
        self._anchor = self._moment()

    def doubt(self) -> str | None:
        """Why the clock is not believed now, if it is not."""
        anchor = self._since_last_jump()
        if anchor.peer_ahead is not None:
            if abs(anchor.peer_ahead) <= _APART:
                return None
            return f"the other server's clock is {anchor.peer_ahead:+.0f} s away from it"
        if self._time_passed() - anchor.steady >= _STEADY:
            return None
        return "the other server has not confirmed it since it was started or set"

    def hear(self, theirs: float) -> None:
        """Take in what time it is by the other server's clock, in seconds since 1970, if it is a number."""
        if not math.isfinite(theirs):
            return
        self._anchor = replace(self._since_last_jump(), peer_ahead=theirs - self._clock().timestamp())

    def earlier(self) -> float:
        """What time it is by this clock or by the other server's, whichever is behind."""
        return max(0.0, self._clock().timestamp() + min(0.0, self._since_last_jump().peer_ahead or 0.0))

    def _moment(self) -> _Anchor:
        return _Anchor(self._clock().timestamp(), self._time_passed())

    def _since_last_jump(self) -> _Anchor:
        """The anchor, which a jump sets anew."""
        current, anchor = self._moment(), self._anchor
        moved = (current.wall - anchor.wall) - (current.steady - anchor.steady)
        if abs(moved) <= _JUMP:
            return anchor
        _log.warning("clock.jump", seconds=round(moved), what="Nothing is deleted until the clock is believed again.")
        self._anchor = current
        return current
