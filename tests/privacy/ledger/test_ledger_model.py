"""Random sequences of calls against a model in exact fractions."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from sedml.errors import BudgetExceededError, LedgerError
from sedml.privacy.ledger import Ledger, State
from sedml.privacy.ledger.amounts import RHO_BITS, budget

PROMISED = budget(2.0, 1e-5)
LIMIT, DISTANCE_BITS = PROMISED.limit, PROMISED.distance_bits
RHO, DISTANCE = PROMISED.floats(LIMIT)

NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])
COSTS = st.tuples(
    st.sampled_from([0.0, 1e-15, 0.1, 0.3, 1 / 3, 1.0, 1.01]).map(lambda part: part * RHO) | st.floats(0.0, RHO),
    st.sampled_from([0.0, 1e-20, DISTANCE / 4, DISTANCE / 3]),
)
KEYS = st.lists(st.sampled_from([b"p", b"q", b"r", b"s"]), max_size=3)


def up(value: float, bits: int) -> Fraction:
    return Fraction(math.ceil(Fraction(value) * 2**bits), 2**bits)


@dataclass
class Job:
    state: State
    charge: tuple[Fraction, Fraction]
    real: Fraction
    """Not rounded."""


class Model(RuleBasedStateMachine):
    where: str
    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger.open(self.where)
        self.cohort = f"cohort {next(self.numbers)}"
        self.ledger.set_budget(self.cohort, 2.0, 1e-5)
        self.jobs: dict[str, Job] = {}
        self.answers: dict[bytes, int] = {}

    def teardown(self) -> None:
        self.ledger.close()

    def total(self, *states: State) -> tuple[Fraction, Fraction]:
        charges = [job.charge for job in self.jobs.values() if job.state in states]
        return sum((c[0] for c in charges), Fraction(0)), sum((c[1] for c in charges), Fraction(0))

    @rule(name=NAMES, cost=COSTS, same=st.booleans())
    def reserve(self, name: str, cost: tuple[float, float], same: bool) -> None:
        job = self.jobs.get(name)
        if job and same:
            cost = (float(job.charge[0]), float(job.charge[1]))
        asked = (up(cost[0], RHO_BITS), up(cost[1], DISTANCE_BITS))
        if job:
            if job.charge == asked and job.state is not State.CANCELLED:
                assert self.ledger.reserve(self.cohort, name, *cost).state is job.state
            else:
                with pytest.raises(LedgerError):
                    self.ledger.reserve(self.cohort, name, *cost)
            return
        used = self.total(State.RESERVED, State.STARTED)
        if (
            used[0] + asked[0] <= Fraction(LIMIT.rho, 2**RHO_BITS)
            and used[1] + asked[1] <= Fraction(LIMIT.distance, 2**DISTANCE_BITS)
        ):  # fmt: skip
            self.ledger.reserve(self.cohort, name, *cost)
            self.jobs[name] = Job(State.RESERVED, asked, Fraction(cost[0]))
        else:
            with pytest.raises(BudgetExceededError):
                self.ledger.reserve(self.cohort, name, *cost)

    @rule(name=NAMES)
    def start(self, name: str) -> None:
        job = self.jobs.get(name)
        if job and job.state is State.RESERVED:
            self.ledger.start(self.cohort, name)
            job.state = State.STARTED
        else:
            with pytest.raises(LedgerError):
                self.ledger.start(self.cohort, name)

    @rule(name=NAMES)
    def cancel(self, name: str) -> None:
        job = self.jobs.get(name)
        if job and job.state in (State.RESERVED, State.CANCELLED):
            self.ledger.cancel(self.cohort, name)
            job.state, job.real = State.CANCELLED, Fraction(0)
        else:
            with pytest.raises(LedgerError):
                self.ledger.cancel(self.cohort, name)

    @rule(name=NAMES, keys=KEYS, label=st.integers(-1, 9))
    def remember(self, name: str, keys: list[bytes], label: int) -> None:
        job = self.jobs.get(name)
        if job and job.state is State.STARTED:
            given = self.ledger.remember(self.cohort, name, keys, [label] * len(keys))
            for key in keys:
                self.answers.setdefault(key, label)
            assert given == [self.answers[key] for key in keys]
        else:
            with pytest.raises(LedgerError):
                self.ledger.remember(self.cohort, name, keys, [label] * len(keys))

    @rule()
    def open_again(self) -> None:
        self.ledger.close()
        self.ledger = Ledger.open(self.where)

    @invariant()
    def agree(self) -> None:
        shown = self.ledger.status(self.cohort)
        held, spent = self.total(State.RESERVED), self.total(State.STARTED)
        # rho is exact as a float; the distance has more digits than one.
        assert (shown.rho.reserved, shown.rho.spent) == (held[0], spent[0])
        assert (shown.distance.reserved, shown.distance.spent) == (float(held[1]), float(spent[1]))
        real = sum((job.real for job in self.jobs.values()), Fraction(0))
        assert real <= held[0] + spent[0] <= Fraction(LIMIT.rho, 2**RHO_BITS)
        assert shown.rho.left == Fraction(LIMIT.rho, 2**RHO_BITS) - held[0] - spent[0] >= 0
        assert {job.job: job.state for job in self.ledger.jobs(self.cohort)} == {
            name: job.state for name, job in self.jobs.items()
        }
        keys = [b"p", b"q", b"r", b"s"]
        assert self.ledger.known(self.cohort, keys) == [self.answers.get(key) for key in keys]


def test_the_ledger_does_what_the_model_does(where):
    machine = type("Machine", (Model,), {"where": where})
    examples = 15 if "sqlite" in where else 6  # a server's answer takes its time
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=20, deadline=None))
