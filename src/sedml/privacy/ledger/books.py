"""Reading and writing the rows of a cohort, checking every time that the books add up."""

from __future__ import annotations

from dataclasses import dataclass, field

import sqlalchemy as sa

from sedml.errors import LedgerError
from sedml.privacy.conversion import zcdp_epsilon
from sedml.privacy.ledger.amounts import Budget, Charge
from sedml.privacy.ledger.database import damaged
from sedml.privacy.ledger.schema import State, cohorts, jobs

__all__ = ["Account", "Entry", "charged", "find_entry", "lock", "look_up", "read", "read_entries"]

_OPEN_STATES = (State.RESERVED.value, State.RUNNING.value)


@dataclass(frozen=True)
class Account:
    """A cohort's row."""

    id: int
    name: str
    budget: Budget
    spent: Charge
    reserved: Charge


@dataclass(frozen=True)
class Entry:
    """A job's row."""

    id: int
    name: str
    terms: bytes = field(repr=False)
    state: State
    asked: Charge
    charge: Charge


def lock(connection: sa.Connection, cohort: str) -> Account:
    """A cohort that nobody else can write to until the transaction ends."""
    connection.execute(sa.update(cohorts).where(cohorts.c.name == cohort).values(writes=cohorts.c.writes + 1))
    return read(connection, cohort)


def read(connection: sa.Connection, cohort: str) -> Account:
    """A cohort; raises if there is none."""
    account = look_up(connection, cohort)
    if account is None:
        raise LedgerError("The ledger has no cohort of that name.", "Check the name, or set its budget first.")
    return account


def look_up(connection: sa.Connection, cohort: str) -> Account | None:
    """A cohort, or None. In one statement, so that its totals and jobs are of the same moment."""
    row = connection.execute(_COHORT, {"cohort": cohort}).mappings().one_or_none()
    if row is None:
        return None
    numbers = [row[name] for name in (*_CHARGES, *_SUMS)]
    if not all(isinstance(number, int) for number in numbers):
        raise damaged("an amount is not a number")
    limit, spent, reserved = (Charge(*numbers[at : at + 2]) for at in (0, 2, 4))
    if (spent, reserved) != (Charge(*numbers[6:8]), Charge(*numbers[8:10])):
        raise damaged("the jobs of a cohort do not add up to its totals")
    promised = Budget(row["epsilon"], row["delta"], row["sampler_share"], limit)
    _check_limit(promised)
    if min(numbers) < 0 or not (spent + reserved).within(limit):
        raise damaged("more was charged to a cohort than its budget")
    return Account(row["id"], cohort, promised, spent, reserved)


def find_entry(connection: sa.Connection, account: Account, job: str) -> Entry | None:
    """A job of a cohort, or None."""
    query = sa.select(jobs).where(jobs.c.cohort == account.id, jobs.c.name == job)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else _to_entry(row)


def read_entries(connection: sa.Connection, account: Account) -> list[Entry]:
    """All jobs of a cohort, oldest first."""
    query = sa.select(jobs).where(jobs.c.cohort == account.id).order_by(jobs.c.id)
    return [_to_entry(row) for row in connection.execute(query).mappings()]


def charged(connection: sa.Connection, account: Account, spent: Charge, reserved: Charge) -> None:
    """Add to a locked cohort's totals."""
    spent, reserved = account.spent + spent, account.reserved + reserved
    connection.execute(
        sa.update(cohorts)
        .where(cohorts.c.id == account.id)
        .values(
            rho_spent=spent.rho,
            distance_spent=spent.distance,
            rho_reserved=reserved.rho,
            distance_reserved=reserved.distance,
        )
    )


def _to_entry(row: sa.RowMapping) -> Entry:
    try:
        state = State(row["state"])
    except ValueError:
        raise damaged("a job is in no known state") from None
    asked, charge = (
        Charge(row["rho_asked"], row["distance_asked"]),
        Charge(row["rho"], row["distance"]),
    )
    return Entry(row["id"], row["name"], bytes(row["terms"]), state, asked, charge)


def _check_limit(promised: Budget) -> None:
    # A limit that was right when it was set is only compared from above: another machine's logarithm may
    # differ in the last place, and a lower limit does no harm.
    try:
        epsilon = zcdp_epsilon(promised.limit.floats[0], promised.delta_zcdp)
        sound = epsilon <= promised.epsilon * (1.0 + 1e-9) + 1e-9
    except (LedgerError, ArithmeticError, TypeError, ValueError):
        sound = False
    if not sound:
        raise damaged("the limit of a cohort does not follow from its budget")


def _sum(column: sa.Column[int], *states: str) -> sa.ScalarSelect[int]:
    total = sa.cast(sa.func.coalesce(sa.func.sum(column), 0), sa.BigInteger)
    query = sa.select(total).where(jobs.c.cohort == cohorts.c.id, jobs.c.state.in_(states))
    return query.scalar_subquery()


_CHARGES = (
    "rho_limit", "distance_limit", "rho_spent", "distance_spent", "rho_reserved", "distance_reserved"
)  # fmt: skip
_SUMS = ("settled_rho", "settled_distance", "held_rho", "held_distance")

# Cancelled jobs are charged 0; whatever is in no known state is counted with them, so that it shows.
_COHORT = sa.select(
    cohorts,
    _sum(jobs.c.rho, State.SETTLED.value, State.CANCELLED.value).label("settled_rho"),
    _sum(jobs.c.distance, State.SETTLED.value, State.CANCELLED.value).label("settled_distance"),
    _sum(jobs.c.rho, *_OPEN_STATES).label("held_rho"),
    _sum(jobs.c.distance, *_OPEN_STATES).label("held_distance"),
).where(cohorts.c.name == sa.bindparam("cohort"))
