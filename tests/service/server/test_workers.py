"""Blocks of a job on workers of both servers: processes of this machine, each with a connection of its own."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import CheatingError, WorkerGoneError
from sedml.mpc.certificates import throwaway_credentials
from sedml.protocol import task as task_module
from sedml.protocol.task import EXTRA_ATTEMPTS
from sedml.service.server.run import block_worker, blocks, blocks_on_workers, pacing, repetition, worker_pool
from sedml.service.server.run.worker_messages import DONE, FAILED
from sedml.service.server.run.worker_pool import LocalWorkers
from sedml.service.states import JobState
from support.deployment import status
from support.driven import CountedVote, driven, linked
from support.open_base_ots import open_base_ots
from support.server_process import until
from support.tiers import ROLES, thorough

BLOCKS = 20


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)
    monkeypatch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)
    monkeypatch.setattr(pacing, "_ENOUGH", 0.0)
    monkeypatch.setattr(blocks_on_workers, "_PULSE", 0.05)


@pytest.fixture
def deployed(tmp_path):
    with linked(tmp_path) as made:
        yield made


@pytest.fixture
def hired(monkeypatch):
    """Every worker that was started, by process."""
    started, original = [], LocalWorkers._start

    def start(self):
        worker = original(self)
        started.append((self, self._processes[worker]))
        return worker

    monkeypatch.setattr(LocalWorkers, "_start", start)
    yield started
    assert [process.poll() for _, process in started if process.poll() is None] == [], "left behind"


def test_workers_find_the_labels_and_an_errand_shows_nothing(deployed, hired, monkeypatch):
    shown, pack = [], blocks_on_workers.Assignment
    monkeypatch.setattr(blocks_on_workers, "Assignment", lambda *fields: shown.append(pack(*fields)) or shown[-1])
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    with driven(deployed):
        vote.finish()
    assert len({process.pid for _, process in hired}) >= 4  # two at each server
    assert shown
    for assignment in shown[:3]:
        assert repr(assignment.credentials.key)[2:-1] not in repr(assignment)
        assert "counts" not in repr(assignment)


@pytest.mark.parametrize(("samples", "enough"), [(8 * BLOCKS, 2.0), (8, 0.0)])
def test_a_small_job_needs_no_workers(deployed, hired, monkeypatch, samples, enough):
    """One of little work, or of a single block."""
    monkeypatch.setattr(pacing, "_ENOUGH", enough)
    vote = CountedVote(deployed, samples)
    vote.close()
    with driven(deployed):
        vote.finish()
    assert hired == []


def test_a_server_without_workers_has_the_other_do_without_too(tmp_path, hired):
    with linked(tmp_path, compute_workers=1) as deployed:
        vote = CountedVote(deployed, 8 * BLOCKS)
        vote.close()
        with driven(deployed):
            vote.finish()
    assert hired == []


@pytest.fixture
def killing(monkeypatch):
    """Kill workers of the server of this role, each at its first attempt at one of these blocks: as soon as it has its
    assignment, or when its share is saved."""

    def arm(role, moment, *at):
        send, save, killed = blocks_on_workers._send, blocks.save, []

        def kill(run, worker, attempt):
            if run.node.role == role and attempt.block.index in at and attempt.number == 1:
                killed.append(attempt.block.index)
                run.pool._processes[worker].kill()

        def sent(run, worker, attempt, route_of):
            send(run, worker, attempt, route_of)
            local.kill = lambda: kill(run, worker, attempt)
            if moment == "assigned":
                local.kill()

        def saved(*what):
            save(*what)
            if moment == "saved":
                local.kill()

        local = threading.local()
        monkeypatch.setattr(blocks_on_workers, "_send", sent)
        monkeypatch.setattr(blocks, "save", saved)
        return killed

    return arm


@thorough
@pytest.mark.parametrize(("moment", "extra"), [("assigned", 2), ("saved", 0)])
@pytest.mark.parametrize("role", ROLES)
def test_a_worker_that_is_killed_costs_an_attempt_at_most(deployed, hired, killing, role, moment, extra):
    """Once its share is on disk the other server has all that it needs, and saves its own."""
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    killed = killing(role, moment, 3, 11)
    with driven(deployed):
        vote.finish()
    assert sorted(killed) == [3, 11]
    assert [status(deployed, one, vote.terms.id).extra_attempts for one in (0, 1)] == [extra, extra]


@thorough
@pytest.mark.parametrize("role", ROLES)
def test_a_last_word_that_is_lost_costs_nothing(deployed, hired, monkeypatch, role):
    """A worker is gone before its server has heard that the other one has saved its share: both have."""
    final, lost = blocks.make_final, []

    def lose_one(node, record, saved):
        if node.role == role and not lost:
            lost.append(saved)
            raise WorkerGoneError("A worker is gone.", "")
        final(node, record, saved)

    monkeypatch.setattr(blocks, "make_final", lose_one)
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    with driven(deployed):
        vote.finish()
    assert lost
    assert [status(deployed, one, vote.terms.id).extra_attempts for one in (0, 1)] == [0, 0]


def test_a_run_in_which_all_workers_die_ends_and_the_job_goes_on_without(deployed, hired, killing):
    """After so many attempts that broke off the servers work themselves, one block at a time."""
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    killing(1, "assigned", *range(BLOCKS))
    with driven(deployed):
        vote.finish()
    assert repetition.MANY_EXTRA <= status(deployed, 1, vote.terms.id).extra_attempts <= EXTRA_ATTEMPTS


def test_a_check_that_fails_at_a_worker_ends_the_job(deployed, hired, monkeypatch):
    attend = blocks_on_workers._attend

    def caught(run, worker, attempt):
        if (run.node.role, attempt.block.index) == (1, 5):
            return CheatingError("The other server's tables do not fit.", "Tell both operators.")
        return attend(run, worker, attempt)

    monkeypatch.setattr(blocks_on_workers, "_attend", caught)
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    with driven(deployed):
        until(lambda: vote.states() == [JobState.FAILED] * 2, "the job has failed")
    assert vote.records()[1].problem.type == "urn:sedml:cheating"


@pytest.mark.parametrize(
    ("role", "at_first", "then"),
    [
        (0, "workers", "workers"),
        (1, "workers", "alone"),
        (0, "alone", "workers"),
    ],
)
@thorough
def test_a_job_goes_on_where_it_was_when_a_server_stops(deployed, hired, monkeypatch, role, at_first, then):
    """Whoever makes the next attempt at a block."""
    enough = {"workers": 0.0, "alone": np.inf}
    monkeypatch.setattr(pacing, "_ENOUGH", enough[at_first])
    reached, save = threading.Event(), blocks_on_workers.blocks.save

    def noticed(node, record, attempt, *rest):
        save(node, record, attempt, *rest)
        if attempt.block.index >= 5:
            reached.set()

    monkeypatch.setattr(blocks_on_workers.blocks, "save", noticed)
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    with driven(deployed) as runners:
        assert reached.wait(60)
        runners[role].stop()
    assert vote.states() != [JobState.DONE] * 2
    assert bool(hired) == (at_first == "workers")
    monkeypatch.setattr(pacing, "_ENOUGH", enough[then])
    with driven(deployed):
        vote.finish()


@thorough
def test_whoever_overhears_an_opening_gets_nowhere(deployed, hired, monkeypatch):
    """A stranger comes with the words of S1's worker and without its certificate, ahead of it."""
    from sedml.errors import ChannelError
    from sedml.mpc.channel import connect

    refused, opening_of = [], blocks_on_workers.opening_of
    strange = throwaway_credentials()[1]

    def overheard(key, block, attempt):
        opening = opening_of(key, block, attempt)
        if (block, attempt) == (3, 1):
            address = "127.0.0.1", deployed.nodes[0].settings.link_port
            with pytest.raises(ChannelError) as caught:
                connect(address, bytes(16), strange, opening=opening)
            refused.append(caught.value)
        return opening

    monkeypatch.setattr(blocks_on_workers, "opening_of", overheard)
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    with driven(deployed):
        vote.finish()
    assert len(refused) == 1


def test_there_are_no_more_workers_than_can_work_if_one_is_soon_done(hired):
    pool = LocalWorkers(2)
    try:
        first, second = pool.hire(), pool.hire()
        threading.Timer(0.05, pool.release, [first]).start()
        assert pool.hire() is first
        assert len(hired) == 2
        threading.Timer(0.05, second.end).start()
        assert pool.hire() not in (first, second)
        assert pool.hire() is not first, "nor does a block wait for ever"
        assert len(hired) == 4
    finally:
        pool.close()


def test_idle_workers_go_after_a_while(monkeypatch):
    pool = LocalWorkers(2)
    worker = pool.hire()
    process = pool._processes[worker]
    pool.release(worker)
    pool.sweep()
    assert process.poll() is None
    assert pool.hire() is worker
    pool.release(worker)
    monkeypatch.setattr(worker_pool, "_IDLE", -1.0)
    pool.sweep()
    assert process.poll() is not None
    pool.close()


def test_a_dead_worker_is_not_hired(hired):
    pool = LocalWorkers(2)
    worker = pool.hire()
    pool.release(worker)
    pool._processes[worker].kill()
    pool._processes[worker].wait()
    other = pool.hire()
    assert other is not worker
    pool.close()


def test_labels_of_a_block_travel_as_they_are():
    from sedml.mpc.channel import PhaseCost
    from sedml.service.server.run.worker_messages import costed, from_costed

    cost, document = from_costed(costed(PhaseCost(1.5, 46, 2**40), b"share"))
    assert (cost, document) == (PhaseCost(1.5, 46, 2**40), b"share")
    assert np.isfinite(cost.seconds)


def test_workers_go_with_a_server_that_is_killed():
    script = (
        "from sedml.service.server.run.worker_pool import LocalWorkers; pool = LocalWorkers(2); worker = pool.hire();"
        "print(pool._processes[worker].pid, flush=True); input()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        worker = Path("/proc") / server.stdout.readline().strip()
        assert worker.exists()
        server.kill()
    until(lambda: not (worker / "fd").exists() or _is_zombie(worker), "the worker is gone")


def _is_zombie(process):
    try:
        return (process / "stat").read_text().split(")")[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("caught", [True, False])
def test_a_worker_reports_before_its_connection_is_closed(monkeypatch, caught):
    """Whoever sees it close must not be able to have the worker ended before it has said that it was cheated."""
    order = []
    ours, theirs = socket.socketpair()

    class Line:
        def fileno(self):
            return ours.fileno()

        def send(self, kind, body=b""):
            order.append(kind)

    class Connection:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            order.append("closed")

    def run(*_):
        if caught:
            raise CheatingError("The other server cheated.", "Tell both operators.")

    monkeypatch.setattr(block_worker, "_channel", lambda *_: Connection())
    monkeypatch.setattr(block_worker, "_run", run)
    with ours, theirs:
        block_worker._work(Line(), None, None)
    assert order == [FAILED if caught else DONE, "closed"]
