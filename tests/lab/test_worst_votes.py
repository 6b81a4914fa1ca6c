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
from sedml.privacy.exact import argmax_divergence
from sedml.protocol import ideal

SEED = Seed(bytes(range(32)))
TINY = Mechanism(samples=1, classes=3, threshold=5, sigma=0.8)
VIEWS = {"collusion": 1, "requester": 2}
"""And how many servers' noise hides something."""


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


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("counts", [[5, 4, 4], [4, 5, 3], [7, 7, 7], [2, 0, 9]])
def test_the_law_is_that_of_all_noise_enumerated(counts, view):
    g, p = summed(0.8 / math.sqrt(2), VIEWS[view])
    g, p = g[p > 1e-14], p[p > 1e-14]
    grid = np.meshgrid(g, g, g, indexing="ij")
    chances = np.einsum("a,b,c->abc", p, p, p).ravel()
    column = np.array(counts)[:, None]
    labels = ideal.labels(column, 5, np.stack([part.ravel() for part in grid]))
    expected = np.bincount(labels + 1, weights=chances, minlength=4)
    assert outcome_law(audit._hidden(replace(TINY, view=view)), 5, column) == pytest.approx(expected, abs=1e-11)


# ---- The votes --------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    st.sampled_from([*VIEWS]),
    st.integers(1, 20),
    st.integers(2, 5),
    st.integers(2, 60),
    st.floats(0.5, 12.0),
)
def test_one_teacher_moves_one_vote_between_the_first_two_classes(view, samples, classes, threshold, sigma):
    job = Mechanism(samples, sigma, classes=classes, threshold=threshold, view=view)
    votes, _ = found(job)
    assert sum(kind.samples for kind in votes.kinds) == samples
    for kind in votes.kinds:
        moved = (kind.moved - kind.votes)[:, 0].tolist()
        assert moved in ([-1, 1] + [0] * (classes - 2), [1, -1] + [0] * (classes - 2))
        assert min(kind.votes.min(), kind.moved.min()) >= 0
    for law in votes.laws:
        assert law.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("view", VIEWS)
def test_the_vote_moves_both_ways_and_some_samples_hang_on_it(view):
    votes, _ = found(Mechanism(view=view))
    ways = [kind.samples * int(kind.moved[0, 0] - kind.votes[0, 0]) for kind in votes.kinds]
    assert sum(ways) == 0
    zero = np.zeros((1, 1), np.int64)
    decided = [(ideal.labels(kind.votes, 100, zero), ideal.labels(kind.moved, 100, zero)) for kind in votes.kinds]
    assert sum(mine != other for mine, other in decided) >= 2


@pytest.mark.parametrize("view", VIEWS)
def test_the_worst_positions_are_nearly_those_of_the_exact_accountant(view):
    order = 4.0
    bound = argmax_divergence(9.0 / math.sqrt(2), VIEWS[view], order)
    votes, _ = found(Mechanism(view=view))
    p, q = votes.kinds[0].laws
    one, other = (
        math.log((a[a > 0] ** order * b[a > 0] ** (1 - order)).sum()) / (order - 1) for a, b in ((p, q), (q, p))
    )
    assert 0.9 * bound < max(one, other) <= bound


@pytest.mark.parametrize("view", VIEWS)
def test_at_these_votes_the_true_epsilon_is_near_the_claim_and_no_audit_exceeds_it(view):
    job = Mechanism(view=view)
    votes, event = found(job)
    # Without doubt about the frequencies, the score is the epsilon of these votes.
    true = best_event(votes.laws, 10**18, job.delta, 1.0).score
    claim = audit.claimed(job)
    assert 0.86 * claim < true < claim
    assert 0.83 * claim < event.score < true
    for i in range(5):
        assert audit.audit(job, runs=40_000, seed=SEED.child(f"{i}")).epsilon_lower < true


@pytest.mark.parametrize("view", VIEWS)
def test_runs_have_the_law_that_is_promised(view):
    job = Mechanism(view=view)
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
