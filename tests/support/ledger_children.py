"""What the ledger's tests run in other processes. Nothing here is collected."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from multiprocessing.synchronize import Barrier
from pathlib import Path

import sqlalchemy as sa

from sedml.errors import BudgetExceededError, LedgerError
from sedml.privacy.ledger import Ledger

EPSILON, DELTA = 2.0, 1e-5
RHO = 0.01
DISTANCE = 1e-10
FINGERPRINTS = [b"one", b"two"]
LABELS = [3, -1]

# ---- Many at once -----------------------------------------------------------------------------------

_barrier: Barrier | None = None


def get_ready(barrier: Barrier) -> None:
    global _barrier
    _barrier = barrier


def race(where: str, number: int, threads: int, rho: float, tries: int) -> list[tuple[str, str]]:
    """Open, set the budget, and reserve as many jobs as are granted, all at the same moment as the others.

    Returns what was done to which job, by this process.
    """
    assert _barrier is not None
    _barrier.wait(60)
    with Ledger.open(where) as ledger, ThreadPoolExecutor(threads) as pool:
        ledger.set_budget("c", EPSILON, DELTA)

        def one(thread: int) -> list[tuple[str, str]]:
            done = []
            for attempt in range(tries):
                mine = f"job {number} {thread} {attempt}"
                try:
                    ledger.reserve("c", mine, rho)
                    done.append(("reserved", mine))
                except BudgetExceededError:
                    done.append(("refused", mine))
                    continue
                if attempt % 3 == 1:  # gives it back, which makes room for others
                    ledger.cancel("c", mine)
                    done.append(("cancelled", mine))
                elif attempt % 3:
                    ledger.start("c", mine)
                    done.append(("spent", mine))
            ledger.reserve("shared", "everyone's", rho)
            try:
                ledger.start("shared", "everyone's")
                done.append(("started", "everyone's"))
            except LedgerError:
                pass
            given = ledger.remember("shared", "everyone's", FINGERPRINTS, [number, thread])
            done.append(("remembered", str(given)))
            return done

        ledger.set_budget("shared", EPSILON, DELTA)
        return [line for lines in pool.map(one, range(threads)) for line in lines]


# ---- kill -9 ----------------------------------------------------------------------------------------


def use(where: str, cohort: str, folder: Path, point: Callable[[], None]) -> None:
    """The whole life of a job. The files are what the outside world has seen of it."""
    with Ledger.open(where) as ledger:
        ledger.set_budget(cohort, EPSILON, DELTA)
        watch(point)
        ledger.reserve(cohort, "j", RHO, DISTANCE, terms=b"t")
        (folder / f"{cohort}.reserved").touch()
        point()
        ledger.start(cohort, "j")
        point()
        (folder / f"{cohort}.opened").touch()
        point()
        ledger.remember(cohort, "j", FINGERPRINTS, LABELS)
        point()
        (folder / f"{cohort}.released").touch()
        point()


def watch(point: Callable[[], None]) -> None:
    """Make a point before every statement, BEGIN too on SQLite, and before every commit.

    Not before a query: the next statement that writes finds the database just as it is there.
    """

    def before(_: object, __: object, statement: str, *___: object) -> None:
        if not statement.lstrip().startswith(("SELECT", "PRAGMA")):
            point()

    sa.event.listen(sa.Engine, "before_cursor_execute", before)
    sa.event.listen(sa.Engine, "commit", lambda _: point())


def killed_at(number: int, work: Callable[[Callable[[], None]], None]) -> bool:
    """Whether `work`, in a fork, got to its `number`-th point, where it kills itself."""
    child = os.fork()
    if child == 0:
        left = number

        def point() -> None:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        status = 1
        try:
            work(point)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the child failed"
    return False


def kill_jobs(where: str, folder: str) -> int:
    """Play `use` again and again, killed one point later each time; returns how often it was killed."""
    for number in count():
        cohort = f"c{number}"
        if not killed_at(number, lambda point, cohort=cohort: use(where, cohort, Path(folder), point)):
            return number
    raise AssertionError


def kill_births(*addresses: str) -> int:
    """The same for creating a ledger, each time in a new place."""
    for number, where in enumerate(addresses):

        def work(point: Callable[[], None], where: str = where) -> None:
            watch(point)
            with Ledger.open(where) as ledger:
                ledger.set_budget("c", EPSILON, DELTA)

        if not killed_at(number, work):
            return number
    raise AssertionError("not enough places")


# ---- A full disk, and a fork ------------------------------------------------------------------------


def fill_disk(where: str, room: str) -> list[str]:
    """Reserve, start and remember while no file may grow above `room` bytes; returns the errors' texts."""
    errors = []
    with Ledger.open(where) as ledger:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(room), resource.RLIM_INFINITY))
        for number in range(2000):
            try:
                ledger.reserve("c", f"job {number}", 1e-6)
            except LedgerError as error:
                errors.append(str(error))
                break
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        errors.append(str(len(ledger.jobs("c"))))
    return errors


def fork(where: str) -> int:
    """Use an open ledger on both sides of a fork; returns the child's exit status."""
    with Ledger.open(where) as ledger:
        ledger.reserve("c", "before", 0.001)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                ledger.reserve("c", "child", 0.001)
                status = 0
            finally:
                os._exit(status)
        ledger.reserve("c", "parent", 0.001)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ledger.reserve("c", "after", 0.001)
    return status


if __name__ == "__main__":
    json.dump(globals()[sys.argv[1]](*sys.argv[2:]), sys.stdout)
