"""Whose votes a job counts: which cohort a teacher belongs to, what was spent on it, and its own limit.

A teacher belongs to the cohort of the first job that counted it, unless that was cancelled, for good: in two cohorts,
its votes would be charged to two budgets of which neither knows the other. Its account is the sum of what the jobs
that counted it cost.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from sedml.errors import BudgetExceededError, OtherCohortError, PrivacyError
from sedml.privacy.ledger.amounts import Budget
from sedml.privacy.ledger.books import Account, read
from sedml.privacy.ledger.schema import State, check_name, chunks, cohorts, jobs, limits, seats, versions

# Built once: every ballot needs them.
_TEACHERS: sa.BindParameter[list[str]] = sa.bindparam("teachers", expanding=True)
_LIMITS = sa.select(limits.c.teacher, limits.c.epsilon).where(limits.c.teacher.in_(_TEACHERS))
_HELD = (
    sa.select(seats.c.teacher, cohorts.c.name, sa.cast(sa.func.sum(jobs.c.rho), sa.BigInteger))
    .join_from(seats, jobs, seats.c.job == jobs.c.id)
    .join(cohorts, jobs.c.cohort == cohorts.c.id)
    .where(seats.c.teacher.in_(_TEACHERS), jobs.c.state != State.CANCELLED.value, jobs.c.id != sa.bindparam("but"))
    .group_by(seats.c.teacher, cohorts.c.name)
    .order_by(sa.func.min(jobs.c.id))
)


@dataclass(frozen=True)
class TeacherAccount:
    """What the ledger knows of a teacher."""

    teacher: str
    cohort: str | None
    """None: it belongs to none yet."""
    used: float
    """Which part of its cohort's budget the jobs that counted it cost."""
    epsilon: float
    """The same as epsilon."""
    limit: float | None
    """The teacher's own, in epsilon."""


def lock_members(connection: sa.Connection) -> None:
    """Nobody else puts teachers on record until the transaction ends; take this before any cohort's lock.

    A cohort's own lock does not do: two of them may be after the same teacher.
    """
    connection.execute(sa.update(versions).values(version=versions.c.version))


def account_of(connection: sa.Connection, teacher: str) -> TeacherAccount:
    """A teacher's account; an empty one if the ledger has never heard of it."""
    check_name("teacher", teacher)
    held = _held(connection, [teacher]).get(teacher)
    limit = limits_of(connection, [teacher]).get(teacher)
    if held is None:
        return TeacherAccount(teacher, None, 0.0, 0.0, limit)
    cohort, rho = held
    promised = read(connection, cohort).budget
    return TeacherAccount(teacher, cohort, promised.share(rho), promised.epsilon_of(rho), limit)


def refusals(
    connection: sa.Connection, account: Account, rho: int, teachers: Collection[str], job: int | None
) -> dict[str, PrivacyError]:
    """Which of these teachers a job of a cohort must not count, and why; `job` is its own row, if it has one."""
    held, own = _held(connection, teachers, but=job), limits_of(connection, teachers)
    promised, found = account.budget, dict[str, PrivacyError]()
    for teacher in teachers:
        cohort, before = held.get(teacher, (account.name, 0))
        if cohort != account.name:
            found[teacher] = OtherCohortError(
                f'The teacher {teacher} belongs to cohort "{cohort}", and this job is charged to cohort '
                f'"{account.name}".',
                f'It may vote on jobs of cohort "{cohort}" alone: in two cohorts, its votes would be charged '
                "to two budgets.",
            )
        elif teacher in own and rho + before > promised.rho_within(own[teacher]):
            found[teacher] = BudgetExceededError(
                f"With this job, what was spent on the votes of {teacher} could pass its own limit of epsilon "
                f"{own[teacher]:g}.",
                "A teacher can set another limit with `sedml budget --limit`. This job does not count it.",
            )
    return found


def seated(connection: sa.Connection, job: int) -> set[str]:
    """Whom a job counts, as far as the ledger knows."""
    return set(connection.execute(sa.select(seats.c.teacher).where(seats.c.job == job)).scalars())


def seat(connection: sa.Connection, job: int, teachers: Iterable[str]) -> None:
    """Put on record whom a job counts, in place of whom it counted before."""
    names = sorted(set(teachers))
    for name in names:
        check_name("teacher", name)
    connection.execute(sa.delete(seats).where(seats.c.job == job))
    if names:
        connection.execute(sa.insert(seats), [{"teacher": name, "job": job} for name in names])


def check_limit(budgets: Collection[Budget], epsilon: float) -> None:
    """Raise unless a limit can be kept in one of these cohorts."""
    if any(math.nextafter(one.least_epsilon, math.inf) <= epsilon <= one.epsilon for one in budgets):
        return
    if not budgets:
        raise PrivacyError("No cohort has a budget here.", "Set a limit once the operators have promised one.")
    least, most = min(one.least_epsilon for one in budgets), max(one.epsilon for one in budgets)
    least = math.ceil(least * 1000) / 1000
    raise PrivacyError(
        f"A limit of epsilon {epsilon:g} cannot be kept here.",
        f"Use {least:g} to {most:g}: the accounting of the cohort's budget keeps to no less, and no more was promised.",
    )


def set_limit(connection: sa.Connection, teacher: str, epsilon: float | None) -> None:
    """Set a teacher's limit from now on; None: no limit of its own."""
    connection.execute(sa.delete(limits).where(limits.c.teacher == teacher))
    if epsilon is not None:
        connection.execute(sa.insert(limits).values(teacher=teacher, epsilon=epsilon))


def _held(connection: sa.Connection, teachers: Collection[str], but: int | None = None) -> dict[str, tuple[str, int]]:
    """The cohort of each of these teachers, and the rho that jobs which counted it hold of its account."""
    found: dict[str, tuple[str, int]] = {}
    for part in chunks(list(teachers)):
        for teacher, cohort, rho in connection.execute(_HELD, {"teachers": part, "but": but or 0}):
            found[teacher] = cohort, rho
    return found


def limits_of(connection: sa.Connection, teachers: Collection[str]) -> dict[str, float]:
    """The limits in epsilon of those of these teachers that have one."""
    found: dict[str, float] = {}
    for part in chunks(list(teachers)):
        found |= {row.teacher: row.epsilon for row in connection.execute(_LIMITS, {"teachers": part})}
    return found
