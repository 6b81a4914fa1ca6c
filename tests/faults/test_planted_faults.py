"""The checks of the sequences can fail: each fault planted into the servers is found, by the checks that are for it."""

import copy
import random
import threading
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from sedml.errors import SedmlError
from sedml.mpc.gadgets.refresh import agree
from sedml.mpc.ot import base_ot, extension, trees
from sedml.mpc.prg import Seed
from sedml.protocol import task as task_module
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.service.server import blocks, charges, meeting, roster
from support.deployment import make_ballot
from support.fault_play import Play, random_life, saved_by_one_alone, whole_job

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


def test_without_any(deployed):
    assert not complaints(deployed)


# ---- Other inputs -----------------------------------------------------------------------------------------------


@pytest.fixture
def one_vote_changed(monkeypatch):
    """S0 changes its share of one vote whenever it reads the votes of a block once more."""
    read, times = blocks.read_votes, Counter()

    def changed(node, record, task, block):
        votes = read(node, record, task, block)
        times[node.role, record.id, block.index] += 1
        if node.role == 0 and times[0, record.id, block.index] > 1:
            votes[0, 0] ^= votes.dtype.type(1)
        return votes

    monkeypatch.setattr(blocks, "read_votes", changed)


@pytest.mark.usefixtures("one_vote_changed")
def test_other_votes_at_another_run(deployed):
    assert "other inputs were brought" in complaints(deployed)


def test_fresh_noise_at_every_run(deployed, monkeypatch):
    read = blocks.read_inputs

    def fresh(node, record, task):
        inputs = read(node, record, task)
        noise = DrawnNoise(task, node.role, Seed.random())
        return blocks.Inputs(task, noise, inputs.half, inputs.commitment)

    monkeypatch.setattr(blocks, "read_inputs", fresh)
    found = complaints(deployed)
    assert "other inputs were brought" in found
    assert "threshold/all/t" in found  # one more answer about the same votes
    assert "other labels" in found


def test_fresh_common_randomness_at_every_run(deployed, monkeypatch):
    monkeypatch.setattr(meeting, "agree", lambda channel, _: agree(channel))
    found = complaints(deployed)
    assert "other inputs were brought" in found
    assert "another message was sent at (0, 'agree')" in found


def test_a_roster_by_teacher_alone(deployed, monkeypatch):
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
    play.meet_until_done()
    with pytest.raises(AssertionError):
        play.check()


# ---- Masks used again -------------------------------------------------------------------------------------------


class Memory:
    """What both servers had the first time, once both of them had it."""

    def __init__(self):
        self._had = {}

    def had(self, where):
        return dict(self._had.get(where, {}))

    def keep(self, where, role, made):
        self._had.setdefault(where, {})[role] = made


def test_an_extension_kept_for_the_next_meeting_of_a_job(deployed, monkeypatch):
    """Its trees and its label, so that all its streams begin once more."""
    monkeypatch.setattr(meeting, "set_up", with_role(meeting.set_up))
    monkeypatch.setattr(meeting, "fresh_extension", kept_by(meeting.fresh_extension, lambda channel: channel._task))
    found = complaints(deployed)
    assert "masked message (0, 'ot/extend') was sent before" in found
    assert "a part of masked message (0, 'ot/extend') was sent before" in found


def test_an_extension_kept_for_another_job(deployed, monkeypatch):
    """Of the same sizes: all that it sends before the first vote is taken is the same."""
    monkeypatch.setattr(meeting, "set_up", with_role(meeting.set_up))
    monkeypatch.setattr(meeting, "fresh_extension", kept_by(meeting.fresh_extension, lambda channel: 0))
    for fine in (True, False):
        play = Play(deployed, random.Random(0), 2, 8)
        whole_job(play)
        if fine:
            play.check()
    with pytest.raises(AssertionError, match="masked message \\(0, 'ot/extend'\\) was sent before"):
        play.check()


def with_role(set_up):
    return lambda role, channel: (role, set_up(role, channel))


def kept_by(fresh_extension, name):
    memory = Memory()

    def kept(mine, channel):
        role, own = mine
        had = memory.had(name(channel))
        made = fresh_extension(own, channel)
        if len(had) == 2:
            return extension.Extension(*had[role])
        memory.keep(name(channel), role, (own, made._label))
        return made

    return kept


@pytest.mark.parametrize(("drawn", "step"), [(base_ot, "ot/base"), (trees, "ot/trees"), (extension, "ot/label")])
def test_random_bytes_that_come_again_at_the_next_meeting(newly_set_up, monkeypatch, drawn, step):
    set_up, stuck = meeting.set_up, threading.local()

    def with_old_bytes(role, channel):
        stuck.source = random.Random(role)
        return set_up(role, channel)

    monkeypatch.setattr(meeting, "set_up", with_old_bytes)
    monkeypatch.setattr(drawn, "secrets", SimpleNamespace(token_bytes=lambda size: stuck.source.randbytes(size)))
    play = Play(newly_set_up, random.Random(0), 2, 8)
    saved_by_one_alone(play, 0, [0])
    with pytest.raises(AssertionError, match=f"masked message \\(0, '{step}'\\) was sent before"):
        play.check()


@pytest.mark.parametrize("votes", ["the same votes", "other votes"])
def test_randomness_of_a_block_remembered_for_another_run(request, deployed, monkeypatch, votes):
    """They make some anew, so that all looks well, and take what they had."""
    make, memory = meeting.make, Memory()

    def remembered(role, extension, channel, block, recipes):
        had = memory.had((channel._task, block))
        made = make(role, extension, channel, block, recipes)
        if len(had) == 2:
            return copy.deepcopy(had[role])
        memory.keep((channel._task, block), role, copy.deepcopy(made))
        return made

    monkeypatch.setattr(meeting, "make", remembered)
    if votes == "other votes":
        request.getfixturevalue("one_vote_changed")
    found = complaints(deployed)
    assert "randomness threshold/digit0/d of block 0 was used before" in found
    assert "a part of masked message (0, 'threshold/answer') was sent before" in found
    assert "two runs of block 0 were masked alike" in found


# ---- And the rest -----------------------------------------------------------------------------------------------


def test_label_shares_of_two_runs(deployed, monkeypatch):
    """Both go on from how many blocks they have, from whatever runs these are."""

    def count_only(channel, runs):
        [theirs] = channel.exchange(0, "progress", [runs])
        return min(int(ones.any(axis=1).sum()) for ones in (runs, theirs))

    monkeypatch.setattr(meeting, "_common_blocks", count_only)
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 1 << 20)  # one block, so large that no chance makes it right
    play = Play(deployed, random.Random(0), 2, 64)
    saved_by_one_alone(play, 0, (0, 1))
    with pytest.raises(AssertionError, match="other labels"):
        play.check()


def test_a_ledger_charged_at_every_run(deployed, monkeypatch):
    reserve = charges.reserve
    times = iter(range(10**6))

    def twice(node, job, terms):
        reserve(node, job, terms)
        node.ledger.reserve(terms.cohort, f"{job}-{next(times)}", 1e-6)

    monkeypatch.setattr(charges, "reserve", twice)
    assert "other charges" in complaints(deployed)
