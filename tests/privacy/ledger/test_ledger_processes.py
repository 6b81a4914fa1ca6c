"""Many processes and threads at once; kill -9 at every step."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from sedml.errors import LedgerError
from sedml.privacy.ledger import Ledger, State
from support import ledger_children as children

PROCESSES, THREADS, TRIES = 3, 4, 4


def child(function: str, *arguments: str) -> object:
    """Run one of `children` in a process of its own, which may fork: it has one thread."""
    done = subprocess.run(
        [sys.executable, "-W", "error", children.__file__, function, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_race_for_the_last_of_a_budget_never_overdraws_it(where):
    # Even the tables and the budget do not exist yet: all processes create them at the same moment.
    context = multiprocessing.get_context("spawn")
    rho = 0.108 / 10  # ten fit at a time
    with context.Pool(PROCESSES, children.get_ready, (context.Barrier(PROCESSES),)) as pool:
        work = [(where, number, THREADS, rho, TRIES) for number in range(PROCESSES)]
        done = [line for lines in pool.starmap(children.race, work, chunksize=1) for line in lines]
        pool.close()
        pool.join()
    kinds = Counter(kind for kind, _ in done)
    with Ledger.open(where) as ledger:
        shown, jobs = ledger.status("c"), ledger.jobs("c")
        assert shown.rho.left >= 0.0
        assert kinds["reserved"] == len(jobs)
        assert kinds["refused"] == PROCESSES * THREADS * TRIES - len(jobs)
        assert {name for kind, name in done if kind == "reserved"} == {job.job for job in jobs}
        cancelled, spent = ({name for kind, name in done if kind == what} for what in ("cancelled", "spent"))
        assert cancelled == {job.job for job in jobs if job.state is State.CANCELLED}
        assert spent == {job.job for job in jobs if job.state is State.STARTED}
        assert shown.rho.reserved == pytest.approx(rho * (len(jobs) - len(cancelled) - len(spent)))
        assert shown.rho.spent == pytest.approx(rho * len(spent))
        assert kinds["refused"] > 0

        # A job that all of them reserved is charged once, was started once, and has one label a sample.
        assert kinds["started"] == 1
        assert ledger.status("shared").rho.spent == pytest.approx(rho)
        stored = str(ledger.known("shared", children.FINGERPRINTS))
        assert {labels for kind, labels in done if kind == "remembered"} == {stored}


def test_killed_at_any_point_a_job_is_charged_exactly_once(where, tmp_path):
    with Ledger.open(where):
        pass
    points = child("kill_jobs", where, str(tmp_path))
    assert isinstance(points, int)
    assert points >= 15
    seen = Counter()
    with Ledger.open(where) as ledger:
        for number in range(points + 1):
            seen[check_and_recover(ledger, f"c{number}", tmp_path)] += 1
    assert min(seen[state] for state in (None, State.RESERVED, State.STARTED)) >= 2


def check_and_recover(ledger: Ledger, cohort: str, folder: Path) -> State | None:
    """What a killed job has left behind, and that going on from there charges it once."""
    outside = {what for what in ("reserved", "opened", "released") if (folder / f"{cohort}.{what}").exists()}
    ledger.set_budget(cohort, 2.0, 1e-5)
    jobs = ledger.jobs(cohort)
    state = jobs[0].state if jobs else None
    shown = ledger.status(cohort)
    cost = pytest.approx(children.RHO, rel=1e-6)
    labels = ledger.known(cohort, children.FINGERPRINTS)

    # What the outside has seen is charged, and a label that is out is in the ledger.
    assert state is not None or not outside
    assert state is State.STARTED or not outside & {"opened", "released"}
    assert labels in ([None, None], children.LABELS)
    assert labels == children.LABELS or "released" not in outside
    # The charge is that of the state, all of it or nothing.
    if state is None:
        assert (shown.rho.reserved, shown.rho.spent) == (0.0, 0.0)
    elif state is State.STARTED:
        assert (shown.rho.reserved, shown.rho.spent) == (0.0, cost)
    else:
        assert (shown.rho.reserved, shown.rho.spent) == (cost, 0.0)

    # Who comes back with the same job is not charged again, and cannot run it twice.
    again = ledger.reserve(cohort, "j", children.RHO, children.DISTANCE, terms=b"t")
    assert again.state is (state or State.RESERVED)
    if again.state is State.RESERVED:
        ledger.start(cohort, "j")
    else:
        with pytest.raises(LedgerError):
            ledger.start(cohort, "j")
        with pytest.raises(LedgerError):
            ledger.cancel(cohort, "j")
    shown = ledger.status(cohort)
    assert (shown.rho.reserved, shown.rho.spent) == (0.0, cost)
    return state


def test_killed_at_any_point_while_it_is_created_a_ledger_can_be_opened_again(fresh):
    places = [fresh() for _ in range(25)]
    points = child("kill_births", *places)
    assert isinstance(points, int)
    assert points >= 5
    for where in places[: points + 1]:
        with Ledger.open(where) as ledger:
            shown = ledger.set_budget("c", 2.0, 1e-5)
            assert shown.rho.left == shown.rho.budget > 0.0


def test_an_open_ledger_can_be_used_on_both_sides_of_a_fork(ledger, where):
    assert child("fork", where) == 0
    assert {job.job for job in ledger.jobs("c")} == {"before", "child", "parent", "after"}
