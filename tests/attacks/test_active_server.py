"""Known and not prevented: a server that computes wrongly learns which class leads, in a single run, unnoticed.

S1 leaves out its noise, takes a threshold of its own, and flips its share of one class's comparison: then the bit that
is opened for a sample, which should say whether any class has enough votes, says whether this one class has. The
figures are those of docs/threat-model.md; when the shares are authenticated one day, this test has to fail.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from sedml.aggregation.both_servers import run_job
from sedml.lab.semi_honest import fused, garbled
from sedml.lab.semi_honest.gadgets.millionaires import negative
from sedml.lab.semi_honest.gadgets.none_of import all_set
from sedml.mpc.ring import Ring
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from support.harness import fixed_seed, loaders_of

pytestmark = pytest.mark.usefixtures("one_set_up")

TEACHERS, SAMPLES, CLASSES, WANTED, OWN_THRESHOLD = 250, 1000, 10, 3, 100


def spied(seen: list):
    """`threshold_check` in which S1 asks a question of its own."""

    def check(party, task, counts, g):
        ring = Ring(task.widths.threshold)
        if party.role == 0:
            own = g.astype(np.int64) - task.threshold
        else:
            own = np.zeros_like(g) + (task.threshold - OWN_THRESHOLD)
        below, _ = negative(party, "threshold", (ring.reduce(counts) + ring.reduce(own)) & ring.mask, ring.width)
        if party.role == 1:
            below[WANTED] ^= 1
        found = all_set(party, "threshold/all", below)
        if party.role == 1:
            seen.append(found)
        return ~found

    return check


def spied_in_circuits(seen: list):
    """The same of garbled circuits: S1 moves its shares so far down that no other class can reach the threshold."""
    honest = garbled.consensus_and_label

    def check(party, task, counts, g, g_i):
        if party.role == 1:
            low = -(1 << (task.widths.threshold - 2))
            g = np.full(counts.shape, low)
            g[WANTED] = task.threshold - OWN_THRESHOLD
        consensus, index = honest(party, task, counts, g, g_i)
        if party.role == 1:
            seen.append(consensus)
        return consensus, index

    return check


def attacked(monkeypatch, protocol):
    """For each sample whether S1 believes that the class leads, and whether it does."""
    rng = np.random.default_rng(5)
    truth = rng.integers(0, CLASSES, SAMPLES)
    agree = rng.random((TEACHERS, SAMPLES)) < 0.8
    votes = np.where(agree, truth, rng.integers(0, CLASSES, (TEACHERS, SAMPLES))).astype(np.int16)
    # The noise follows from the task as well as from the seeds, so its nonce must not be drawn.
    terms = {"nonce": "the same in every run"}
    task = Task(CLASSES, SAMPLES, TEACHERS, 150, 40.0, 40.0, protocol, **terms)
    seen = []
    monkeypatch.setattr(fused, "threshold_check", spied(seen))
    monkeypatch.setattr(garbled, "consensus_and_label", spied_in_circuits(seen))
    noises = DrawnNoise(task, fixed_seed(1)), DrawnNoise(task, fixed_seed(2))
    run_job(task, loaders_of(task, votes), noises)
    return np.concatenate(seen), histogram(votes, CLASSES).argmax(axis=0) == WANTED


def test_it_learns_the_leading_class_from_circuits_too(monkeypatch):
    believed, leads = attacked(monkeypatch, "garbled")
    assert (believed == leads).mean() > 0.99


def test_it_learns_the_leading_class_as_the_threat_model_says(monkeypatch):
    believed, leads = attacked(monkeypatch, "fused")
    assert (believed == leads).mean() > 0.99
    right, leading = int((believed & leads).sum()), int(leads.sum())
    wrong = int((believed & ~leads).sum())
    text = " ".join((Path(__file__).parents[2] / "docs" / "threat-model.md").read_text().split())
    said = re.search(r"on (\d+) of the (\d+) samples where it does, and wrongly on (\d+) of the other (\d+)", text)
    assert said is not None
    assert tuple(map(int, said.groups())) == (right, leading, wrong, SAMPLES - leading)
