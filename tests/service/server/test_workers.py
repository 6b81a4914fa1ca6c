"""Blocks of a job on workers of both servers: processes of this machine, each with a connection of its own."""

import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import WorkerGoneError
from sedml.mpc.channel import throwaway_credentials
from sedml.protocol import task as task_module
from sedml.service.server.run import blocks_on_workers, worker_pool
from sedml.service.server.run.transcript import Transcript
from sedml.service.server.run.worker_pool import LocalWorkers
from sedml.service.states import JobState
from support.driven import CountedVote, driven, linked
from support.open_base_ots import open_base_ots
from support.server_process import until
from support.tiers import ROLES, thorough

BLOCKS = 20


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 8)
    monkeypatch.setattr("sedml.mpc.ot.extension.base_ots", open_base_ots)
    monkeypatch.setattr(worker_pool, "_ENOUGH", 0.0)
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


@pytest.mark.parametrize("protocol", ["fused", pytest.param("garbled", marks=thorough)])
def test_workers_find_the_labels_and_an_errand_shows_nothing(deployed, hired, monkeypatch, protocol):
    shown, pack = [], blocks_on_workers.Assignment
    monkeypatch.setattr(blocks_on_workers, "Assignment", lambda *fields: shown.append(pack(*fields)) or shown[-1])
    vote = CountedVote(deployed, 8 * BLOCKS, protocol)
    vote.close()
    with driven(deployed):
        vote.finish()
    assert len({process.pid for _, process in hired}) >= 4  # two at each server
    assert shown
    for assignment in shown[:3]:
        for secret in (assignment.work.coins.key, assignment.credentials.key):
            assert repr(secret)[2:-1] not in repr(assignment)
        assert "counts" not in repr(assignment)


@pytest.mark.parametrize(("samples", "enough"), [(8 * BLOCKS, 2.0), (8, 0.0)])
def test_a_small_job_needs_no_workers(deployed, hired, monkeypatch, samples, enough):
    """One of little work, or of a single block."""
    monkeypatch.setattr(worker_pool, "_ENOUGH", enough)
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
    """Kill the worker of a block at these of its messages, counted over all blocks, at the server of this role."""

    def arm(deployed, role, *moments):
        record, says, said, lock = deployed.nodes[role].transcripts, Transcript.says, [], threading.Lock()
        attend = blocks_on_workers._attend
        local, killed = threading.local(), []

        def attended(run, worker, block):
            local.kill = lambda: run.pool._processes[worker].kill()
            return attend(run, worker, block)

        def counted(self, place, digest, where):
            says(self, place, digest, where)
            if Path(f"/proc/self/fd/{self._file}").readlink().is_relative_to(record):
                with lock:
                    said.append(place)
                    struck = len(said) in moments
                if struck:
                    killed.append(place)
                    local.kill()

        monkeypatch.setattr(Transcript, "says", counted)
        monkeypatch.setattr(blocks_on_workers, "_attend", attended)
        return killed

    return arm


@pytest.mark.parametrize("role", ROLES)
def test_a_worker_killed_in_the_middle_of_a_block_costs_nothing(deployed, hired, killing, role):
    """Its block runs again, with the very same messages: any other would end the job."""
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    killed = killing(deployed, role, 30, 31, 75, 200)
    with driven(deployed):
        vote.finish()
    assert len(killed) == 4


@pytest.fixture
def losing(monkeypatch):
    """Lose workers of S0 once they have said their last word: S1 has all that it needs. How often, by block."""
    lost, attend, has_done = Counter(), blocks_on_workers._attend, blocks_on_workers.RunState.has_done
    local = threading.local()

    def arm(block, times):
        def attended(run, *rest):
            local.role = run.node.role
            return attend(run, *rest)

        def lose(state, index):
            if (local.role, index) == (0, block) and lost[index] < times:
                lost[index] += 1
                raise WorkerGoneError("A worker is gone.", "Its block runs again.")
            has_done(state, index)

        monkeypatch.setattr(blocks_on_workers, "_attend", attended)
        monkeypatch.setattr(blocks_on_workers.RunState, "has_done", lose)
        return lost

    return arm


@thorough
@pytest.mark.parametrize("block", [0, BLOCKS - 1])
def test_a_worker_of_s0_killed_after_its_last_word_costs_nothing(deployed, hired, losing, block):
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    lost = losing(block, 2)
    with driven(deployed):
        vote.finish()
    assert lost == {block: 2}


@thorough
def test_a_meeting_ends_where_s0_loses_all_workers_of_a_block_and_the_next_one_goes_on(deployed, hired, losing):
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    lost = losing(3, blocks_on_workers.ATTEMPTS)
    with driven(deployed):
        vote.finish()
    assert lost == {3: blocks_on_workers.ATTEMPTS}


def test_a_worker_that_would_say_something_else_is_not_let(deployed, hired, killing, monkeypatch):
    """Plant it: the coins of a block change when it runs again."""
    from dataclasses import replace

    from sedml.mpc.prg import Seed

    send = blocks_on_workers._send

    def changed(run, *rest):
        def work_of(index):
            return replace(run.work_of(index), coins=Seed.random())

        return send(replace(run, work_of=work_of), *rest)

    monkeypatch.setattr(blocks_on_workers, "_send", changed)
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    killing(deployed, 1, 100)
    with driven(deployed):
        until(lambda: JobState.FAILED in vote.states(), "the job has failed")
    problems = [record.problem for record in vote.records()]
    assert any("would change what it had said" in str(one) for one in problems)


@pytest.mark.parametrize(
    ("role", "at_first", "then"),
    [
        (0, "workers", "workers"),
        pytest.param(1, "workers", "alone", marks=thorough),
        pytest.param(0, "alone", "workers", marks=thorough),
    ],
)
def test_a_job_goes_on_where_it_was_when_a_server_stops(deployed, hired, monkeypatch, role, at_first, then):
    """Whoever works on a block says the same."""
    enough = {"workers": 0.0, "alone": np.inf}
    monkeypatch.setattr(worker_pool, "_ENOUGH", enough[at_first])
    reached, save = threading.Event(), blocks_on_workers.blocks.save

    def noticed(node, record, block, *rest):
        save(node, record, block, *rest)
        if block.index >= 5:
            reached.set()

    monkeypatch.setattr(blocks_on_workers.blocks, "save", noticed)
    vote = CountedVote(deployed, 8 * BLOCKS)
    vote.close()
    with driven(deployed) as runners:
        assert reached.wait(60)
        runners[role].stop()
    assert vote.states() != [JobState.DONE] * 2
    assert bool(hired) == (at_first == "workers")
    monkeypatch.setattr(worker_pool, "_ENOUGH", enough[then])
    with driven(deployed):
        vote.finish()


def test_whoever_overhears_an_opening_gets_nowhere(deployed, hired, monkeypatch):
    """A stranger comes with the words of S1's worker and without its certificate, ahead of it."""
    from sedml.errors import ChannelError
    from sedml.mpc.channel import connect

    refused, opening_of = [], blocks_on_workers.opening_of
    strange = throwaway_credentials()[1]

    def overheard(key, block, attempt):
        opening = opening_of(key, block, attempt)
        if (block, attempt) == (3, 0):
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
    from sedml.lab.semi_honest.party import PhaseCost
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
