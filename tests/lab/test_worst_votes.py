"""The votes that an audit is run on: their laws against enumeration, and what is promised for them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.lab import audit
from sedml.lab.audit import Mechanism
from sedml.lab.worst_votes import BINS, best_event, outcome_law, worst_votes
from sedml.mpc.prg import Seed
from sedml.privacy.exact import argmax_divergence, check_divergence
from sedml.protocol import ideal

SEED = Seed(bytes(range(32)))
TINY = Mechanism(samples=1, classes=3, threshold=5, sigma1=0.6, sigma2=0.8)
PARTS = "checks", "labels", "job"


def found(job: Mechanism, trials: int = 10**7):
    return worst_votes(audit._hidden(job), job.samples, job.classes, job.threshold, job.delta, trials, 2.6)


def summed(sigma: float, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and probabilities of so many discrete Gaussians, one pair at a time."""
    law = {0: 1.0}
    weights = {x: math.exp(-x * x / (2 * sigma * sigma)) for x in range(-9, 10)}
    norm = sum(weights.values())
    for _ in range(parts):
        after: dict[int, float] = {}
        for x, p in law.items():
            for y, weight in weights.items():
                after[x + y] = after.get(x + y, 0.0) + p * weight / norm
        law = after
    return np.array(list(law)), np.array(list(law.values()))


# ---- The law of the outcomes ------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [[5, 4, 4], [4, 5, 3], [7, 7, 7], [2, 0, 9]])
def test_the_requesters_law_is_that_of_all_noise_enumerated(counts):
    g, p = summed(0.6 / math.sqrt(2), 2)
    g_i, p_i = summed(0.8 / math.sqrt(2), 2)
    keep, keep_i = p > 1e-14, p_i > 1e-14
    g, p, g_i, p_i = g[keep], p[keep], g_i[keep_i], p_i[keep_i]
    grid = np.meshgrid(g, g_i, g_i, g_i, indexing="ij")
    chances = np.einsum("a,b,c,d->abcd", p, p_i, p_i, p_i).ravel()
    column = np.array(counts)[:, None]
    labels = ideal.labels(column, 5, grid[0].ravel(), np.stack([part.ravel() for part in grid[1:]]))
    expected = np.bincount(labels + 1, weights=chances, minlength=4)
    assert outcome_law(audit._hidden(TINY), 5, column) == pytest.approx(expected, abs=1e-11)
    alone = expected[1:] / expected[1:].sum()
    assert outcome_law(audit._hidden(replace(TINY, part="labels")), 5, column) == pytest.approx([0, *alone], abs=1e-11)


@pytest.mark.parametrize("top", [3, 5, 6])
def test_a_server_that_leaves_out_its_noise_is_up_against_the_other_ones(top):
    other, p = summed(0.6 / math.sqrt(2), 1)
    column = np.array([[top], [1], [0]])
    reached = p[ideal.consensus(column, 5, other)].sum()
    law = outcome_law(audit._hidden(replace(TINY, part="checks")), 5, column)
    assert law == pytest.approx([1 - reached, reached], abs=1e-12)


# ---- The votes --------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.sampled_from(PARTS),
    st.integers(1, 20),
    st.integers(2, 5),
    st.integers(2, 60),
    st.floats(0.5, 12.0),
    st.floats(0.5, 12.0),
)
def test_one_teacher_moves_one_vote_between_the_first_two_classes(part, samples, classes, threshold, one, two):
    job = Mechanism(samples, one, two, classes=classes, threshold=threshold, part=part)
    votes, _ = found(job)
    assert sum(kind.samples for kind in votes.kinds) == samples
    for kind in votes.kinds:
        moved = (kind.moved - kind.votes)[:, 0].tolist()
        assert moved in ([-1, 1] + [0] * (classes - 2), [1, -1] + [0] * (classes - 2))
        assert min(kind.votes.min(), kind.moved.min()) >= 0
    for law in votes.laws:
        assert law.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("part", PARTS)
def test_the_vote_moves_both_ways_and_some_samples_hang_on_it(part):
    votes, _ = found(Mechanism(part=part))
    ways = [kind.samples * int(kind.moved[0, 0] - kind.votes[0, 0]) for kind in votes.kinds]
    assert sum(ways) == 0
    decided = [
        (ideal.labels(kind.votes, limit, zero, zero[None]), ideal.labels(kind.moved, limit, zero, zero[None]))
        for kind in votes.kinds
        for zero, limit in [(np.zeros(1, np.int64), 0 if part == "labels" else 100)]
    ]
    assert sum(mine != other for mine, other in decided) >= 2


@pytest.mark.parametrize("part", ["checks", "labels"])
def test_the_worst_positions_are_nearly_those_of_the_exact_accountant(part):
    order, own = 4.0, {"checks": 4.0, "labels": 9.0}[part] / math.sqrt(2)
    bound = check_divergence(own, 1, order) if part == "checks" else argmax_divergence(own, 2, order)
    votes, _ = found(Mechanism(part=part))
    p, q = votes.kinds[0].laws
    one, other = (
        math.log((a[a > 0] ** order * b[a > 0] ** (1 - order)).sum()) / (order - 1) for a, b in ((p, q), (q, p))
    )
    assert 0.9 * bound < max(one, other) <= bound


@pytest.mark.parametrize("part", PARTS)
def test_at_these_votes_the_true_epsilon_is_near_the_claim_and_no_audit_exceeds_it(part):
    job = Mechanism(part=part)
    votes, event = found(job)
    # Without doubt about the frequencies, the score is the epsilon of these votes.
    true = best_event(votes.laws, 10**18, job.delta, 1.0).score
    claim = audit.claimed(job)
    assert 0.86 * claim < true < claim
    assert 0.83 * claim < event.score < true
    for i in range(5):
        assert audit.audit(job, runs=40_000, seed=SEED.child(f"{i}")).epsilon_lower < true


@pytest.mark.parametrize("part", PARTS)
def test_runs_have_the_law_that_is_promised(part):
    job = Mechanism(part=part)
    votes, event = found(job)
    runs = 100_000
    for side, law in enumerate(votes.laws):
        sums = audit._ratios(job, votes, side, SEED.child(f"{side}"), runs)
        places = votes.scale * (2.0 * np.arange(BINS) / BINS - 1.0)
        mean = law @ places
        spread = math.sqrt(law @ (places - mean) ** 2)
        assert abs(sums.mean() - mean) < 5 * spread / math.sqrt(runs) + 1e-3
        assert sums.std() == pytest.approx(spread, rel=0.02)
        hit = np.bincount(votes.bins(sums), minlength=BINS)[event.bins].sum()
        expected = law[event.bins].sum() * runs
        assert abs(hit - expected) < 5 * math.sqrt(expected) + 5


def test_the_best_event_is_that_of_a_search_by_hand():
    votes, moved = np.zeros(BINS), np.zeros(BINS)
    votes[[10, 20, 30]] = 0.2, 0.3, 0.5
    moved[[10, 20, 30]] = 0.6, 0.39, 0.01
    event = best_event((votes, moved), 10**12, 1e-3, 1.0)
    assert event.above
    assert event.score == pytest.approx(math.log(0.499 / 0.01), abs=1e-3)
    assert (votes[event.bins].sum(), moved[event.bins].sum()) == (0.5, 0.01)
    turned = best_event((moved[::-1], votes[::-1]), 10**12, 1e-3, 1.0)
    assert not turned.above
    assert turned.score == pytest.approx(event.score)
    assert best_event((votes, moved), 100, 1e-3, 1.0).score < event.score
