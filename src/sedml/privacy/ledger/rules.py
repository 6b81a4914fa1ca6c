"""What the ledger refuses, and what to do about it. Nothing here reads or writes the database."""

from __future__ import annotations

from sedml.errors import BudgetExceededError, LedgerError, PrivacyError
from sedml.privacy.ledger.amounts import Charge
from sedml.privacy.ledger.books import Account, Reservation
from sedml.privacy.ledger.schema import State

_ADVICE = {
    State.RESERVED: "Start it before anything is opened, or cancel it.",
    State.STARTED: "Its charge stands. Reserve a new job for more samples.",
    State.CANCELLED: "Reserve a new job under another name.",
}


def check_unit(cohort: str, promised: str, unit: str) -> None:
    """Raise unless a job protects whom the cohort's budget protects: what it costs others is not on these books."""
    if unit != promised:
        raise PrivacyError(
            f'The job protects each {unit}, and the budget of cohort "{cohort}" each {promised}.',
            f"Create it with {promised} as its unit, or for a cohort whose budget protects each {unit}.",
        )


def check_same(entry: Reservation, cost: Charge, terms: bytes) -> None:
    """Raise unless a job that exists is reserved again with the terms it has."""
    if entry.charge != cost or entry.terms != terms:
        raise LedgerError(
            f'Job "{entry.job}" was already reserved, with other terms.',
            "Use the same terms to continue it, or another name for another job.",
        )
    if entry.state is State.CANCELLED:
        # Taking it back would let whoever still holds the cancelled reservation start it.
        raise LedgerError(f'Job "{entry.job}" was cancelled.', _ADVICE[entry.state])


def check_fits(account: Account, job: str, cost: Charge) -> None:
    """The filter itself: raise if this charge would overdraw the budget."""
    promised = account.budget
    left = promised.limit - account.spent - account.reserved
    if cost.within(left):
        return
    promise = f"epsilon {promised.epsilon:g} at delta {promised.delta:g}"
    if cost.rho > left.rho:
        asks, rest = (f"{100.0 * promised.share(rho):.4g}%" for rho in (cost.rho, left.rho))
        what = f'costs {asks} of what cohort "{account.name}" was promised ({promise}), and {rest} is left'
        do = "Ask for fewer samples, use more noise, or cancel jobs that were not started."
    else:
        (_, distance), (_, distance_left) = map(promised.floats, (cost, left))
        what = (
            f'needs samplers that are off by {distance:.3g} in all, and cohort "{account.name}" ({promise}) has '
            f"{distance_left:.3g} left for that"
        )
        do = "Ask for fewer samples. A budget of a smaller epsilon has more room."
    raise BudgetExceededError(f'Job "{job}" {what}.', f"{do} Nothing was charged.")


def check_reserved(entry: Reservation, state: State) -> None:
    """Raise unless the job may be moved to that state: only what is reserved moves, and once."""
    if entry.state is not State.RESERVED:
        raise LedgerError(
            f'Job "{entry.job}" is {entry.state.value} and cannot be {state.value} now.', _ADVICE[entry.state]
        )


def check_has_labels(entry: Reservation) -> None:
    """Raise if the job was never started: labels would not be paid for."""
    if entry.state is not State.STARTED:
        raise LedgerError(f'Job "{entry.job}" is {entry.state.value} and cannot have labels.', _ADVICE[entry.state])
