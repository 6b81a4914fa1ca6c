"""What jobs cost the teachers, on this server's own ledger.

A job is reserved at its worst case when the roster is agreed, started before its first bit is opened, and settled to
the number of samples answered, which both servers see. Each call can be repeated after a crash: the ledger knows a job
by its id, and charges it once.
"""

from __future__ import annotations

from sedml.errors import BudgetExceededError, InputError, ReplayError
from sedml.privacy.ledger import State
from sedml.service.messages import CohortStatus
from sedml.service.server.access import Caller
from sedml.service.server.node import Node
from sedml.service.terms import Terms, job_cost

__all__ = ["cancel", "check_affordable", "check_unstarted", "cohort_status", "listed", "reserve", "settle", "start"]


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


def check_affordable(node: Node, terms: Terms) -> None:
    """Raise if the job could not be paid for as things stand: better said before teachers vote than after."""
    cohort_status(node, terms.cohort)
    left, worst = node.ledger.status(terms.cohort), job_cost(terms)
    for what, asked, amount in (
        ("rho", worst.requester.rho, left.rho.left),
        ("sampler distance", worst.draws * worst.sampler_distance, left.distance.left),
    ):
        if asked > amount:
            raise BudgetExceededError(
                f'This could cost the cohort "{terms.cohort}" a {what} of {asked:.4g}; only {amount:.4g} is left here.',
                "Use more noise or fewer samples. Nothing was opened.",
            )


def reserve(node: Node, job: str, terms: Terms) -> None:
    """Charge the worst case of a job that has not begun; raises `BudgetExceededError` if that does not fit."""
    worst = job_cost(terms)
    distance = worst.draws * worst.sampler_distance
    entry = node.ledger.reserve(terms.cohort, job, worst.requester.rho, distance, terms=bytes.fromhex(job))
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
    node.ledger.settle(terms.cohort, job, job_cost(terms, answered).requester.rho)


def cancel(node: Node, job: str, terms: Terms) -> None:
    """Give back what was reserved, if anything was; a job that was started stays charged."""
    if any(entry.job == job for entry in node.ledger.jobs(terms.cohort, State.RESERVED)):
        node.ledger.cancel(terms.cohort, job)
