"""The ledger: budgets, reservations and answers. What it guarantees, and why, is in the package's docstring."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

import sqlalchemy as sa

from sedml.database import Database
from sedml.errors import InputError, LedgerError, PrivacyError
from sedml.privacy.ledger import amounts, answers, books, members
from sedml.privacy.ledger.amounts import Budget, Charge, Status
from sedml.privacy.ledger.books import Account, Reservation
from sedml.privacy.ledger.members import TeacherAccount
from sedml.privacy.ledger.rules import check_fits, check_has_labels, check_reserved, check_same, check_unit
from sedml.privacy.ledger.schema import SCHEMA, State
from sedml.privacy.unit import ORGANISATION


class Ledger:
    """A persistent privacy filter per cohort of teachers. Threads and processes may share one.

    Every call is one transaction. After an error nothing has changed, except if a connection was lost in the middle of
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
        return cls(Database(where, timeout, SCHEMA))

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self._database.name!r})"

    # ---- Budgets ------------------------------------------------------------------------------------

    def set_budget(self, cohort: str, epsilon: float, delta: float, unit: str = ORGANISATION) -> Status:
        """Promise (epsilon, delta) to each unit of a cohort, for good.

        The same again does nothing, other numbers or another unit are refused.
        """
        promised = amounts.budget(epsilon, delta, unit)
        try:
            return self._set_budget(cohort, promised)
        except LedgerError:
            # Another process may have set it at the same moment; then there is one to compare with now.
            with self._database.read() as connection:
                if books.look_up(connection, cohort) is None:
                    raise
            return self._set_budget(cohort, promised)

    def _set_budget(self, cohort: str, promised: Budget) -> Status:
        with self._database.write() as connection:
            account = books.look_up(connection, cohort)
            if account is None:
                books.promise(connection, cohort, promised)
                account = books.read(connection, cohort)
            old = account.budget
            if (old.epsilon, old.delta, old.unit) != (promised.epsilon, promised.delta, promised.unit):
                raise PrivacyError(
                    f'The budget of cohort "{cohort}" is epsilon {old.epsilon}, delta {old.delta} for each {old.unit}; '
                    "another one was asked for.",
                    "A promise is made once: use this one, or another cohort of other teachers.",
                )
            return account.status()

    def status(self, cohort: str) -> Status:
        """What the cohort has spent, reserved and left."""
        with self._database.read() as connection:
            return books.read(connection, cohort).status()

    # ---- Jobs ---------------------------------------------------------------------------------------

    def reserve(
        self,
        cohort: str,
        job: str,
        rho: float,
        distance: float = 0.0,
        *,
        unit: str = ORGANISATION,
        terms: bytes = b"",
        teachers: Collection[str] = (),
    ) -> Reservation:
        """Charge a job; raises `BudgetExceededError`, and changes nothing, if it does not fit.

        `rho` is D_α/α of the job at the cohort's order (or its zCDP), `distance` the sum over all draws of one server
        of their distance from exact noise (`sedml.privacy.charging`), for the `unit` that the cohort's budget protects;
        another one is refused. `terms`, such as a hash, may bind the job to more. `teachers` are the organisations
        whose votes it counts: raises if one of them must not be counted (`refusals`). The same job and terms again are
        not charged again.
        """
        if not isinstance(terms, bytes):
            raise InputError("The terms of a job are not bytes.", "Pass a hash of them, or nothing.")
        with self._database.write() as connection:
            if teachers:
                members.lock_members(connection)
            account = books.lock(connection, cohort)
            check_unit(cohort, account.budget.unit, unit)
            cost = account.budget.charge(rho, distance)
            entry = books.find_entry(connection, account, job)
            if entry is not None:
                check_same(entry, cost, terms)
                return entry
            check_fits(account, job, cost)
            _check_countable(connection, account, cost, teachers, None)
            entry = books.add(connection, account, job, terms, cost)
            members.seat(connection, entry.id, teachers)
            return entry

    def seat(self, cohort: str, job: str, teachers: Collection[str]) -> Reservation:
        """Say anew whom a job counts that is reserved and not started; raises if a new one must not be counted."""
        with self._database.write() as connection:
            members.lock_members(connection)
            account = books.lock(connection, cohort)
            entry = books.get_entry(connection, account, job)
            if entry.state is State.RESERVED:
                new = set(teachers) - members.seated(connection, entry.id)
                _check_countable(connection, account, entry.charge, new, entry.id)
                members.seat(connection, entry.id, teachers)
            return entry

    def start(self, cohort: str, job: str) -> Reservation:
        """Spend what was reserved, for good. Call it before the first bit is opened, and go on only if it returns.

        It works once for each job: whoever is refused must open nothing, unless it is the one that was let through
        before.
        """
        return self._move(cohort, job, State.STARTED)

    def cancel(self, cohort: str, job: str) -> Reservation:
        """Give a reservation back; the same again does nothing. Refused once the job was started."""
        return self._move(cohort, job, State.CANCELLED)

    def job(self, cohort: str, job: str) -> Reservation:
        """One job."""
        with self._database.read() as connection:
            return books.get_entry(connection, books.read(connection, cohort), job)

    def jobs(self, cohort: str, state: State | None = None) -> list[Reservation]:
        """All jobs of a cohort, oldest first, or those in one state."""
        with self._database.read() as connection:
            entries = books.read_entries(connection, books.read(connection, cohort))
        return [entry for entry in entries if state in (None, entry.state)]

    def _move(self, cohort: str, job: str, state: State) -> Reservation:
        with self._database.write() as connection:
            account = books.lock(connection, cohort)
            entry = books.get_entry(connection, account, job)
            # A second start is not a repetition: two would open bits.
            if entry.state is state is State.CANCELLED:
                return entry
            check_reserved(entry, state)
            books.move(connection, account, entry, state)
            return replace(entry, state=state)

    # ---- Teachers -----------------------------------------------------------------------------------

    def teacher(self, teacher: str) -> TeacherAccount:
        """Which cohort a teacher belongs to, what was spent on its votes, and its own limit."""
        with self._database.read() as connection:
            return members.account_of(connection, teacher)

    def limited(self, teachers: Collection[str]) -> set[str]:
        """Which of these teachers have set a limit of their own."""
        with self._database.read() as connection:
            return set(members.limits_of(connection, teachers))

    def set_limit(self, teacher: str, epsilon: float | None) -> TeacherAccount:
        """Count the teacher in no job that could take its account past this epsilon, at its cohort's delta and order.

        None: no limit of its own. What was counted before stays, also where the new limit is below it.
        """
        with self._database.write() as connection:
            members.lock_members(connection)
            cohort = members.account_of(connection, teacher).cohort
            if epsilon is not None:
                belongs = books.read_all(connection) if cohort is None else [books.read(connection, cohort)]
                members.check_limit([account.budget for account in belongs], epsilon)
            members.set_limit(connection, teacher, epsilon)
            return members.account_of(connection, teacher)

    def refusals(self, cohort: str, job: str, rho: float, teachers: Collection[str]) -> dict[str, PrivacyError]:
        """Which of these teachers a job of this rho must not count, and why.

        A job that is reserved has its rho, and counts those whom it counted then: a limit that was set since is for the
        jobs to come.
        """
        with self._database.read() as connection:
            account = books.read(connection, cohort)
            entry = books.find_entry(connection, account, job)
            if entry is None:
                return members.refusals(connection, account, account.budget.charge(rho, 0.0).rho, teachers, None)
            counted = members.seated(connection, entry.id)
            if not counted:
                return members.refusals(connection, account, entry.charge.rho, teachers, entry.id)
            reason = PrivacyError(f'Job "{job}" was reserved for other teachers.', "Take part in another job.")
            return dict.fromkeys(set(teachers) - counted, reason)

    # ---- Answers ------------------------------------------------------------------------------------

    def known(self, cohort: str, fingerprints: Sequence[bytes]) -> list[int | None]:
        """The label that each sample was given before, or None. Draw only those without, each of them once."""
        answers.check_fingerprints(fingerprints)
        with self._database.read() as connection:
            found = answers.find(connection, books.read(connection, cohort).id, fingerprints)
        return [found.get(key) for key in fingerprints]

    def remember(self, cohort: str, job: str, fingerprints: Sequence[bytes], labels: Sequence[int]) -> list[int]:
        """Keep the labels that a job has drawn. Hand out what this returns, and only after it has returned.

        A label is a class, or -1 for no consensus. A sample that another job was quicker with keeps that one's. Call
        it block by block for a large job: others wait for the lock meanwhile.
        """
        if len(fingerprints) != len(labels):
            raise InputError(
                f"There are {len(fingerprints)} fingerprints and {len(labels)} labels.",
                "Pass one label for each fingerprint.",
            )
        answers.check_fingerprints(fingerprints)
        with self._database.write() as connection:
            account = books.lock(connection, cohort)
            entry = books.get_entry(connection, account, job)
            check_has_labels(entry)
            return answers.store(connection, account.id, entry.id, fingerprints, labels)


def _check_countable(
    connection: sa.Connection, account: Account, cost: Charge, teachers: Collection[str], job: int | None
) -> None:
    """Raise unless a job may count all these teachers."""
    for refusal in members.refusals(connection, account, cost.rho, teachers, job).values():
        raise LedgerError(refusal.what, f"Leave it out, and try again. {refusal.do}")
