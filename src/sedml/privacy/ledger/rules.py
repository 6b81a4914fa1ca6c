"""What the ledger refuses, and what to do about it. Nothing here reads or writes the database."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sedml.errors import BudgetExceededError, LedgerError, PrivacyError
from sedml.privacy.ledger.amounts import Charge
from sedml.privacy.ledger.books import Account, Reservation
from sedml.privacy.ledger.schema import MOVES, State

__all__ = ["check_has_labels", "check_move", "check_same", "what_fits"]

_ADVICE = {
    State.RESERVED: "Start it before anything is opened, or cancel it.",
    State.RUNNING: "Settle it: what was opened cannot be taken back. Reserve a new job for more samples.",
    State.SETTLED: "Its charge stands. Reserve a new job for more samples.",
    State.CANCELLED: "Reserve a new job under another name.",
}
_DONE = {State.RUNNING: "started", State.SETTLED: "settled", State.CANCELLED: "cancelled"}


def check_same(entry: Reservation, asked: Collection[Charge], terms: bytes) -> None:
    """Raise unless a job that exists is reserved again with the terms it has, for one of these charges."""
    if entry.asked not in asked or entry.terms != terms:
        raise LedgerError(
            f'Job "{entry.job}" was already reserved, with other terms.',
            "Use the same terms to continue it, or another name for another job.",
        )
    if entry.state is State.CANCELLED:
        # Taking it back would let whoever still holds the cancelled reservation start it.
        raise LedgerError(f'Job "{entry.job}" was cancelled.', _ADVICE[entry.state])


def what_fits(account: Account, job: str, asked: Sequence[Charge]) -> list[Charge]:
    """The filter itself: those of these charges that do not overdraw the budget; raises if all would."""
    promised = account.budget
    left = promised.limit - account.spent - account.reserved
    fitting = [charge for charge in asked if charge.within(left)]
    if fitting:
        return fitting
    least = asked[-1]
    promise = f"epsilon {promised.epsilon:g} at delta {promised.delta:g}"
    if least.rho > left.rho:
        asks, rest = (f"{100.0 * promised.share(rho):.4g} %" for rho in (least.rho, left.rho))
        what = f'may use {asks} of what cohort "{account.name}" was promised ({promise}), and {rest} is left'
        do = "Ask for fewer samples, use more noise, or wait for running jobs to settle."
    else:
        (_, distance), (_, distance_left) = map(promised.floats, (least, left))
        what = (
            f'needs samplers that are off by {distance:.3g} in all, and cohort "{account.name}" ({promise}) has '
            f"{distance_left:.3g} left for that"
        )
        do = "Ask for fewer samples. A budget of a smaller epsilon has more room."
    raise BudgetExceededError(f'Job "{job}" {what}.', f"{do} Nothing was charged.")


def check_move(entry: Reservation, state: State, cost: Charge) -> None:
    """Raise unless the job may go to that state and be charged so much there."""
    if entry.state is not MOVES[state]:
        raise LedgerError(
            f'Job "{entry.job}" is {entry.state.value} and cannot be {_DONE[state]} now.', _ADVICE[entry.state]
        )
    if not cost.within(entry.asked):
        raise PrivacyError(
            f'Job "{entry.job}" was reported to have spent more than it reserved.',
            "It stays charged what it reserved. Find out how it could open more than it was allowed to.",
        )


def check_has_labels(entry: Reservation) -> None:
    """Raise if the job was never started: labels would not be paid for."""
    if entry.state not in (State.RUNNING, State.SETTLED):
        raise LedgerError(f'Job "{entry.job}" is {entry.state.value} and cannot have labels.', _ADVICE[entry.state])
