"""How far a run on workers is: which attempts are left to make, who is at work on one, and what went wrong."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from sedml.errors import SedmlError
from sedml.mpc.channel.base import first_cause
from sedml.service.server.run.blocks import Attempt
from sedml.service.server.run.worker_pool import Worker


class RunState:
    """How far a run is; from all threads of it. Each attempt is made once: what breaks off is left to the next run."""

    def __init__(self, attempts: Sequence[Attempt], most_broken: int) -> None:
        self._left = {attempt.block.index: attempt for attempt in attempts}
        self._most_broken = most_broken
        self._at_work: dict[Attempt, Worker | None] = {}
        self._made = 0
        self._broken: list[SedmlError] = []
        self._error: BaseException | None = None
        self._change = threading.Condition()

    @property
    def stopped(self) -> bool:
        """Whether all is over."""
        with self._change:
            return self._error is not None

    def take(self, block: int | None = None, number: int | None = None) -> Attempt | None:
        """The next attempt, or the one of this block and number; None if there is none, or if too many broke off."""
        with self._change:
            if self._error is not None or (block is None and len(self._broken) >= self._most_broken):
                self._left.clear()
            index = next(iter(self._left), -1) if block is None else block
            attempt = self._left.get(index)
            if attempt is None or number not in (None, attempt.number):
                return None
            del self._left[index]
            self._at_work[attempt] = None
            return attempt

    def pending(self, role: int) -> int:
        """How many attempts this server's part of is not over: S1 begins them, S0 waits to be called."""
        with self._change:
            return len(self._at_work) + (len(self._left) if role == 1 else 0)

    def employs(self, attempt: Attempt, worker: Worker) -> None:
        """Somebody is at work on it now; ended at once if all is over."""
        with self._change:
            self._at_work[attempt] = worker
            over = self._error is not None
        if over:
            worker.end()

    def ends(self, attempt: Attempt, error: SedmlError | None = None) -> None:
        """Nobody is at work on it any more: it is final here, or broke off."""
        with self._change:
            del self._at_work[attempt]
            if error is None:
                self._made += 1
            else:
                self._broken.append(error)
            self._change.notify_all()

    def stop(self, error: BaseException) -> None:
        """The run cannot go on: end all who are at work. The first error is the one that others follow from."""
        with self._change:
            self._error = error if self._error is None else first_cause([self._error, error])
            self._change.notify_all()
            workers = list(self._at_work.values())
        for worker in workers:
            if worker is not None:
                worker.end()

    def wait(self, role: int, seconds: float) -> None:
        """Wait until nothing is pending, or so long; raises what the run was stopped for."""
        with self._change:
            self._change.wait_for(lambda: self._error is not None or not self.pending(role), seconds)
            if self._error is not None:
                raise self._error

    def check(self) -> None:
        """Raise what went wrong if nothing came of the run: it is of no use to begin the next one at once."""
        with self._change:
            if self._error is not None:
                raise self._error
            if self._broken and not self._made:
                raise first_cause(self._broken)
