"""The one interface through which S0 and S1 talk: a round is one call of `exchange`."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sedml.errors import ChannelError, CheatingError, InputError, PeerGoneError, PeerTimeoutError
from sedml.mpc.channel.frame import TASK_SIZE, Frame, make_frame, split
from sedml.mpc.channel.sharing_a_link import Lanes

_MAX_DELAY = 3600.0


@dataclass(frozen=True, slots=True)
class Traffic:
    """Rounds and bytes of a channel so far: frames with their headers, without what TLS and TCP add."""

    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.rounds + other.rounds,
            self.bytes_sent + other.bytes_sent,
            self.bytes_received + other.bytes_received,
        )

    def __sub__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.rounds - other.rounds,
            self.bytes_sent - other.bytes_sent,
            self.bytes_received - other.bytes_received,
        )


@dataclass
class PhaseCost:
    """What a phase cost one server: wall time, rounds, and bytes in both directions."""

    seconds: float = 0.0
    rounds: int = 0
    bytes: int = 0

    def add(self, spent: Traffic, seconds: float) -> None:
        """One more stretch of the phase."""
        self.seconds += seconds
        self.rounds += spent.rounds
        self.bytes += spent.bytes_sent + spent.bytes_received


class Channel(ABC):
    """One end of the link between S0 and S1, for one task at a time. Not for use by two threads at once.

    `timeout` is how long the peer may be silent, in seconds. `delay` simulates a slow network between two
    processes of one machine: each message is held back until so many seconds after it was sent; both ends must
    agree on it. After any error the channel is closed, for the two ends may no longer be at the same point.
    """

    def __init__(self, task: bytes, *, timeout: float = 30.0, delay: float = 0.0) -> None:
        check_settings(task, timeout, delay)
        self._task = bytes(task)
        self._timeout = timeout
        self._delay = round(delay * 1e6)
        self._rounds = 0
        self._bytes = 0
        self._closed = False

    @property
    def task(self) -> bytes:
        """The task that the channel is turned to."""
        return self._task

    @property
    def traffic(self) -> Traffic:
        """The totals over all finished rounds; subtract two of them to measure a phase."""
        return Traffic(self._rounds, self._bytes, self._bytes)

    def exchange(self, block: int, step: str, arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """One round: send these arrays, return the peer's, which have the same dtypes and shapes.

        What is returned shares no memory with what was sent, and is writable.
        """
        if self._closed:
            raise ChannelError("The channel to the peer is closed.", "Open a new one and start the block again.")
        try:
            frame = make_frame(self._task, block, step, self._delay, arrays)
            message, sent = self._swap(frame)
            received = split(message, arrays)
            if self._delay:
                _hold(sent, self._delay)
        except BaseException:
            self.close()
            raise
        self._rounds += 1
        self._bytes += frame.size
        return received

    def turn_to(self, task: bytes) -> None:
        """Go on with another task over the same connection; the peer must do so at the same point."""
        check_settings(task, self._timeout, 0.0)
        self._task = bytes(task)

    @abstractmethod
    def _swap(self, frame: Frame) -> tuple[NDArray[np.uint8], int]:
        """Send the frame; check the peer's header; return its message and, with a delay, when that was sent."""

    @abstractmethod
    def _carry(self, lanes: Lanes) -> None:
        """Send and receive for all lanes until they are over, in a thread of its own."""

    def _stir(self, lanes: Lanes) -> None:  # noqa: B027 - a transport that looks by itself has nothing to do
        """There is something new to carry; called by a lane, which holds the lock of all."""

    def _count(self, traffic: Traffic) -> None:
        """Add what the lanes have carried."""
        self._rounds += traffic.rounds
        self._bytes += traffic.bytes_sent

    @abstractmethod
    def _shut(self) -> None:
        """Let go of the transport so that the peer notices. Called once."""

    def abort(self) -> None:  # noqa: B027 - a transport that nobody else needs to cut has nothing to do
        """Make the thread that uses the channel find its peer gone; the only call for another thread."""

    def close(self) -> None:
        """Hang up. Closing twice does no harm."""
        if not self._closed:
            self._closed = True
            self._shut()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_settings(task: bytes, timeout: float, delay: float) -> None:
    """Raise if a channel cannot be made with these."""
    if len(task) != TASK_SIZE:
        raise InputError(f"A task id has {TASK_SIZE} bytes, not {len(task)}.", "Pass the id of the task.")
    if not (math.isfinite(timeout) and timeout > 0):
        raise InputError(f"A time-out of {timeout} s cannot be used.", "Pass a positive number of seconds.")
    if not 0 <= delay <= _MAX_DELAY:
        raise InputError(f"A delay of {delay} s cannot be used.", f"Pass 0 to {_MAX_DELAY:.0f} seconds.")


def peer_gone() -> PeerGoneError:
    """The error for a peer that hung up."""
    return PeerGoneError("The peer closed the connection.", "Look at its log, then start the block again on both.")


def peer_timeout(seconds: float) -> PeerTimeoutError:
    """The error for a peer that has been silent for so long."""
    return PeerTimeoutError(
        f"The peer has been silent for {seconds:g} s.",
        "Check that it runs and can be reached, or allow a longer time-out.",
    )


def first_cause(errors: Iterable[BaseException]) -> BaseException:
    """The error, of several in as many threads, that the others follow from: a broken link is a consequence.

    That the other server was caught comes before everything: it must not be forgotten for something else that went
    wrong.
    """

    def rank(error: BaseException) -> tuple[bool, bool, bool]:
        caught = isinstance(error, CheatingError)
        return not caught, isinstance(error, PeerGoneError), isinstance(error, ChannelError)

    return min(errors, key=rank)


def _hold(sent: int, delay: int) -> None:
    # Never longer than the delay itself: the stamp means nothing if the peer's clock is another machine's.
    remaining = min((sent - time.monotonic_ns()) / 1e9 + delay / 1e6, delay / 1e6)
    if remaining > 0:
        time.sleep(remaining)
