"""The ledger: budgets, reservations and answers. What it guarantees, and why, is in the package's docstring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from sedml.errors import BudgetExceededError, InputError, LedgerError, PrivacyError
from sedml.privacy.ledger import amounts, answers
from sedml.privacy.ledger.amounts import Charge, Status
from sedml.privacy.ledger.answers import Known, Label
from sedml.privacy.ledger.books import Account, Entry, charged, find_entry, lock, look_up, read, read_entries
from sedml.privacy.ledger.database import Database
from sedml.privacy.ledger.schema import MOVES, State, cohorts, jobs

__all__ = ["Ledger", "Reservation"]


@dataclass(frozen=True)
class Reservation:
    """A job in the ledger."""

    cohort: str
    job: str
    state: State
    rho: float
    """Reserved: the worst case."""
    distance: float
    charged_rho: float
    """What it is charged now."""
    charged_distance: float


class Ledger:
    """A persistent privacy filter per cohort of teachers. Threads and processes may share one.

    Every call is one transaction. After an error nothing has changed, but for a connection lost in the middle of
    a commit; repeating any call but `start` is safe, and a `start` that went through unnoticed leaves the job
    charged.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, where: str | Path, *, timeout: float = 30.0) -> Self:
        """Open or create a ledger: a path, or a database address such as postgresql://user@host/name.

        `timeout` is how many seconds to wait for other writers. Keep a SQLite file on a local disk.
        """
        return cls(Database(where, timeout))

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._database.name!r})"

    # ---- Budgets ------------------------------------------------------------------------------------

    def set_budget(self, cohort: str, epsilon: float, delta: float, *, sampler_share: float = 1 / 64) -> Status:
        """Promise (epsilon, delta) to a cohort, for good: the same again does nothing, other numbers are refused.

        `sampler_share` of delta is set aside for samplers that are not exact.
        """
        _check_name("cohort", cohort)
        promised = amounts.budget(epsilon, delta, sampler_share)
        try:
            return self._set_budget(cohort, promised)
        except LedgerError:
            # Another process may have set it at the same moment; then there is one to compare with now.
            with self._database.read() as connection:
                if look_up(connection, cohort) is None:
                    raise
            return self._set_budget(cohort, promised)

    def _set_budget(self, cohort: str, promised: amounts.Budget) -> Status:
        with self._database.write() as connection:
            account = look_up(connection, cohort)
            if account is None:
                connection.execute(
                    sa.insert(cohorts).values(
                        name=cohort,
                        writes=0,
                        epsilon=promised.epsilon,
                        delta=promised.delta,
                        sampler_share=promised.sampler_share,
                        rho_limit=promised.limit.rho,
                        distance_limit=promised.limit.distance,
                        rho_spent=0,
                        distance_spent=0,
                        rho_reserved=0,
                        distance_reserved=0,
                    )
                )
                account = read(connection, cohort)
            old = account.budget
            terms = (old.epsilon, old.delta, old.sampler_share)
            if terms != (promised.epsilon, promised.delta, promised.sampler_share):
                raise PrivacyError(
                    f'The budget of cohort "{cohort}" is epsilon {old.epsilon}, delta {old.delta}, of it a share of '
                    f"{old.sampler_share} for the sampler; other numbers were asked for.",
                    "A promise is made once: use these numbers, or another cohort of other teachers.",
                )
            return _status(account)

    def status(self, cohort: str) -> Status:
        """What the cohort has spent, reserved and left."""
        with self._database.read() as connection:
            return _status(read(connection, cohort))

    # ---- Jobs ---------------------------------------------------------------------------------------

    def reserve(self, cohort: str, job: str, rho: float, distance: float = 0.0, *, terms: bytes = b"") -> Reservation:
        """Charge a job its worst case; raises `BudgetExceededError`, and changes nothing, if it does not fit.

        `rho` is the zCDP of the job with all samples answered, `distance` the sum over all its draws of their
        distance from exact noise. `terms`, such as a hash, may bind the job to more. The same job and terms
        again are not charged again.
        """
        _check_name("job", job)
        if not isinstance(terms, bytes):
            raise InputError("The terms of a job are not bytes.", "Pass a hash of them, or nothing.")
        asked = amounts.charge(rho, distance)
        with self._database.write() as connection:
            account = lock(connection, cohort)
            entry = find_entry(connection, account, job)
            if entry is not None:
                return _reserved_before(cohort, entry, asked, terms)
            _check_fits(account, job, asked)
            charged(connection, account, Charge(0, 0), asked)
            row = {"rho_asked": asked.rho, "distance_asked": asked.distance, "terms": terms}
            row |= {"rho": asked.rho, "distance": asked.distance, "state": State.RESERVED.value}
            connection.execute(sa.insert(jobs).values(cohort=account.id, name=job, **row))
            return _public(cohort, Entry(0, job, terms, State.RESERVED, asked, asked))

    def start(self, cohort: str, job: str) -> Reservation:
        """Mark a reserved job as running. Call it before the first bit is opened, and go on only if it returns.

        It works once for each job: whoever is refused must open nothing, unless it is the one that was let
        through before and goes on with the very noise it had.
        """
        return self._move(cohort, job, State.RUNNING)

    def cancel(self, cohort: str, job: str) -> Reservation:
        """Give a reservation back. Refused once the job was started, as bits may have been opened then."""
        return self._move(cohort, job, State.CANCELLED, Charge(0, 0))

    def settle(self, cohort: str, job: str, rho: float | None = None, distance: float | None = None) -> Reservation:
        """End a running job, charging what it really spent; at most what was reserved, and that by default.

        After a crash, if nobody knows what was opened, settle with the default. The same again does nothing.
        """
        final = amounts.charge(0.0 if rho is None else rho, 0.0 if distance is None else distance)
        return self._move(cohort, job, State.SETTLED, final, rho is None, distance is None)

    def job(self, cohort: str, job: str) -> Reservation:
        """One job."""
        with self._database.read() as connection:
            return _public(cohort, _entry(connection, read(connection, cohort), job))

    def jobs(self, cohort: str, state: State | None = None) -> list[Reservation]:
        """All jobs of a cohort, oldest first, or those in one state: the running ones after a crash."""
        with self._database.read() as connection:
            entries = read_entries(connection, read(connection, cohort))
        return [_public(cohort, entry) for entry in entries if state in (None, entry.state)]

    def _move(
        self,
        cohort: str,
        job: str,
        state: State,
        final: Charge | None = None,
        all_rho: bool = False,
        all_distance: bool = False,
    ) -> Reservation:
        with self._database.write() as connection:
            account = lock(connection, cohort)
            entry = _entry(connection, account, job)
            cost = entry.asked if final is None else final
            if all_rho or all_distance:
                cost = Charge(
                    entry.asked.rho if all_rho else cost.rho,
                    entry.asked.distance if all_distance else cost.distance,
                )
            if entry.state is state and state is not State.RUNNING and cost == entry.charge:
                return _public(cohort, entry)
            if entry.state is not MOVES[state]:
                raise LedgerError(
                    f'Job "{job}" is {entry.state.value}; it cannot be {state.value} now.', _ADVICE[entry.state]
                )
            if not cost.within(entry.asked):
                raise PrivacyError(
                    f'Job "{job}" is said to have spent more than it reserved.',
                    "It stays charged as reserved. Find out how it could open more than it was allowed to.",
                )
            spent = cost if state is State.SETTLED else Charge(0, 0)
            held = cost if state is State.RUNNING else Charge(0, 0)
            charged(connection, account, spent, held - entry.charge)
            connection.execute(
                sa.update(jobs)
                .where(jobs.c.id == entry.id)
                .values(state=state.value, rho=cost.rho, distance=cost.distance)
            )
            return _public(cohort, Entry(entry.id, job, entry.terms, state, entry.asked, cost))

    # ---- Answers ------------------------------------------------------------------------------------

    def known(self, cohort: str, fingerprints: Sequence[bytes]) -> list[Known | None]:
        """For each sample the label it was given before, or None. Draw only those without, each of them once."""
        answers.check_fingerprints(fingerprints)
        with self._database.read() as connection:
            found = answers.find(connection, read(connection, cohort).id, fingerprints)
        return [found.get(key) for key in fingerprints]

    def remember(self, cohort: str, job: str, fingerprints: Sequence[bytes], labels: Sequence[Label]) -> list[Known]:
        """Keep the labels that a job has drawn. Hand out what this returns, and only after it has returned.

        A sample that another job was quicker with keeps that one's label. Call it block by block for a large
        job: others wait for the lock meanwhile.
        """
        if len(fingerprints) != len(labels):
            raise InputError(
                f"There are {len(fingerprints)} fingerprints and {len(labels)} labels.",
                "Pass one label for each fingerprint.",
            )
        answers.check_fingerprints(fingerprints)
        encoded = [answers.encode(label) for label in labels]
        with self._database.write() as connection:
            account = lock(connection, cohort)
            entry = _entry(connection, account, job)
            if entry.state not in (State.RUNNING, State.SETTLED):
                raise LedgerError(f'Job "{job}" is {entry.state.value}: it cannot have labels.', _ADVICE[entry.state])
            answers.store(connection, account.id, entry.id, fingerprints, encoded)
            found = answers.find(connection, account.id, fingerprints)
            return [found[key] for key in fingerprints]


_ADVICE = {
    State.RESERVED: "Start it before a bit is opened, or cancel it.",
    State.RUNNING: "Settle it: what was opened cannot be taken back. Reserve a new job for more samples.",
    State.SETTLED: "Its charge stands. Reserve a new job for more samples.",
    State.CANCELLED: "Reserve a new job under another name.",
}


def _reserved_before(cohort: str, entry: Entry, asked: Charge, terms: bytes) -> Reservation:
    if entry.asked != asked or entry.terms != terms:
        raise LedgerError(
            f'Job "{entry.name}" was reserved before, with other terms.',
            "Use the same terms to go on with it, or another name for another job.",
        )
    if entry.state is State.CANCELLED:
        # Taking it back would let whoever still holds the cancelled reservation start it.
        raise LedgerError(f'Job "{entry.name}" was cancelled.', _ADVICE[State.CANCELLED])
    return _public(cohort, entry)


def _check_fits(account: Account, job: str, asked: Charge) -> None:
    left = account.budget.limit - account.spent - account.reserved
    if asked.within(left):
        return
    (rho, distance), (rho_left, distance_left) = asked.floats, left.floats
    raise BudgetExceededError(
        f'Job "{job}" may cost a rho of {rho:.6g} and a sampler distance of {distance:.3g}; the budget of cohort '
        f'"{account.name}" has {rho_left:.6g} and {distance_left:.3g} left.',
        "Ask for fewer samples or use more noise; or wait for running jobs to settle. Nothing was charged.",
    )


def _entry(connection: sa.Connection, account: Account, job: str) -> Entry:
    _check_name("job", job)
    entry = find_entry(connection, account, job)
    if entry is None:
        raise LedgerError(f'Cohort "{account.name}" has no job "{job}".', "Check the name, or reserve the job first.")
    return entry


def _status(account: Account) -> Status:
    return amounts.status(account.name, account.budget, account.spent, account.reserved)


def _public(cohort: str, entry: Entry) -> Reservation:
    return Reservation(cohort, entry.name, entry.state, *entry.asked.floats, *entry.charge.floats)


def _check_name(kind: str, name: str) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= 200 or not name.isprintable():
        raise InputError(
            f"The name of a {kind} is empty, longer than 200 characters, or not printable.",
            f"Use a short name for the {kind}.",
        )
