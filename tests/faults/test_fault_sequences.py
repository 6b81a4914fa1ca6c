"""Votes, replays, half-votes, lost answers, crashes at every step and cut links: every vote counts exactly once.

Two kinds of runs, on real stores with the real code of both servers: one in which a fault strikes at *every* point of a
job's life in turn, and random sequences from a seed that is printed when one fails (`SEDML_FAULT_SEED` runs it alone,
`SEDML_FAULT_RUNS` more of them). Whatever happens, afterwards:

- the roster is exactly the teachers that both servers have acknowledged with one submission;
- the labels are those of the ideal functionality for these votes and the noise on record;
- every server charged the job once, and settled it to what was answered;
- every message that was sent again was the same: no piece of correlation met two inputs.
"""

import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import ConflictError, SedmlError
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.service.server import charges, jobs
from sedml.service.states import JobState
from sedml.service.terms import job_cost, task_of
from support.deployment import (
    REQUESTER,
    Crash,
    deal_to,
    deployment,
    expected_labels,
    fetch_labels,
    make_ballot,
    publish,
    recorded_noise,
    states,
    status,
    terms_for,
)

RUNS = int(os.environ.get("SEDML_FAULT_RUNS", "120"))
SEEDS = [int(os.environ["SEDML_FAULT_SEED"])] if "SEDML_FAULT_SEED" in os.environ else range(RUNS)
PER_TEST = 40


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_SAMPLES", 8)


@pytest.fixture
def deployed():
    """In memory where there is such a folder: nobody cuts the power here, only processes end."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="sedml-faults-", dir=memory) as place:
        made = deployment(Path(place), keep_inputs="1d")
        yield made
        made.close()


class Play:
    """One job under faults: does things, does them again after a crash, and keeps count of what was acknowledged."""

    def __init__(self, deployed, rng, teachers, samples):
        self.deployed = deployed
        deployed.sent.clear()
        for site in deployed.sites:
            site.faults.after, site.faults.points = None, 0
        self.rng = rng
        self.terms = terms_for(samples)
        self.spent_before = [node.ledger.status("teachers").rho.spent for node in deployed.nodes]
        self.acknowledged = [{}, {}]
        self.ballots = []
        for number in range(teachers):
            votes = np.array([rng.randrange(-1, 3) for _ in range(samples)], np.int16)
            self.ballots.append(make_ballot(f"teacher-{number}", votes, self.terms, rng))

    @property
    def job(self):
        return self.terms.id

    def surely(self, role, action):
        """As a client does: try again until there is an answer."""
        while True:
            try:
                return action(self.deployed.nodes[role])
            except Crash:
                self.deployed.sites[role].restart()

    def send(self, role, ballot):
        receipt, _ = self.surely(role, lambda node: ballot.send(node, self.job))
        self.acknowledged[role].setdefault(ballot.teacher, receipt.submission)
        assert receipt.submission == self.acknowledged[role][ballot.teacher]

    def open(self):
        for role in (0, 1):
            self.surely(role, lambda node: publish(node, self.terms))

    def close(self):
        for role in (0, 1):
            self.surely(role, lambda node: jobs.close(node, REQUESTER, self.job))

    def task(self):
        roster = status(self.deployed, 0, self.job).roster
        return task_of(self.terms, roster.teachers, roster.digest)

    def deal(self):
        for role in (0, 1):
            self.surely(role, lambda _, role=role: deal_to(self.deployed, self.job, self.task(), (role,)))

    def meet_until(self, *ends, before=lambda: None, patience=60):
        for _ in range(patience):
            before()
            results = self.deployed.meet(self.job)
            # Once S1 has nothing more to call about, that was it.
            if all(result in (*ends, None) for result in results):
                return
        raise AssertionError(f"no end after {patience} meetings: {states(self.deployed, self.job)}")

    def check(self):
        deployed, job = self.deployed, self.job
        assert states(deployed, job) == (JobState.DONE, JobState.DONE)
        first, second = self.acknowledged
        counted = [b for b in self.ballots if first.get(b.teacher, 0) == second.get(b.teacher, 1) == b.submission]
        task = self.task()
        assert task.teachers == len(counted)
        labels = fetch_labels(deployed, job, task)
        votes = np.stack([ballot.votes for ballot in counted])
        assert np.array_equal(labels, expected_labels(task, votes, recorded_noise(deployed, job, task)))
        spent = job_cost(self.terms, int((labels >= 0).sum())).requester.rho
        for node, before in zip(deployed.nodes, self.spent_before, strict=True):
            entry = node.ledger.job("teachers", job)
            assert (entry.state, entry.charged_rho) == ("settled", pytest.approx(spent, rel=1e-6))
            rho = node.ledger.status("teachers").rho
            assert (rho.reserved, rho.spent) == (0, pytest.approx(before + spent, rel=1e-6))
        for where, messages in deployed.sent.items():
            if where[3] not in ("position", "progress"):  # these say how far a server is; nothing is masked by anything
                assert len(messages) == 1, f"another message was sent at {where[2:]}"


def whole_job(play):
    """Everything once."""
    play.open()
    for ballot in play.ballots:
        for role in (0, 1):
            play.send(role, ballot)
    play.close()
    play.meet_until("agreed", "done")
    play.deal()
    play.meet_until("done")


@pytest.mark.parametrize("kind", ["before", "after", "cut"])
@pytest.mark.parametrize("role", [0, 1])
def test_a_fault_at_every_point(deployed, role, kind):
    play = Play(deployed, random.Random(0), 2, 9)
    whole_job(play)
    play.check()
    points = deployed.sites[role].faults.points
    assert points > 30
    for point in range(points):
        play = Play(deployed, random.Random(point), 2, 9)
        try:
            arm(play, role, point, kind)
            whole_job(play)
            play.check()
        except BaseException:
            print(f"role {role}, {kind} point {point}")  # noqa: T201
            raise


def arm(play, role, point, kind):
    faults = play.deployed.sites[role].faults
    faults.after, faults.kind, faults.points = point, kind, 0


def sequence(play):
    """A random life: whatever can be repeated is, in any order that the interface admits, under random faults."""
    rng, deployed = play.rng, play.deployed

    def disturb():
        for site in deployed.sites:
            if rng.random() < 0.6:
                site.faults.after = site.faults.points + rng.randrange(25)
                site.faults.kind = rng.choice(["before", "after", "cut"])

    disturb()
    play.open()
    half = rng.random() < 0.4
    sends = [(role, ballot) for ballot in play.ballots for role in (0, 1)]
    if half:  # the last teacher's connection breaks for good after one half, and another's answer is never seen
        sends.remove((rng.choice([0, 1]), play.ballots[-1]))
    sends += rng.choices(sends, k=4)
    rng.shuffle(sends)
    for role, ballot in sends:
        disturb()
        play.send(role, ballot)
        if rng.random() < 0.2:
            other = make_ballot(ballot.teacher, np.zeros_like(ballot.votes), play.terms, rng)
            with pytest.raises(ConflictError):
                play.surely(role, lambda node, other=other: other.send(node, play.job))
        if rng.random() < 0.1:
            deployed.sites[role].restart()
    disturb()
    play.close()
    left = iter(range(6))
    play.meet_until("agreed", "done", before=lambda: disturb() if next(left, None) is not None else calm(play))
    disturb()
    play.deal()
    if rng.random() < 0.3:
        play.deal()
    left = iter(range(8))
    play.meet_until("done", before=lambda: disturb() if next(left, None) is not None else calm(play))


def calm(play):
    for site in play.deployed.sites:
        site.faults.after = None


@pytest.mark.parametrize("batch", range(0, len(SEEDS), PER_TEST))
def test_random_sequences(deployed, batch):
    for seed in SEEDS[batch : batch + PER_TEST]:
        rng = random.Random(seed)
        play = Play(deployed, rng, rng.randrange(2, 6), rng.randrange(1, 20))
        try:
            sequence(play)
            calm(play)
            play.check()
        except BaseException:
            print(f"repeat with SEDML_FAULT_SEED={seed}")  # noqa: T201
            raise


class TestTheChecksCanFail:
    """Each fault planted into the servers is found by the sequences above."""

    def run(self, deployed):
        failures = 0
        for seed in range(10):
            play = Play(deployed, random.Random(seed), 3, 9)
            try:
                sequence(play)
                calm(play)
                play.check()
            except (AssertionError, SedmlError):
                failures += 1
        return failures

    def test_without_faults_planted(self, deployed):
        assert self.run(deployed) == 0

    def test_fresh_noise_at_every_run(self, deployed, monkeypatch):
        from sedml.mpc.prg import Seed
        from sedml.service.server import blocks

        read = blocks.read_inputs

        def fresh(node, record, task):
            inputs = read(node, record, task)
            noise = DrawnNoise(task, node.role, Seed.random())
            return blocks.Inputs(task, noise, inputs.half, inputs.seed, inputs.commitment)

        monkeypatch.setattr(blocks, "read_inputs", fresh)
        assert self.run(deployed) > 0

    def test_fresh_common_randomness_at_every_run(self, deployed, monkeypatch):
        from sedml.mpc.gadgets.refresh import agree
        from sedml.service.server import meeting

        monkeypatch.setattr(meeting, "agree", lambda channel, _: agree(channel))
        assert self.run(deployed) > 0

    def test_a_roster_by_teacher_alone(self, deployed, monkeypatch):
        from sedml.service.server import roster

        monkeypatch.setattr(roster, "_entry", lambda teacher, _: teacher.encode().ljust(32, b"\0"))
        play = Play(deployed, random.Random(0), 2, 8)
        play.open()
        for ballot in play.ballots:
            for role in (0, 1):
                play.send(role, ballot)
        mixed = [make_ballot("mixed", np.zeros(8, np.int16), play.terms, play.rng) for _ in (0, 1)]
        for role in (0, 1):
            play.send(role, mixed[role])
        play.close()
        play.meet_until("agreed")
        play.deal()
        play.meet_until("done")
        with pytest.raises(AssertionError):
            play.check()

    def test_a_ledger_charged_at_every_run(self, deployed, monkeypatch):

        reserve = charges.reserve
        times = iter(range(10**6))

        def twice(node, job, terms):
            reserve(node, job, terms)
            node.ledger.reserve(terms.cohort, f"{job}-{next(times)}", 1e-6)

        monkeypatch.setattr(charges, "reserve", twice)
        assert self.run(deployed) > 0
