"""One job under faults: its people do things, do them again after a crash, and keep count of what was acknowledged."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np
import pytest

from sedml.errors import ConflictError
from sedml.protocol.task import Task
from sedml.service.server.jobs import lifecycle
from sedml.service.server.jobs.records import Record
from sedml.service.server.node import Node
from sedml.service.server.run import blocks
from sedml.service.server.run.blocks import Attempt
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import (
    REQUESTER,
    Ballot,
    Crash,
    Deployment,
    check_charged_once,
    expected_labels,
    fetch_labels,
    make_ballot,
    publish,
    recorded_noise,
    states,
    status,
    terms_for,
)

__all__ = ["Play", "random_life", "saved_by_one_alone", "whole_job"]

_SOON, _LATE = 16, 60
"""Points of a meeting until the servers make randomness, and about as many as a meeting has."""


class Play:
    """One job, and what is true of it in the end."""

    def __init__(self, deployed: Deployment, rng: random.Random, teachers: int, samples: int) -> None:
        self.deployed = deployed
        deployed.link.clear()
        self.calm()
        self.rng = rng
        self.terms = terms_for(samples)
        self.used_before = [_used(node) for node in deployed.nodes]
        self.acknowledged: list[dict[str, str]] = [{}, {}]
        self.ballots: list[Ballot] = []
        for number in range(teachers):
            votes = np.array([rng.randrange(-1, 3) for _ in range(samples)], np.int16)
            self.ballots.append(make_ballot(f"teacher-{number}", votes, self.terms, rng))

    @property
    def job(self) -> str:
        return self.terms.id

    def surely(self, role: int, action: Callable[[Node], object]):
        """As a client does: try again until there is an answer."""
        while True:
            try:
                return action(self.deployed.nodes[role])
            except Crash:
                self.deployed.sites[role].restart()

    def send(self, role: int, ballot: Ballot) -> None:
        receipt, _ = self.surely(role, lambda node: ballot.send(node, self.job))
        self.acknowledged[role].setdefault(ballot.teacher, receipt.ballot)
        assert receipt.ballot == self.acknowledged[role][ballot.teacher]

    def open(self) -> None:
        for role in (0, 1):
            self.surely(role, lambda node: publish(node, self.terms))

    def close(self) -> None:
        for role in (0, 1):
            self.surely(role, lambda node: lifecycle.close(node, REQUESTER, self.job))

    def task(self) -> Task:
        roster = status(self.deployed, 0, self.job).roster
        return task_of(self.terms, roster.teachers, roster.digest)

    def meet_until_done(self, before: Callable[[], None] = lambda: None, patience: int = 60) -> None:
        for _ in range(patience):
            before()
            results = self.deployed.meet(self.job)
            # Once S1 has nothing more to call about, that was it.
            if all(result in ("done", None) for result in results):
                return
        raise AssertionError(f"no end after {patience} meetings: {states(self.deployed, self.job)}")

    def disturb(self) -> None:
        """A fault may strike either server, sooner or later."""
        for site in self.deployed.sites:
            if self.rng.random() < 0.6:
                site.faults.after = site.faults.points + self.rng.randrange(self.rng.choice((_SOON, _LATE, _LATE)))
                site.faults.kind = self.rng.choice(["before", "after", "cut"])

    def calm(self) -> None:
        for site in self.deployed.sites:
            site.faults.arm(None)

    def check(self) -> None:
        deployed, job = self.deployed, self.job
        deployed.link.check()
        assert states(deployed, job) == (JobState.DONE, JobState.DONE)
        first, second = self.acknowledged
        counted = [b for b in self.ballots if first.get(b.teacher, 0) == second.get(b.teacher, 1) == b.name]
        task = self.task()
        assert task.teachers == len(counted)
        labels = fetch_labels(deployed, job, task)
        votes = np.stack([ballot.votes for ballot in counted])
        assert np.array_equal(labels, expected_labels(task, votes, recorded_noise(deployed, task))), "other labels"
        for node, before in zip(deployed.nodes, self.used_before, strict=True):
            check_charged_once(node.ledger, self.terms)
            cost = node.ledger.job("teachers", job).rho
            assert _used(node) == pytest.approx(before + cost, rel=1e-6), "other charges"


def _used(node: Node) -> float:
    rho = node.ledger.status("teachers").rho
    return rho.spent + rho.reserved


def whole_job(play: Play) -> None:
    """Everything once."""
    play.open()
    for ballot in play.ballots:
        for role in (0, 1):
            play.send(role, ballot)
    play.close()
    play.meet_until_done()


def saved_by_one_alone(play: Play, block: int, savers: Sequence[int]) -> None:
    """Everything once, but for this block: of its first attempts only one server each keeps its label share."""
    save, runs = blocks.save, Counter()

    def save_or_crash(node: Node, record: Record, attempt: Attempt, *rest: object) -> None:
        if attempt.block.index == block:
            run = runs[node.role]
            runs[node.role] += 1
            if run < len(savers) and savers[run] != node.role:
                raise Crash
        save(node, record, attempt, *rest)

    with patch.object(blocks, "save", save_or_crash):
        whole_job(play)


def random_life(play: Play) -> None:
    """Whatever can be repeated is, in any order that the interface admits, under random faults."""
    rng = play.rng
    play.disturb()
    play.open()
    half = rng.random() < 0.4
    sends = [(role, ballot) for ballot in play.ballots for role in (0, 1)]
    if half:  # the last teacher's connection breaks for good after one half, and another's answer is never seen
        sends.remove((rng.choice([0, 1]), play.ballots[-1]))
    sends += rng.choices(sends, k=4)
    rng.shuffle(sends)
    for role, ballot in sends:
        play.disturb()
        play.send(role, ballot)
        if rng.random() < 0.2:
            other = make_ballot(ballot.teacher, np.zeros_like(ballot.votes), play.terms, rng)
            with pytest.raises(ConflictError):
                play.surely(role, lambda node, other=other: other.send(node, play.job))
        if rng.random() < 0.1:
            play.deployed.sites[role].restart()
    play.disturb()
    play.close()
    left = iter(range(8))
    play.meet_until_done(before=lambda: play.disturb() if next(left, None) is not None else play.calm())
    play.calm()
