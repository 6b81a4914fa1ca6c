"""The checks of the sequences can fail: each fault planted into the servers is found, by the checks that are for it."""

import random
from collections import Counter
from functools import partial

import numpy as np
import pytest

from sedml.errors import SedmlError
from sedml.mpc.ot import fresh_deltas
from sedml.mpc.prg import Seed
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import draw_noise
from sedml.service.server.jobs import charges
from sedml.service.server.run import block_counts, block_work, blocks, meeting, roster
from sedml.service.server.run.block_counts import counter
from support.deployment import make_ballot
from support.fault_play import Play, random_life, saved_by_one_alone, whole_job
from support.tiers import thorough

# A life without a fault, one in which a block is surely begun twice, and some of which nothing is sure.
LIVES = [whole_job, partial(saved_by_one_alone, block=0, savers=[0]), random_life, random_life, random_life]


def complaints(deployed):
    """What is found wrong with these lives, in one text."""
    found = []
    for seed, live in enumerate(LIVES):
        play = Play(deployed, random.Random(seed), 3, 12)
        try:
            live(play)
            play.check()
        except (AssertionError, SedmlError) as error:
            found.append(str(error))
    return "\n".join(found)


@thorough
def test_without_any(deployed):
    assert not complaints(deployed)


# ---- What must be the same, and what must not ---------------------------------------------------------------------


@pytest.fixture
def one_vote_changed(monkeypatch):
    """S0 changes its share of one count whenever it counts a block once more."""
    times = Counter()

    def changed(node, record, task):
        counts_of = counter(node, record, task)

        def counts(block):
            found = counts_of(block)
            times[node.role, record.id, block.index] += 1
            if node.role == 0 and times[0, record.id, block.index] > 1:
                found[0, 0] ^= found.dtype.type(1)
            return found

        return counts

    monkeypatch.setattr(meeting, "counter", changed)


@thorough
@pytest.mark.usefixtures("one_vote_changed")
def test_other_votes_at_another_attempt(deployed):
    assert "other counts were brought" in complaints(deployed)


@thorough
def test_the_same_noise_at_every_attempt(deployed, monkeypatch):
    kept = Seed.random()
    monkeypatch.setattr(block_work, "draw_noise", lambda task, samples: draw_noise(task, samples, kept))
    assert "the same noise was brought" in complaints(deployed)


@thorough
def test_the_same_set_up_at_every_attempt(deployed, monkeypatch):
    grow = fresh_deltas.grow
    monkeypatch.setattr(fresh_deltas, "grow", lambda base: grow(base, Seed(bytes(32))))
    assert "a part of message (0, 'ot/renewal') was sent before" in complaints(deployed)


def test_a_share_that_outlives_its_attempt(deployed, monkeypatch):
    """The shares of two attempts do not fit."""
    save, kept = blocks.save, {}

    def first_one(node, record, attempt, share, cost):
        share = kept.setdefault((node.role, record.id, attempt.block.index), share)
        save(node, record, attempt, share, cost)

    monkeypatch.setattr(blocks, "save", first_one)
    assert "do not fit together" in complaints(deployed)


def test_final_before_the_other_server_has_saved(deployed, monkeypatch):
    save, final = blocks.save, blocks.make_final

    def at_once(node, record, attempt, *rest):
        save(node, record, attempt, *rest)
        final(node, record, [(attempt.block.index, attempt.number)])

    monkeypatch.setattr(blocks, "save", at_once)
    monkeypatch.setattr(blocks, "make_final", lambda *_: None)
    assert "FAILED" in complaints(deployed)


@thorough
def test_a_roster_by_teacher_alone(deployed, monkeypatch):
    monkeypatch.setattr(roster, "_entry", lambda teacher, _: teacher.encode().ljust(48, b"\0"))
    play = Play(deployed, random.Random(0), 2, 8)
    play.open()
    for ballot in play.ballots:
        for role in (0, 1):
            play.send(role, ballot)
    mixed = [make_ballot("mixed", np.zeros(8, np.int16), play.terms, play.rng) for _ in (0, 1)]
    for role in (0, 1):
        play.send(role, mixed[role])
    play.close()
    play.meet_until_done()
    with pytest.raises(AssertionError):
        play.check()


@pytest.mark.parametrize("fault", ["twice", "never"])
def test_a_ballot_that_is_added_twice_or_not_at_all(deployed, monkeypatch, fault):
    """At both servers, so that their shares fit; the rest of the roster is counted as it should be."""
    add_up = block_counts.add_up

    def wrong(role, pages, shape):
        first, *rest = pages
        return add_up(role, [first, first, *rest] if fault == "twice" else rest, shape)

    monkeypatch.setattr(block_counts, "add_up", wrong)
    # So many samples that a vote more or less shows on some, whatever the noise; in a few blocks.
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 1 << 20)
    play = Play(deployed, random.Random(0), 3, 1500)
    whole_job(play)
    with pytest.raises(AssertionError, match="other labels"):
        play.check()


# ---- And the rest -----------------------------------------------------------------------------------------------


@thorough
def test_a_ledger_charged_at_every_run(deployed, monkeypatch):
    reserve = charges.reserve
    times = iter(range(10**6))

    def twice(node, job, terms, teachers):
        reserve(node, job, terms, teachers)
        node.ledger.reserve(terms.cohort, f"{job}-{next(times)}", 1e-6)

    monkeypatch.setattr(charges, "reserve", twice)
    assert "other charges" in complaints(deployed)
