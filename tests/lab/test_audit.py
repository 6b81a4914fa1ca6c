"""The audit's bound against exact sums, and the audit itself on honest noise and on planted faults."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sedml.errors import InputError, TaskError
from sedml.lab import audit as module
from sedml.lab import binomial_bounds
from sedml.lab.audit import AuditReport, Mechanism
from sedml.lab.binomial_bounds import binomial_lower, binomial_upper, epsilon_lower
from sedml.mpc.prg import Seed, expand
from sedml.privacy import noise
from sedml.privacy.accounting import account
from sedml.protocol import ideal

SEED = Seed(bytes(range(32)))
RUNS = 3_000_000
TINY = Mechanism(samples=1, classes=3, threshold=5, sigma1=0.6, sigma2=0.8)


def audit(*, seed: Seed | None = None, **terms) -> AuditReport:
    """The audit of a mechanism, the terms of both given together."""
    how = {name: terms.pop(name) for name in ("runs", "confidence", "progress") if name in terms}
    return module.audit(Mechanism(**terms), seed=seed, **how)


# ---- The bounds -------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(1, 2_000_000), st.floats(0, 1), st.sampled_from([0.25, 0.01, 0.0005, 1e-9]))
def test_the_binomial_bounds_are_those_of_the_beta_distribution(trials, share, alpha):
    hits = round(share * trials)
    low = stats.beta.ppf(alpha, hits, trials - hits + 1) if hits else 0.0
    high = stats.beta.isf(alpha, hits + 1, trials - hits) if hits < trials else 1.0
    assert binomial_lower(hits, trials, alpha) == pytest.approx(low, rel=1e-6)
    assert binomial_upper(hits, trials, alpha) == pytest.approx(high, rel=1e-6)


@pytest.mark.parametrize("hits", [1, 2, 40, 5000, 9_999_999, 10**7])
def test_the_lower_bound_is_on_the_safe_side_of_the_exact_tail(hits):
    low = binomial_lower(hits, 10**7, 1e-3)
    assert 1e-3 * (1 - 1e-5) <= stats.binom.sf(hits - 1, 10**7, low) <= 1e-3


@pytest.mark.parametrize("trials", [1, 7, 40])
@pytest.mark.parametrize("alpha", [0.2, 0.01])
def test_the_binomial_bounds_cover_every_p(trials, alpha):
    hits = np.arange(trials + 1)
    low = np.array([binomial_lower(k, trials, alpha) for k in hits])
    high = np.array([binomial_upper(k, trials, alpha) for k in hits])
    for p in np.linspace(0.0, 1.0, 101):
        chances = stats.binom.pmf(hits, trials, p)
        assert chances[low > p].sum() <= alpha * (1 + 1e-9)
        assert chances[high < p].sum() <= alpha * (1 + 1e-9)


@pytest.mark.parametrize(("p", "q", "delta"), [(0.5, 0.2, 0.0), (0.9, 0.05, 0.1), (0.3, 0.3, 0.0), (0.2, 0.01, 0.1)])
def test_the_bound_on_epsilon_exceeds_it_no_more_often_than_allowed(monkeypatch, p, q, delta):
    monkeypatch.setattr(binomial_bounds, "binomial_lower", cache(binomial_lower))
    true = max(0.0, math.log((p - delta) / q))
    few = range(41)
    bounds = np.array([[epsilon_lower(k, m, 40, delta, 0.9) for m in few] for k in few])
    chances = np.outer(stats.binom.pmf(few, 40, p), stats.binom.pmf(few, 40, q))
    assert chances[bounds > true].sum() <= 0.1
    uniforms = expand(SEED, "coverage", 8 * 2 * 300 * 1000).view("<u8").reshape(2, 300, 1000) / 2.0**64
    hits, other = (uniforms < np.array([p, q])[:, None, None]).sum(axis=2).tolist()
    many = np.array([epsilon_lower(k, m, 1000, delta, 0.9) for k, m in zip(hits, other, strict=True)])
    assert np.mean(many > true) <= 0.1
    assert np.median(many) >= true - 0.9


def test_the_bound_on_epsilon_is_monotone():
    terms = {"hits": 700, "other": 50, "trials": 10_000, "delta": 1e-3, "confidence": 0.99}
    bound = epsilon_lower(**terms)
    assert 0.0 < bound < math.log((0.07 - 1e-3) / 0.005)
    for name, value in (("hits", 699), ("other", 51), ("delta", 2e-3), ("confidence", 0.999)):
        assert epsilon_lower(**{**terms, name: value}) < bound
    assert epsilon_lower(7000, 500, 100_000, 1e-3, 0.99) > bound
    assert epsilon_lower(50, 700, 10_000, 1e-3, 0.99) == epsilon_lower(3, 0, 10_000, 1e-3, 0.99) == 0.0


@pytest.mark.parametrize("case", [(-1, 5, 0.1), (6, 5, 0.1), (0, 0, 0.1), (1, 5, 0.0), (1, 5, 1.0)])
@pytest.mark.parametrize("bound", [binomial_lower, binomial_upper])
def test_counts_that_cannot_be_are_refused(bound, case):
    with pytest.raises(TaskError):
        bound(*case)


# ---- The law of the outcomes ------------------------------------------------------------------------


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


@pytest.mark.parametrize("source", ["both", "s0"])
@pytest.mark.parametrize("counts", [[5, 4, 4], [4, 5, 3], [7, 7, 7], [2, 0, 9]])
def test_the_requesters_law_is_that_of_all_noise_enumerated(counts, source):
    job = replace(TINY, noise=source)
    parts = 2 if source == "both" else 1
    g, p = summed(0.6 / math.sqrt(parts), parts)
    g_i, p_i = summed(0.8 / math.sqrt(parts), parts)
    keep, keep_i = p > 1e-14, p_i > 1e-14
    g, p, g_i, p_i = g[keep], p[keep], g_i[keep_i], p_i[keep_i]
    grid = np.meshgrid(g, g_i, g_i, g_i, indexing="ij")
    chances = np.einsum("a,b,c,d->abcd", p, p_i, p_i, p_i).ravel()
    column = np.array(counts)[:, None]
    labels = ideal.labels(column, 5, grid[0].ravel(), np.stack([part.ravel() for part in grid[1:]]))
    expected = np.bincount(labels + 1, weights=chances, minlength=4)
    assert module._law(job, column) == pytest.approx(expected, abs=1e-11)


def test_the_servers_law_is_that_of_the_other_servers_noise_enumerated():
    job = replace(TINY, view="server")
    other, p = summed(0.6 / math.sqrt(2), 1)
    bound = noise.server_table(0.6, "both", 0).bound
    for top in (3, 5, 6):
        column = np.array([[top], [1], [0]])
        law = module._law(job, column).reshape(-1, 2)
        assert len(law) == 2 * bound + 1
        for own, pair in zip(range(-bound, bound + 1), law, strict=True):
            reached = p[ideal.consensus(column, 5, own + other)].sum()
            assert pair == pytest.approx([1 - reached, reached], abs=1e-12)


def test_where_only_s0_adds_noise_it_is_left_with_none():
    law = module._law(replace(TINY, view="server", noise="s0"), np.array([[5], [1], [0]])).reshape(-1, 2)
    zero = len(law) // 2
    assert law[zero - 1].tolist() == [1.0, 0.0]
    assert law[zero].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("view", ["requester", "server"])
def test_runs_have_the_law_that_their_ratios_are_computed_from(view):
    job = Mechanism(samples=1, classes=3, threshold=50, sigma1=2.0, sigma2=3.0, view=view)
    pair = module._pairs(job)[10]
    runs = 400_000
    for counts in (pair.votes, pair.moved):
        found = module._histogram(job, pair, counts, SEED, runs)
        chances = module._law(job, counts)
        if view == "server":
            chances = chances * np.repeat(module._pmf(job.tables(2.0)[0]), 2)
        bins = np.clip(module._BINS // 2 * (1 + pair.ratios / pair.scale), 0, module._BINS - 1).astype(int)
        expected = np.bincount(bins, weights=chances, minlength=module._BINS) * runs
        assert found.sum() == runs
        assert np.all(np.abs(found - expected) <= 5 * np.sqrt(expected) + 5)


def test_one_teacher_moves_one_vote_between_the_first_two_classes():
    for view in ("requester", "server"):
        pairs = module._pairs(Mechanism(samples=2, classes=4, threshold=20, sigma1=3.0, sigma2=4.0, view=view))
        assert len(pairs) >= 5
        for pair in pairs:
            assert (pair.moved - pair.votes)[:, 0].tolist() == [-1, 1, 0, 0]
            assert pair.votes.min() >= 0
            assert pair.votes.max() - pair.moved.max() == 1


# ---- The audit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["both", "s0"])
@pytest.mark.parametrize("view", ["requester", "server"])
def test_honest_noise_stays_below_the_claim(view, source):
    report = audit(view=view, noise=source, runs=RUNS, seed=SEED)
    views = account(2, 2, 1.5, 9.0, 1e-3, noise=source)
    claimed = views.requester if view == "requester" else views.server
    assert report.passed
    assert report.claim == pytest.approx(claimed.epsilon)
    assert report.epsilon_lower < claimed.epsilon_fixed
    assert report.epsilon_lower > 0.5 * min(report.claim, 10.0)  # and the test is not empty
    assert report.runs <= RUNS
    assert report.trials >= 0.3 * RUNS


@pytest.mark.parametrize("fault", ["half-width", "one-server", "unpaid-threshold"])
@pytest.mark.parametrize("view", ["requester", "server"])
def test_a_planted_fault_is_caught(view, fault):
    report = audit(view=view, fault=fault, runs=RUNS, seed=SEED)
    assert not report.passed
    assert report.epsilon_lower > report.claim + 0.1
    assert report.fault == fault


@pytest.mark.parametrize("fault", ["half-width", "one-server", "unpaid-threshold"])
def test_a_planted_fault_is_caught_where_only_s0_adds_noise(fault):
    assert not audit(noise="s0", fault=fault, runs=RUNS, seed=SEED).passed


def test_faults_of_the_labels_noise_are_caught_where_it_is_the_narrower():
    terms = {"samples": 1, "sigma1": 8.0, "sigma2": 2.0, "runs": RUNS, "seed": SEED}
    assert audit(**terms).passed
    assert not audit(**terms, fault="half-width").passed


def test_one_sample_comes_close_to_what_is_true():
    report = audit(samples=1, sigma1=2.0, sigma2=40.0, delta=1e-2, runs=RUNS, seed=SEED)
    # A threshold check of one sample is the best test of a Gaussian; the noise is discrete, hence not quite.
    assert 0.85 * account(1, 1, 2.0, 40.0, 1e-2).requester.epsilon_gaussian < report.epsilon_lower <= report.claim


def test_many_classes_and_wide_noise_pass():
    assert audit(classes=10, runs=200_000, seed=SEED).passed
    assert audit(samples=20, sigma1=150.0, sigma2=40.0, threshold=200, delta=1e-5, runs=20_000, seed=SEED).passed


def test_the_same_seed_gives_the_same_report_and_none_a_fresh_one():
    terms = {"runs": 50_000, "view": "server"}
    assert audit(**terms, seed=SEED) == audit(**terms, seed=SEED)
    assert audit(**terms).hits != audit(**terms).hits


def test_the_noise_is_the_servers_own_in_chunks_of_bounded_size(monkeypatch):
    draws = []

    def spy(table, seed, label, shape):
        draws.append((table.sigma, seed, label, math.prod(shape)))
        return noise.sample(table, seed, label, shape)

    monkeypatch.setattr(module, "sample", spy)
    monkeypatch.setattr(module, "_CHUNK", 3000)
    report = audit(samples=5, runs=30_000)
    assert {sigma for sigma, _, _, _ in draws} == {noise.server_sigma(1.5, "both"), noise.server_sigma(9.0, "both")}
    assert len({(seed, label) for _, seed, label, _ in draws}) == len(draws)  # no stream is drawn from twice
    assert max(size for _, _, _, size in draws) <= 3000
    assert sum(size for _, _, label, size in draws if label == "g") == 2 * 5 * report.runs


def test_progress_is_told_as_runs_are_drawn():
    seen = []
    report = audit(runs=20_000, view="server", progress=lambda _, done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1][0] == report.runs
    assert {total for _, total in seen} == {20_000}


def test_a_report_is_frozen_and_says_which_event():
    report = audit(runs=20_000, view="server", seed=SEED)
    assert "consensus bits" in report.event
    assert "threshold 100" in report.event
    with pytest.raises(FrozenInstanceError):
        report.passed = True


@pytest.mark.parametrize(
    "bad",
    [
        {"samples": 0},
        {"samples": 2.0},
        {"samples": True},
        {"classes": 1},
        {"threshold": 1},
        {"runs": 10},
        {"sigma1": 0.0},
        {"sigma2": -1.0},
        {"sigma1": math.nan},
        {"sigma2": 1e5},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": 0.0, "fault": "unpaid-threshold"},
        {"confidence": 1.0},
        {"confidence": 0.2},
        {"confidence": math.nan},
        {"noise": "s1"},
        {"view": "teacher"},
        {"fault": "none"},
    ],
)
def test_bad_terms_are_refused(bad):
    with pytest.raises(InputError) as caught:
        audit(**bad)
    assert caught.value.do
