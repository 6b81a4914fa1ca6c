"""The checks of the sequences can fail: each fault planted into the servers is found, by the checks that are for it."""

import copy
import random
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sedml.errors import SedmlError
from sedml.lab.semi_honest.gadgets.refresh import agree
from sedml.lab.semi_honest.recipe import MadeRandomness
from sedml.mpc.prg import Seed
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.service.server.jobs import charges
from sedml.service.server.run import block_counts, block_work, blocks, meeting, roster
from sedml.service.server.run.block_counts import counter
from sedml.service.states import JobState
from support.deployment import make_ballot, states
from support.fault_play import Play, random_life, saved_by_one_alone, whole_job
from support.rogue import Unheld
from support.tiers import thorough

# A life without a fault, one in which a block is surely run twice, and some of which nothing is sure.
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


@pytest.fixture
def unwitnessed(monkeypatch):
    """The servers say whatever they come to: no record of the run stops them, as it would."""
    monkeypatch.setattr(meeting, "Transcript", Unheld)


# ---- Other inputs -----------------------------------------------------------------------------------------------


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
@pytest.mark.usefixtures("one_vote_changed", "unwitnessed")
def test_other_votes_at_another_run(deployed):
    assert "other inputs were brought" in complaints(deployed)


@thorough
def test_fresh_noise_at_every_run(deployed, unwitnessed, monkeypatch):
    read = blocks.read_inputs

    def fresh(node, record, task):
        return replace(read(node, record, task), noise=DrawnNoise(task, Seed.random()))

    monkeypatch.setattr(blocks, "read_inputs", fresh)
    found = complaints(deployed)
    assert "other inputs were brought" in found
    assert "threshold/all/t" in found  # one more answer about the same votes
    assert "other labels" in found


@thorough
def test_fresh_common_randomness_at_every_run(deployed, unwitnessed, monkeypatch):
    monkeypatch.setattr(meeting, "agree", lambda channel, _: agree(channel))
    found = complaints(deployed)
    assert "other inputs were brought" in found
    assert "another message was sent at (0, 'agree')" in found


@thorough
def test_fresh_coins_at_every_run(deployed, unwitnessed, monkeypatch):
    read = blocks.read_inputs
    monkeypatch.setattr(blocks, "read_inputs", lambda *which: replace(read(*which), coins=Seed.random()))
    found = complaints(deployed)
    for step in ("ot/base", "ot/trees", "ot/extend", "make/0", "threshold/ask"):
        assert f"another message was sent at (0, '{step}')" in found


@pytest.mark.parametrize("name", ["noise", "half", "coins"])
def test_none_of_these_gets_past_the_record_of_a_run(deployed, monkeypatch, name):
    """With nothing taken out: another message is not even sent, and nothing is found but that the job has failed."""
    read = blocks.read_inputs

    def fresh(node, record, task):
        other = DrawnNoise(task, Seed.random()) if name == "noise" else Seed.random()
        return replace(read(node, record, task), **{name: other})

    monkeypatch.setattr(blocks, "read_inputs", fresh)
    play = Play(deployed, random.Random(0), 3, 12)
    saved_by_one_alone(play, block=0, savers=[0])
    assert states(deployed, play.job) == (JobState.FAILED, JobState.FAILED)
    assert not [one for one in deployed.link._changed() if "another message" in one]


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
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 1 << 20)
    play = Play(deployed, random.Random(0), 3, 2000)
    whole_job(play)
    with pytest.raises(AssertionError, match="other labels"):
        play.check()


# ---- Masks used again -------------------------------------------------------------------------------------------


@thorough
def test_coins_of_one_job_used_for_another(deployed, monkeypatch):
    """Of the same sizes: all that a server draws is the same."""
    read = blocks.read_inputs

    def same(node, record, task):
        return replace(read(node, record, task), coins=Seed(bytes([node.role]) * 32))

    monkeypatch.setattr(blocks, "read_inputs", same)
    for fine in (True, False):
        play = Play(deployed, random.Random(0), 2, 8)
        whole_job(play)
        if fine:
            play.check()
    with pytest.raises(AssertionError, match="a part of masked message \\(0, 'ot/trees'\\) was sent before"):
        play.check()


@thorough
def test_randomness_of_a_block_used_for_the_next(deployed, monkeypatch):
    """They make some anew, so that all looks well, and take what they had."""
    make, had = block_work.make, {}

    def remembered(role, extension, channel, block, *rest):
        made = make(role, extension, channel, block, *rest)
        kept = had.setdefault((channel._task, role), copy.deepcopy(made))
        return MadeRandomness(block, copy.deepcopy(kept._pieces))

    monkeypatch.setattr(block_work, "make", remembered)
    play = Play(deployed, random.Random(0), 3, 16)
    whole_job(play)
    with pytest.raises(AssertionError, match="of block 1 was used before"):
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
