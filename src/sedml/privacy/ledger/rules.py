"""What the ledger refuses, and what to do about it. Nothing here reads or writes the database."""

from __future__ import annotations

from sedml.errors import BudgetExceededError, LedgerError, PrivacyError
from sedml.privacy.ledger.amounts import Charge
from sedml.privacy.ledger.books import Account, Entry
from sedml.privacy.ledger.schema import MOVES, State

__all__ = ["check_fits", "check_has_labels", "check_move", "check_same"]

_ADVICE = {
    State.RESERVED: "Start it before anything is opened, or cancel it.",
    State.RUNNING: "Settle it: what was opened cannot be taken back. Reserve a new job for more samples.",
    State.SETTLED: "Its charge stands. Reserve a new job for more samples.",
    State.CANCELLED: "Reserve a new job under another name.",
}
_DONE = {State.RUNNING: "started", State.SETTLED: "settled", State.CANCELLED: "cancelled"}


def check_same(entry: Entry, asked: Charge, terms: bytes) -> None:
    """Raise unless a job that exists is reserved again with the terms it has."""
    if entry.asked != asked or entry.terms != terms:
        raise LedgerError(
            f'Job "{entry.name}" was already reserved, with other terms.',
            "Use the same terms to continue it, or another name for another job.",
        )
    if entry.state is State.CANCELLED:
        # Taking it back would let whoever still holds the cancelled reservation start it.
        raise LedgerError(f'Job "{entry.name}" was cancelled.', _ADVICE[entry.state])


def check_fits(account: Account, job: str, asked: Charge) -> None:
    """The filter itself: raise if the budget would be overdrawn."""
    left = account.budget.limit - account.spent - account.reserved
    if asked.within(left):
        return
    (rho, distance), (rho_left, distance_left) = map(account.budget.floats, (asked, left))
    if asked.rho > left.rho:
        what = f"a rho of {rho:.6g}; {rho_left:.6g} is left"
        do = "Ask for fewer samples, use more noise, or wait for running jobs to settle."
    else:
        what = f"a sampler distance of {distance:.3g}; {distance_left:.3g} is left"
        do = "Ask for fewer samples. A budget of a smaller epsilon, or with more delta set aside, has more room."
    raise BudgetExceededError(f'Job "{job}" may cost cohort "{account.name}" {what}.', f"{do} Nothing was charged.")


def check_move(entry: Entry, state: State, cost: Charge) -> None:
    """Raise unless the job may go to that state and be charged so much there."""
    if entry.state is not MOVES[state]:
        raise LedgerError(
            f'Job "{entry.name}" is {entry.state.value} and cannot be {_DONE[state]} now.', _ADVICE[entry.state]
        )
    if not cost.within(entry.asked):
        raise PrivacyError(
            f'Job "{entry.name}" was reported to have spent more than it reserved.',
            "It stays charged what it reserved. Find out how it could open more than it was allowed to.",
        )


def check_has_labels(entry: Entry) -> None:
    """Raise if the job was never started: labels would not be paid for."""
    if entry.state not in (State.RUNNING, State.SETTLED):
        raise LedgerError(f'Job "{entry.name}" is {entry.state.value} and cannot have labels.', _ADVICE[entry.state])
