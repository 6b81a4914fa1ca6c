"""What jobs cost the teachers, on this server's own ledger, which knows a teacher by the organisation that it is.

A job is reserved, with whom it counts, when the roster is agreed, and spent for good when it starts, before its first
bit is opened. Each call can be repeated after a crash: the ledger knows a job by its id, and charges it once. What a
job costs follows from its terms alone. It is computed before any transaction: it may take seconds.
"""

from __future__ import annotations

from collections.abc import Collection

from sedml.errors import BudgetExceededError, InputError, PrivacyError, ReplayError
from sedml.privacy.charging import JobCharge
from sedml.privacy.ledger import State, TeacherAccount
from sedml.privacy.ledger.rules import check_unit
from sedml.service.messages import CohortStatus, OwnBudget, OwnLimit
from sedml.service.server import public_log
from sedml.service.server.access import Caller, confirm, require
from sedml.service.server.node import Node
from sedml.service.terms import Terms, charge_at


def cohort_status(node: Node, cohort: str) -> CohortStatus:
    """A cohort's budget."""
    if cohort not in node.settings.budgets:
        raise InputError(
            f'This server has no budget for a cohort "{cohort}".',
            "Use a cohort that both operators have a budget for, or ask them to add it to server.toml.",
        )
    status = node.ledger.status(cohort)
    return CohortStatus(
        cohort=cohort,
        epsilon=node.settings.budgets[cohort].epsilon,
        delta=status.delta,
        unit=status.unit,
        rho_limit=status.rho.budget,
        rho_spent=status.rho.spent,
        rho_reserved=status.rho.reserved,
    )


def listed(node: Node) -> list[CohortStatus]:
    """All cohorts."""
    return [cohort_status(node, cohort) for cohort in node.settings.budgets]


def own_budget(node: Node, caller: Caller) -> OwnBudget:
    """What a teacher's votes have cost it, and may; its cohort, if it has one already."""
    require(caller, "teacher")
    return _own(node, node.ledger.teacher(caller.organisation))


def set_limit(node: Node, caller: Caller, wanted: OwnLimit) -> OwnBudget:
    """Count the teacher in no job from now on that could take its account past this limit."""
    require(caller, "teacher")
    with node.store.write() as connection:
        confirm(connection, caller)
        before = node.ledger.teacher(caller.organisation).limit
        account = node.ledger.set_limit(caller.organisation, wanted.limit)
        if account.limit != before:
            outcome = "none" if wanted.limit is None else f"epsilon {wanted.limit:g}"
            public_log.write(connection, node, caller.name, "limit", caller.name, outcome)
    return _own(node, account)


def _own(node: Node, account: TeacherAccount) -> OwnBudget:
    promised = None if account.cohort is None else node.ledger.status(account.cohort)
    return OwnBudget(
        cohort=account.cohort,
        epsilon=None if promised is None else promised.epsilon,
        delta=None if promised is None else promised.delta,
        unit=None if promised is None else promised.unit,
        used=account.used,
        used_epsilon=account.epsilon,
        limit=account.limit,
    )


def check_affordable(node: Node, terms: Terms) -> None:
    """Raise if the job could not be paid for as things stand: better said before teachers vote than after."""
    cohort_status(node, terms.cohort)
    left = node.ledger.status(terms.cohort)
    check_unit(terms.cohort, left.unit, terms.unit)
    cost = charge_at(terms, left.order)
    promise = f'what cohort "{terms.cohort}" was promised here (epsilon {left.epsilon:g} at delta {left.delta:g})'
    if cost.rho > left.rho.left:
        shares = [f"{100.0 * rho / left.rho.budget:.4g}%" for rho in (cost.rho, left.rho.left)]
        raise BudgetExceededError(
            f"The job costs {shares[0]} of {promise}, and {shares[1]} is left.",
            "Use more noise or fewer samples. Nothing was opened.",
        )
    if cost.distance > left.distance.left:
        raise BudgetExceededError(
            f"The samplers' distance from exact noise, {cost.distance:.3g}, is more than is left of {promise}.",
            "Use fewer samples. Nothing was opened.",
        )


def refusals(node: Node, job: str, terms: Terms, teachers: Collection[str]) -> dict[str, PrivacyError]:
    """Which of these teachers the job must not count, by this server's ledger, and why."""
    return node.ledger.refusals(terms.cohort, job, _charge(node, terms).rho, teachers)


def _charge(node: Node, terms: Terms) -> JobCharge:
    return charge_at(terms, node.ledger.status(terms.cohort).order)


def uncountable(node: Node, job: str, terms: Terms, teachers: Collection[str]) -> dict[str, PrivacyError]:
    """Which of these teachers' votes could not be counted as things stand, and why."""
    if terms.cohort not in node.settings.budgets:  # the operator has taken it out since
        return {}
    # What the job costs is asked only for those who have a limit: it takes a moment, and many vote at once.
    rho = _charge(node, terms).rho if node.ledger.limited(teachers) else 0.0
    return node.ledger.refusals(terms.cohort, job, rho, teachers)


def reserve(node: Node, job: str, terms: Terms, teachers: Collection[str]) -> None:
    """Charge a job that has not begun, and put on record whom it counts.

    Raises `BudgetExceededError` if the job does not fit.
    """
    if any(entry.job == job for entry in node.ledger.jobs(terms.cohort)):
        entry = node.ledger.seat(terms.cohort, job, teachers)
    else:
        cost = _charge(node, terms)
        entry = node.ledger.reserve(
            terms.cohort,
            job,
            cost.rho,
            cost.distance,
            unit=terms.unit,
            terms=bytes.fromhex(job),
            teachers=teachers,
        )
    _check(entry.state, State.RESERVED)


def check_unstarted(node: Node, job: str, terms: Terms) -> None:
    """Raise if the ledger knows more of a job than a store in which it has not begun."""
    _check(node.ledger.job(terms.cohort, job).state, State.RESERVED)


def start(node: Node, job: str, terms: Terms) -> None:
    """Spend it: from here on bits may be opened. Repeated after a crash, it goes on."""
    state = node.ledger.job(terms.cohort, job).state
    _check(state, State.RESERVED, State.STARTED)
    if state is State.RESERVED:
        node.ledger.start(terms.cohort, job)


def entry_of(node: Node, job: str, terms: Terms) -> dict[str, object]:
    """What everybody may know of the charge for a job that is about to start."""
    rho = node.ledger.job(terms.cohort, job).rho
    cost = {"unit": terms.unit, "epsilon": terms.epsilon, "delta": terms.delta, "rho": rho}
    return {"kind": "charge", "job": job, "cohort": terms.cohort, **cost}


def _check(state: State, *expected: State) -> None:
    if state not in expected:
        raise ReplayError(
            f"The ledger says that the job is {state.value}, but the store does not know that it ever began.",
            "The store was restored to an older state. Create a new job.",
        )


def cancel(node: Node, job: str, terms: Terms) -> None:
    """Give back what was reserved, if anything was; a job that was started stays charged."""
    if any(entry.job == job for entry in node.ledger.jobs(terms.cohort, State.RESERVED)):
        node.ledger.cancel(terms.cohort, job)
