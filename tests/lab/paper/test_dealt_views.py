"""What a server receives tells it nothing about the votes, and the test that says so notices a leak.

The checks are in `viewing`; each planted leak keeps every answer right and makes the same function fail.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from sedml.lab.paper import correlations
from sedml.lab.paper.lab_task import LabTask
from sedml.mpc.prg import expand
from support.dealt import DealtScene, assert_nothing_leaks, unmask, watch
from support.viewing import (
    PUBLIC,
    SAMPLES,
    TEACHERS,
    LeakError,
    assert_uncorrelated,
    assert_uniform,
    scattered,
    unanimous_first,
)

CLASSES = 3
RUNS = 64
FEW = 12  # enough to see an unmasked opening

CONFIGURATIONS = [
    ("fused", "index", None),
    ("fused", "counts", None),
    ("paper", "index", 7),
    ("paper", "counts", 7),
]


def make_task(dealt: str, votes: str, ring_bits: int | None = None) -> LabTask:
    terms = CLASSES, SAMPLES, TEACHERS, 3, 0.1, 0.1
    return LabTask(*terms, nonce="the same in every run", dealt=dealt, votes=votes, ring_bits=ring_bits)


VOTES = {"unanimous": unanimous_first, "scattered": partial(scattered, CLASSES)}


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize(
    ("configuration", "votes"),
    [(0, "unanimous"), (0, "scattered"), (1, "scattered"), (2, "unanimous"), (3, "scattered")],
)
def test_what_a_server_receives_and_opens_is_uniform(configuration, votes, role):
    assert_nothing_leaks(DealtScene(make_task(*CONFIGURATIONS[configuration]), VOTES[votes]()), role, RUNS)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: f"{c[0]}-{c[1]}")
def test_steps_and_sizes_are_the_same_for_any_votes(configuration):
    task = make_task(*configuration)
    seen = []
    for votes in VOTES.values():
        run = DealtScene(task, votes()).run(1, 2)
        assert run.shares[0].consensus.sum() == SAMPLES // 2
        seen.append([(tap.steps, [part.size for part in tap.received]) for tap in run.taps])
        seen[-1].append(run.corrections.size)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: f"{c[0]}-{c[1]}")
def test_the_only_value_that_depends_on_the_votes_is_the_consensus_bit(configuration):
    # Under the same dealt randomness, what is opened differs between the votes; over all randomness only t does.
    task = make_task(*configuration)
    constant = set()
    for votes in VOTES.values():
        scene = DealtScene(task, votes())
        _, opened = watch(scene, 0, 12)
        for name, bits in opened.items():
            if (bits == bits[0]).all():
                constant.add(name.split(" ", 1)[1])
        run = scene.run(1, 2)
        [(layout, t)] = [(layout, value) for step, layout, value in run.parties[0].opened if step == PUBLIC]
        highest = scene.counts.max(axis=0)
        below = np.unpackbits(t, bitorder="little") if task.dealt == "fused" else t[0]
        assert layout.shape[-1] == SAMPLES
        assert (below == (highest < task.threshold)).all()
    assert constant == {PUBLIC}


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize(
    ("configuration", "piece", "mask"),
    [
        (0, "count/onehot", "r"),
        (0, "count/wraps", "s"),
        (0, "count/convert", "flip"),
        (0, "threshold/mask", "r"),
        (0, "threshold/and/0/rest", "a"),
        (0, "label/0/mask", "r"),
        (0, "label/0/mask", "flip"),
        (0, "label/1/mask", "u"),
        (3, "highest/0/scmp/leaf", "own"),
        (3, "highest/0/scmp/carry/0/low", "a"),
        (3, "highest/0/convert", "own"),
        (3, "highest/1/select", "t1"),
        (3, "highest/1/select", "t2"),
        (3, "label/0/scmp/leaf", "own"),
        (3, "label/1/select", "t2"),
    ],
)
def test_an_unmasked_opening_is_found(configuration, piece, mask, role):
    task = make_task(*CONFIGURATIONS[configuration])
    with pytest.raises(LeakError, match="not random"):
        assert_nothing_leaks(DealtScene(task, scattered(CLASSES), unmask(piece, mask)), role, FEW)


@pytest.mark.parametrize("configuration", [CONFIGURATIONS[0], CONFIGURATIONS[3]], ids=["fused", "paper"])
def test_as_few_runs_without_a_leak_are_passed(configuration):
    assert_nothing_leaks(DealtScene(make_task(*configuration), scattered(CLASSES)), 0, FEW)


@pytest.mark.parametrize("role", [0, 1])
def test_a_mask_used_twice_is_found_though_each_opening_alone_looks_random(monkeypatch, role):
    def reused(seed, label, size, **options):
        return expand(seed, label.replace("label/0/mask", "threshold/mask"), size, **options)

    monkeypatch.setattr(correlations, "expand", reused)
    received, _ = watch(DealtScene(make_task("fused", "counts"), scattered(CLASSES)), role, RUNS)
    assert_uniform(received)
    with pytest.raises(LeakError, match="pairs"):
        assert_uncorrelated(received)


def test_one_seed_for_both_servers_is_found():
    # Additive masks of both servers are then equal, so the lowest bit of what they open is not masked at all.
    scene = DealtScene(make_task("fused", "counts"), scattered(CLASSES))
    runs = [scene.run(seed, seed).parties[0] for seed in range(3000, 3000 + FEW)]
    lowest = np.stack([next(value for step, _, value in run.opened if step == "threshold/mask") for run in runs]) & 1
    with pytest.raises(LeakError):
        assert_uniform({"0 threshold/mask": lowest.reshape(FEW, -1)})
