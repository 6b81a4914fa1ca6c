"""The audit's bound against exact sums, and the audit itself on honest noise and on planted faults."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sedml.errors import InputError, TaskError
from sedml.lab import audit as module
from sedml.lab import binomial_bounds
from sedml.lab.audit import AuditReport, Mechanism, claimed
from sedml.lab.binomial_bounds import binomial_lower, binomial_upper, epsilon_lower
from sedml.mpc.prg import Seed, expand
from sedml.privacy import noise
from sedml.privacy.accounting import job_report

SEED = Seed(bytes(range(32)))
RUNS = 600_000
VIEWS = "collusion", "requester"


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


@pytest.mark.parametrize("case", [(-1, 5, 0.1), (6, 5, 0.1), (0, 0, 0.1), (1, 5, 0.0), (1, 5, 1.0)])
@pytest.mark.parametrize("bound", [binomial_lower, binomial_upper])
def test_counts_that_cannot_be_are_refused(bound, case):
    with pytest.raises(TaskError):
        bound(*case)


# ---- The audit --------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_honest_noise_stays_below_the_claim_and_comes_near_it(view):
    report = audit(view=view, runs=RUNS, seed=SEED)
    assert report.passed
    assert 0.65 * report.claim < report.epsilon_lower < 0.9 * report.claim
    assert report.reached == report.epsilon_lower / report.claim
    assert report.runs == RUNS
    assert report.trials == 0.45 * report.runs


def test_the_claims_are_those_of_a_report():
    cost = job_report(20, 9.0, 1e-3, classes=3)
    assert [claimed(Mechanism(view=view)) for view in VIEWS] == [cost.epsilon, cost.epsilon_apart]


@pytest.mark.parametrize("fault", ["half-width", "one-server", "repeated"])
@pytest.mark.parametrize("view", VIEWS)
def test_a_fault_of_the_noise_is_caught_whoever_sees_it(view, fault):
    report = audit(view=view, fault=fault, runs=RUNS, seed=SEED)
    assert not report.passed
    assert report.epsilon_lower > report.claim + 0.1
    assert report.fault == fault


def test_noise_that_is_a_little_too_narrow_is_caught():
    assert not audit(samples=3, sigma=4.0, fault="narrow", runs=3_000_000, seed=SEED).passed


def test_the_same_seed_gives_the_same_report_and_none_a_fresh_one():
    terms = {"runs": 50_000}
    assert audit(**terms, seed=SEED) == audit(**terms, seed=SEED)
    assert audit(**terms).hits != audit(**terms).hits


@pytest.mark.parametrize("view", VIEWS)
def test_the_noise_is_the_servers_own_in_chunks_of_bounded_size(monkeypatch, view):
    draws = []

    def spy(table, seed, label, shape):
        draws.append((table.sigma, seed, label, math.prod(shape)))
        return noise.sample(table, seed, label, shape)

    monkeypatch.setattr(module, "sample", spy)
    monkeypatch.setattr(module, "_CHUNK", 3000)
    report = audit(samples=5, view=view, runs=12_000)
    assert len({(seed, label) for _, seed, label, _ in draws}) == len(draws)  # no stream is drawn from twice
    assert max(size for _, _, _, size in draws) <= 3000
    assert {sigma for sigma, _, _, _ in draws} == {noise.server_sigma(9.0)}
    # A server that works with the requester knows its own noise.
    assert sum(size for _, _, _, size in draws) == (1 + (view == "requester")) * 3 * 5 * report.runs


@pytest.mark.parametrize(
    "bad",
    [
        {"samples": 0},
        {"samples": 2.0},
        {"samples": True},
        {"classes": 1},
        {"threshold": 1},
        {"runs": 10},
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"sigma": math.nan},
        {"sigma": 1e5},
        {"delta": 0.0},
        {"delta": 1.0},
        {"confidence": 1.0},
        {"confidence": 0.2},
        {"confidence": math.nan},
        {"view": "votes"},
        {"fault": "none"},
    ],
)
def test_bad_terms_are_refused(bad):
    with pytest.raises(InputError) as caught:
        audit(**bad)
    assert caught.value.do
