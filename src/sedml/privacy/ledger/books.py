"""Reading and writing the rows of a cohort, checking every time that the books add up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import sqlalchemy as sa

from sedml.errors import LedgerError, SedmlError
from sedml.privacy.conversion import order_epsilon
from sedml.privacy.ledger.amounts import NOTHING, RHO_BITS, Amounts, Budget, Charge, Status
from sedml.privacy.ledger.schema import State, blob, check_name, cohorts, damaged, jobs


@dataclass(frozen=True)
class Account:
    """A cohort's row."""

    id: int
    name: str
    budget: Budget
    spent: Charge
    reserved: Charge

    def status(self) -> Status:
        """For people to read."""
        promised, left = self.budget, self.budget.limit - self.spent - self.reserved
        parts = map(promised.floats, (promised.limit, self.spent, self.reserved, left))
        rhos, distances = (Amounts(*column) for column in zip(*parts, strict=True))
        return Status(self.name, promised.epsilon, promised.delta, promised.unit, promised.order, rhos, distances)


@dataclass(frozen=True)
class Reservation:
    """A job's row."""

    id: int
    job: str
    terms: bytes = field(repr=False)
    state: State
    charge: Charge
    """What it costs, unless it was cancelled."""

    @property
    def rho(self) -> float:
        """What it costs, for people to read."""
        return math.ldexp(self.charge.rho, -RHO_BITS)


# ---- Cohorts ----------------------------------------------------------------------------------------


def promise(connection: sa.Connection, cohort: str, promised: Budget) -> None:
    """Add a cohort."""
    row: dict[str, float | str] = {
        "epsilon": promised.epsilon,
        "delta": promised.delta,
        "sampler_share": promised.sampler_share,
    }
    row |= {"unit": promised.unit, "distance_bits": promised.distance_bits, "renyi_order": promised.order}
    row |= _row(promised.limit, "_limit") | _row(NOTHING, "_spent") | _row(NOTHING, "_reserved")
    connection.execute(sa.insert(cohorts).values(name=cohort, writes=0, **row))


def lock(connection: sa.Connection, cohort: str) -> Account:
    """A cohort that nobody else can write to until the transaction ends."""
    check_name("cohort", cohort)
    connection.execute(sa.update(cohorts).where(cohorts.c.name == cohort).values(writes=cohorts.c.writes + 1))
    return read(connection, cohort)


def read(connection: sa.Connection, cohort: str) -> Account:
    """A cohort; raises if there is none."""
    account = look_up(connection, cohort)
    if account is None:
        raise LedgerError(f'The ledger has no cohort "{cohort}".', "Check the name, or set its budget first.")
    return account


def look_up(connection: sa.Connection, cohort: str) -> Account | None:
    """A cohort, or None. In one statement, so that its totals and jobs are of the same moment."""
    check_name("cohort", cohort)
    row = connection.execute(_COHORT, {"cohort": cohort}).mappings().one_or_none()
    if row is None:
        return None
    limit, spent, reserved, started, held = (
        _charge(row, kind) for kind in ("_limit", "_spent", "_reserved", "_started", "_held")
    )
    if (spent, reserved) != (started, held):
        raise damaged("the jobs of a cohort do not add up to its totals")
    if not (spent + reserved).within(limit):
        raise damaged("more was charged to a cohort than its budget")
    terms = row["epsilon"], row["delta"], row["unit"], row["sampler_share"]
    promised = Budget(*terms, limit, row["distance_bits"], row["renyi_order"])
    _check_limit(promised)
    return Account(row["id"], cohort, promised, spent, reserved)


def read_all(connection: sa.Connection) -> list[Account]:
    """All cohorts."""
    names = connection.execute(sa.select(cohorts.c.name).order_by(cohorts.c.id)).scalars().all()
    return [read(connection, name) for name in names]


# ---- Jobs: the caller holds the cohort's lock -------------------------------------------------------


def add(connection: sa.Connection, account: Account, job: str, terms: bytes, cost: Charge) -> Reservation:
    """Add a job, reserved."""
    row = {"name": job, "terms": terms, "state": State.RESERVED.value, **_row(cost)}
    _charge_more(connection, account, NOTHING, cost)
    added = connection.execute(sa.insert(jobs).values(cohort=account.id, **row)).inserted_primary_key
    return Reservation(added[0] if added else 0, job, terms, State.RESERVED, cost)


def move(connection: sa.Connection, account: Account, entry: Reservation, state: State) -> None:
    """Move a job that is reserved to another state."""
    _charge_more(connection, account, entry.charge if state is State.STARTED else NOTHING, NOTHING - entry.charge)
    connection.execute(sa.update(jobs).where(jobs.c.id == entry.id).values(state=state.value))


def find_entry(connection: sa.Connection, account: Account, job: str) -> Reservation | None:
    """A job of a cohort, or None."""
    check_name("job", job)
    row = connection.execute(_ENTRY, {"cohort": account.id, "job": job}).mappings().one_or_none()
    return None if row is None else _to_entry(row)


def get_entry(connection: sa.Connection, account: Account, job: str) -> Reservation:
    """A job of a cohort; raises if there is none."""
    entry = find_entry(connection, account, job)
    if entry is None:
        raise LedgerError(f'Cohort "{account.name}" has no job "{job}".', "Check the name, or reserve the job first.")
    return entry


def read_entries(connection: sa.Connection, account: Account) -> list[Reservation]:
    """All jobs of a cohort, oldest first."""
    query = sa.select(jobs).where(jobs.c.cohort == account.id).order_by(jobs.c.id)
    return [_to_entry(row) for row in connection.execute(query).mappings()]


# ---- Rows -------------------------------------------------------------------------------------------


def _charge_more(connection: sa.Connection, account: Account, spent: Charge, reserved: Charge) -> None:
    totals = _row(account.spent + spent, "_spent") | _row(account.reserved + reserved, "_reserved")
    connection.execute(sa.update(cohorts).where(cohorts.c.id == account.id).values(**totals))


def _row(cost: Charge, kind: str = "") -> dict[str, float]:
    return {f"rho{kind}": cost.rho, f"distance{kind}": cost.distance}


def _to_entry(row: sa.RowMapping) -> Reservation:
    try:
        state = State(row["state"])
    except ValueError:
        raise damaged("a job is in an unknown state") from None
    return Reservation(row["id"], row["name"], blob(row["terms"]), state, _charge(row))


def _charge(row: sa.RowMapping, kind: str = "") -> Charge:
    rho, distance = row[f"rho{kind}"], row[f"distance{kind}"]
    # SQLite hands out whatever a damaged row says.
    if not all(isinstance(amount, int) and amount >= 0 for amount in (rho, distance)):
        raise damaged("an amount is negative or not a whole number")
    return Charge(rho, distance)


def _check_limit(promised: Budget) -> None:
    # Only from above, and with some room: another machine's logarithm may differ in the last place, and a
    # limit that is too low does no harm.
    try:
        rho, distance = promised.floats(promised.limit)
        epsilon = order_epsilon(promised.order, promised.order * rho, promised.delta_mechanism)
        part = promised.delta * promised.sampler_share * math.exp(-promised.epsilon)
        sound = promised.order > 1.0 and epsilon <= promised.epsilon + 1e-9 and distance <= part * (1.0 + 1e-9)
    except (SedmlError, ArithmeticError, TypeError, ValueError):
        sound = False
    if not sound:
        raise damaged("the limit of a cohort does not follow from its budget")


def _sums(kind: str, state: State) -> Iterator[sa.Label[int]]:
    """What the jobs of a cohort in this state add up to."""
    for column in ("rho", "distance"):
        total = sa.cast(sa.func.coalesce(sa.func.sum(jobs.c[column]), 0), sa.BigInteger)
        mine = sa.select(total).where(jobs.c.cohort == cohorts.c.id)
        yield mine.where(jobs.c.state == state.value).scalar_subquery().label(column + kind)


_ENTRY = sa.select(jobs).where(jobs.c.cohort == sa.bindparam("cohort"), jobs.c.name == sa.bindparam("job"))
_COHORT = sa.select(cohorts, *_sums("_started", State.STARTED), *_sums("_held", State.RESERVED)).where(
    cohorts.c.name == sa.bindparam("cohort")
)
