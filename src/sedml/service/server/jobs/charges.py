"""What jobs cost the teachers, on this server's own ledger.

A job is reserved at its worst case, with whom it counts, when the roster is agreed, started before its first bit is
opened, and settled to the number of samples answered, which both servers see. Each call can be repeated after a crash:
the ledger knows a job by its id, and charges it once. What a job costs is computed before any transaction: it may take
seconds.
"""

from __future__ import annotations

from collections.abc import Collection

from sedml.errors import BudgetExceededError, InputError, PrivacyError, ReplayError
from sedml.privacy.ledger import State, TeacherAccount
from sedml.service.messages import CohortStatus, OwnBudget, OwnLimit
from sedml.service.server import audit_log
from sedml.service.server.access import Caller, confirm, require
from sedml.service.server.node import Node
from sedml.service.terms import Terms, charges_at

__all__ = [
    "cancel",
    "check_affordable",
    "check_unstarted",
    "cohort_status",
    "listed",
    "own_budget",
    "refusals",
    "reserve",
    "set_limit",
    "settle",
    "start",
    "uncountable",
]


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
        rho_limit=status.rho.budget,
        rho_spent=status.rho.spent,
        rho_reserved=status.rho.reserved,
    )


def listed(node: Node, caller: Caller) -> list[CohortStatus]:
    """All cohorts. To a teacher every job stays reserved: what it was settled to tells how many answers there were."""
    shown = _at_worst if caller.role == "teacher" else cohort_status
    return [shown(node, cohort) for cohort in node.settings.budgets]


def _at_worst(node: Node, cohort: str) -> CohortStatus:
    status = cohort_status(node, cohort)
    reserved = sum(entry.rho for entry in node.ledger.jobs(cohort) if entry.state is not State.CANCELLED)
    # What settled jobs gave back was reserved again, so the sum may be more than there ever was.
    return status.model_copy(update={"rho_spent": 0.0, "rho_reserved": min(reserved, status.rho_limit)})


def own_budget(node: Node, caller: Caller) -> OwnBudget:
    """What a teacher's votes may cost it and have cost it at the worst; its cohort, if it has one already."""
    require(caller, "teacher")
    return _own(node, node.ledger.teacher(caller.name))


def set_limit(node: Node, caller: Caller, wanted: OwnLimit) -> OwnBudget:
    """Count the teacher in no job from now on that could take its account past this limit."""
    require(caller, "teacher")
    with node.store.write() as connection:
        confirm(connection, caller)
        account = node.ledger.set_limit(caller.name, wanted.limit)
        outcome = "none" if wanted.limit is None else f"epsilon {wanted.limit:g}"
        audit_log.write(connection, node, caller.name, "limit", caller.name, outcome)
    return _own(node, account)


def _own(node: Node, account: TeacherAccount) -> OwnBudget:
    promised = None if account.cohort is None else node.ledger.status(account.cohort)
    return OwnBudget(
        cohort=account.cohort,
        epsilon=None if promised is None else promised.epsilon,
        delta=None if promised is None else promised.delta,
        used=account.used,
        used_epsilon=account.epsilon,
        limit=account.limit,
    )


def check_affordable(node: Node, terms: Terms) -> None:
    """Raise if the job could not be paid for as things stand: better said before teachers vote than after."""
    cohort_status(node, terms.cohort)
    left = node.ledger.status(terms.cohort)
    cost = charges_at(terms, left.order)
    promise = f'what cohort "{terms.cohort}" was promised here (epsilon {left.epsilon:g} at delta {left.delta:g})'
    if cost.joint_rho > left.rho.left:
        shares = [f"{100.0 * rho / left.rho.budget:.4g} %" for rho in (cost.joint_rho, left.rho.left)]
        raise BudgetExceededError(
            f"The job could use {shares[0]} of {promise}, and {shares[1]} is left.",
            "Use more noise or fewer samples, or wait for running jobs to end. Nothing was opened.",
        )
    if cost.distance > left.distance.left:
        raise BudgetExceededError(
            f"The samplers' distance from exact noise, {cost.distance:.3g}, is more than is left of {promise}.",
            "Use fewer samples. Nothing was opened.",
        )


def refusals(node: Node, job: str, terms: Terms, teachers: Collection[str]) -> dict[str, PrivacyError]:
    """Which of these teachers the job must not count, by this server's ledger, and why."""
    return node.ledger.refusals(terms.cohort, job, _least_rho(node, terms), teachers)


def _least_rho(node: Node, terms: Terms) -> float:
    """The smaller of the two amounts that may be reserved: nobody is left out who need not be."""
    return charges_at(terms, node.ledger.status(terms.cohort).order).joint_rho


def uncountable(node: Node, job: str, terms: Terms, teachers: Collection[str]) -> dict[str, PrivacyError]:
    """Which of these teachers' votes could not be counted as things stand, and why."""
    if terms.cohort not in node.settings.budgets:  # the operator has taken it out since
        return {}
    # What the job costs is asked only for those who have a limit: it takes a moment, and many vote at once.
    rho = _least_rho(node, terms) if node.ledger.limited(teachers) else 0.0
    return node.ledger.refusals(terms.cohort, job, rho, teachers)


def reserve(node: Node, job: str, terms: Terms, teachers: Collection[str]) -> None:
    """Charge the worst case of a job that has not begun, and put on record whom it counts.

    Raises `BudgetExceededError` if the job does not fit.
    """
    if any(entry.job == job for entry in node.ledger.jobs(terms.cohort)):
        # With what it has reserved, also where that was by an earlier release.
        entry = node.ledger.seat(terms.cohort, job, teachers)
    else:
        cost = charges_at(terms, node.ledger.status(terms.cohort).order)
        entry = node.ledger.reserve(
            terms.cohort,
            job,
            cost.rho,
            cost.distance,
            otherwise=cost.joint_rho,
            terms=bytes.fromhex(job),
            teachers=teachers,
        )
    _check(entry.state, State.RESERVED)


def check_unstarted(node: Node, job: str, terms: Terms) -> None:
    """Raise if the ledger knows more of a job than a store in which it has not begun."""
    _check(node.ledger.job(terms.cohort, job).state, State.RESERVED)


def start(node: Node, job: str, terms: Terms) -> None:
    """From here on bits may be opened. Repeated after a crash, it goes on: the noise is that of the first time."""
    state = node.ledger.job(terms.cohort, job).state
    _check(state, State.RESERVED, State.RUNNING)
    if state is State.RESERVED:
        node.ledger.start(terms.cohort, job)


def _check(state: State, *expected: State) -> None:
    if state not in expected:
        raise ReplayError(
            f"The ledger says that the job is {state.value}, but the store does not know that it ever began.",
            "The store was restored to an older state. Create a new job.",
        )


def settle(node: Node, job: str, terms: Terms, answered: int) -> None:
    """Charge what was answered."""
    cost = charges_at(terms, node.ledger.status(terms.cohort).order)
    reserved = node.ledger.job(terms.cohort, job).rho
    node.ledger.settle(terms.cohort, job, cost.settled(reserved, answered))


def cancel(node: Node, job: str, terms: Terms) -> None:
    """Give back what was reserved, if anything was; a job that was started stays charged."""
    if any(entry.job == job for entry in node.ledger.jobs(terms.cohort, State.RESERVED)):
        node.ledger.cancel(terms.cohort, job)
