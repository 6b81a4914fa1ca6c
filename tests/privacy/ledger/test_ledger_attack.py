"""The averaging attack of Wang, Schuster & Papernot (NeurIPS 2022), with and without what the ledger does.

A requester asks for the same sample over and over. The frequencies of the answers converge to their
probabilities, and those give away how many teachers voted for each class.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import optimize, stats

from sedml.errors import BudgetExceededError
from sedml.mpc.prg import Seed
from sedml.privacy.ledger import Ledger, fingerprint
from sedml.privacy.noise import noise_table, sample
from sedml.protocol.votes import NO_CONSENSUS

VOTES = np.array([41, 30, 19, 10])
TEACHERS = int(VOTES.sum())
THRESHOLD, SIGMA = 45, 20.0
RHO = 1 / SIGMA**2
IMAGE = np.arange(64).reshape(8, 8)


class Mechanism:
    """The plain mechanism on one sample, fresh noise each time."""

    def __init__(self) -> None:
        self.draws = 0

    def __call__(self, times: int) -> np.ndarray:
        seed = Seed(bytes(31) + b"\x07")
        noisy = VOTES[:, np.newaxis] + sample(noise_table(SIGMA), seed, f"g {self.draws}", (len(VOTES), times))
        self.draws += times
        return np.where(noisy.max(axis=0) >= THRESHOLD, noisy.argmax(axis=0), NO_CONSENSUS)


def histogram(answers: Sequence[int] | np.ndarray) -> np.ndarray:
    """The attack: the votes whose probabilities of the answers are nearest to the frequencies seen."""
    given = np.asarray(answers)
    seen = np.array([(given == label).mean() for label in range(-1, len(VOTES))])
    z = np.linspace(THRESHOLD - 0.5, 300.0, 1001)  # a noisy count reaches T if it is T - 1/2 before rounding

    def probabilities(votes: np.ndarray) -> np.ndarray:
        below = stats.norm.cdf(z, votes[:, np.newaxis], SIGMA)
        above = stats.norm.pdf(z, votes[:, np.newaxis], SIGMA)
        wins = [np.trapezoid(above[i] * np.prod(np.delete(below, i, axis=0), axis=0), z) for i in range(len(votes))]
        return np.array([1.0 - sum(wins), *wins])

    def off(free: np.ndarray) -> np.ndarray:
        votes = np.append(free, TEACHERS - free.sum())  # how many teachers there are is public
        return probabilities(votes) - seen

    start = TEACHERS / len(VOTES) + np.array([3.0, 2.0, 1.0])
    free = optimize.least_squares(off, start, bounds=(-TEACHERS, 2 * TEACHERS), diff_step=1e-3).x
    return np.append(free, TEACHERS - free.sum())


def error(answers: Sequence[int] | np.ndarray) -> float:
    """By how many votes the attack is wrong on the class where it is worst."""
    return float(np.abs(histogram(answers) - VOTES).max())


def ask(ledger: Ledger, job: str, mechanism: Mechanism) -> int:
    """A server with the defence: what was asked before is not drawn again, and costs nothing."""
    key = fingerprint(IMAGE)
    (known,) = ledger.known("c", [key])
    if known is None:
        label = undefended(ledger, job, mechanism)
        (known,) = ledger.remember("c", job, [key], [label])
    return known


def undefended(ledger: Ledger, job: str, mechanism: Mechanism) -> int:
    """A server that forgets."""
    ledger.reserve("c", job, RHO)
    ledger.start("c", job)
    return int(mechanism(1)[0])


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(tmp_path / "l.db") as opened:
        opened.set_budget("c", 2.0, 1e-5)
        yield opened


def test_without_a_ledger_the_votes_are_recovered():
    assert error(Mechanism()(100_000)) < 2.0


def test_with_the_defence_repeats_carry_no_information(ledger):
    mechanism = Mechanism()
    answers = [ask(ledger, f"job {number}", mechanism) for number in range(200)]
    assert mechanism.draws == 1
    assert len(set(answers)) == 1  # all of them are a function of the first
    rho = ledger.status("c").rho
    assert rho.spent == pytest.approx(RHO, rel=1e-6)  # one sample
    assert rho.reserved == 0.0
    # So any number of repeats leaves the attack where one answer leaves it: nowhere.
    assert histogram(answers) == pytest.approx(histogram(answers[:1]))
    assert error(answers) > 20.0


def test_without_the_defence_the_budget_ends_the_attack(ledger):
    mechanism = Mechanism()
    answers: list[int] = []
    asking = (undefended(ledger, f"job {number}", mechanism) for number in range(1000))
    with pytest.raises(BudgetExceededError):
        answers.extend(asking)
    assert 25 <= len(answers) == mechanism.draws <= 100
    assert ledger.status("c").rho.left < RHO
    assert error(answers) > 3.0
