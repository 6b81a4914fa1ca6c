"""How far away the other server is: how long a message takes one way, as the two measure it at each greeting.

Each times an empty exchange right after another one, and they tell each other how long it took. One server may be ahead
of the other; then it waits too long by as much as the other waits too short a time, so the mean of both is the delay.
Only how many blocks of a job are under way at a time hangs on it (`run.pacing`), so that it does not matter
what the other server claims.
"""

from __future__ import annotations

_REMEMBERED = 6
_LONGEST = 60.0


class LinkDelay:
    """What the greetings of the last minute have found."""

    def __init__(self) -> None:
        self._delays: tuple[float, ...] = ()

    @property
    def seconds(self) -> float | None:
        """The shortest of them, since what disturbs a measurement makes a delay longer; None before the first."""
        return min(self._delays, default=None)

    def note(self, mine: float, theirs: float) -> None:
        """Take in how long an exchange took by this server and by the other, if what that one says can be."""
        if 0 <= theirs <= _LONGEST:
            self._delays = (*self._delays, (mine + theirs) / 2)[-_REMEMBERED:]
