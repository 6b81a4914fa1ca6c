"""How far a run on workers is: which blocks are left, who is at work on them, and what went wrong."""

from __future__ import annotations

import threading

from sedml.errors import WorkerGoneError
from sedml.mpc.channel.base import first_cause
from sedml.service.server.run.worker_pool import Worker

__all__ = ["ATTEMPTS", "RunState"]

ATTEMPTS = 5
"""How often a block is begun in one meeting."""


class RunState:
    """How far a run is; from all threads of it."""

    def __init__(self, every: range) -> None:
        self._every = every
        self._next = every.start
        self._again: set[int] = set()
        self._left = set(every)
        self._begun: set[int] = set()
        self._attempts: dict[int, int] = {}
        self._at_work: dict[int, Worker] = {}
        self._errors: list[BaseException] = []
        self._change = threading.Condition()
        self._stopped = threading.Event()

    @property
    def left(self) -> int:
        """Blocks that are not done."""
        with self._change:
            return len(self._left)

    @property
    def abandoned(self) -> int | None:
        """A block that was begun, is not done, and has nobody at work on it."""
        with self._change:
            return min(self._begun & self._left - self._at_work.keys(), default=None)

    @property
    def stopped(self) -> bool:
        """Whether all is over."""
        return self._stopped.is_set()

    def take(self) -> int | None:
        """The next block that nobody has begun, or that is to run again; None when all is over."""
        with self._change:
            self._change.wait_for(lambda: self.stopped or self._again or self._next < self._every.stop)
            if self.stopped:
                return None
            if self._again:
                return self._again.pop()
            self._next += 1
            return self._next - 1

    def next_attempt(self, block: int) -> int:
        """The number of the next attempt at a block, from 0 on."""
        with self._change:
            self._attempts[block] = self._attempts.get(block, -1) + 1
            return self._attempts[block]

    def repeat(self, block: int) -> None:
        """The other server lacks it; one that is not done here runs anyway."""
        with self._change:
            if block not in self._every or block in self._left or block in self._at_work:
                return
            if self._attempts[block] + 1 < ATTEMPTS:
                self._left.add(block)
                self._again.add(block)
            else:
                self._errors.append(WorkerGoneError("The other server loses its workers.", "Tell its operator."))
            self._change.notify_all()

    def expects(self, block: int) -> bool:
        """Whether it is one of the run's."""
        return block in self._every

    def begins(self, block: int, worker: Worker) -> None:
        """Whoever was at work on the block before is of no use any more."""
        with self._change:
            older = self._at_work.pop(block, None)
            self._at_work[block] = worker
            self._begun.add(block)
        if older is not None:
            older.end()
        if self.stopped:
            worker.end()

    def ends(self, block: int, worker: Worker) -> None:
        """It is at work on the block no more."""
        with self._change:
            if self._at_work.get(block) is worker:
                del self._at_work[block]

    def has_done(self, block: int) -> None:
        """It is on disk, and the same at both servers."""
        with self._change:
            self._left.discard(block)
            self._change.notify_all()

    def fail(self, error: BaseException) -> None:
        """The run cannot go on."""
        with self._change:
            self._errors.append(error)
            self._change.notify_all()
        self.stop()

    def cause(self, error: BaseException) -> BaseException:
        """What a run has ended for, if this is what its own thread has heard."""
        with self._change:
            return first_cause([*self._errors, error])

    def wait(self, seconds: float) -> None:
        """Wait until all is done, or so long; raises what went wrong."""
        with self._change:
            self._change.wait_for(lambda: self._errors or not self._left, seconds)
            if self._errors:
                raise first_cause(self._errors)

    def pause(self, seconds: float) -> None:
        """Wait so long, or until all is over."""
        self._stopped.wait(seconds)

    def stop(self) -> None:
        """End all who are at work."""
        self._stopped.set()
        with self._change:
            self._change.notify_all()
            workers = list(self._at_work.values())
        for worker in workers:
            worker.end()
