"""What a teacher's votes may cost it, and have cost it, by its own account in `votes/` of its kit.

The terms of every job that the teacher votes on are written down before the first server gets its half, so a vote that
breaks off is on the account already. Costs are computed here from the terms, of which the job's id is the hash: no
server's word is taken for them. A job counts whatever became of it.

All jobs together are charged at one Rényi order, a function of the teacher's limits alone, as a server's ledger does it
(`sedml.privacy.ledger`). One job alone is bounded at its own best order too. That is sound: either it stays the only
one, or all of them keep the limit at the one order.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sedml.errors import InputError, KitError, PrivacyError
from sedml.privacy.accounting import job_epsilon
from sedml.privacy.charging import best_order
from sedml.privacy.conversion import check_delta, epsilon_with_sampler, order_epsilon
from sedml.privacy.unit import ORGANISATION, Unit
from sedml.service.client.arguments import number
from sedml.service.kits import ClientKit
from sedml.service.kits.folder import inner_folder, locked, read_bytes, replace_private
from sedml.service.terms import Terms, charge_at

_LARGEST_ORDERED = 20.0
"""A larger limit has the order of this one: at its own, next to nothing would count as an epsilon beyond all sense."""


@dataclass(frozen=True)
class Limits:
    """What a teacher's votes may cost at most, in epsilon at a delta of the teacher's own."""

    job: float
    """Any one job."""
    total: float
    """All jobs that were voted on with this kit, together."""
    delta: float
    unit: str = ORGANISATION
    """Whom the limits are for; a job that does not protect them costs them what it costs the organisation."""


def as_limits(max_epsilon: object, max_total_epsilon: object, delta: object, unit: str = ORGANISATION) -> Limits:
    """The limits from what a caller passed; without a total, all jobs together may cost what one may."""
    job = number("max_epsilon", max_epsilon)
    total = job if max_total_epsilon is None else number("max_total_epsilon", max_total_epsilon)
    for name, value in (("max_epsilon", job), ("max_total_epsilon", total)):
        if value <= 0:
            raise InputError(f"{name} is {value:g}, and no job costs so little.", "Pass a number above 0.")
    found = Limits(job, total, number("delta", delta), Unit(unit).name)
    check_delta(found.delta)
    return found


def epsilon_of(jobs: list[Terms], limits: Limits) -> float:
    """What these jobs cost a unit of a teacher together."""
    if not jobs:
        return 0.0
    order = best_order(min(limits.total, _LARGEST_ORDERED), limits.delta)
    charges = [charge_at(terms, order, limits.unit) for terms in jobs]
    divergence = math.fsum(order * one.rho for one in charges)
    inexact = min(1.0, math.fsum(one.distance for one in charges))
    together = epsilon_with_sampler(lambda part: order_epsilon(order, divergence, part), limits.delta, 1, inexact)
    if len(jobs) > 1:
        return together
    alone = jobs[0]
    moves = alone.protected.moves_of(limits.unit)
    return min(together, job_epsilon(alone.samples, alone.sigma, limits.delta, classes=alone.classes, moves=moves))


def spent(kit: ClientKit, limits: Limits) -> float:
    """What all votes with this kit cost together."""
    return epsilon_of(list(_noted(kit).values()), limits)


def why_too_much(kit: ClientKit, limits: Limits, terms: Terms) -> str | None:
    """Why a vote on this job would pass a limit; None if it would not."""
    alone = epsilon_of([terms], limits)
    if not alone <= limits.job:
        what = f"It costs each {limits.unit} epsilon {alone:.4g} at delta {limits.delta:g}"
        return f"{what}, and one job may cost {limits.job:g}."
    together = epsilon_of(list((_noted(kit) | {terms.id: terms}).values()), limits)
    if not together <= limits.total:
        what = f"With it, your votes cost each {limits.unit} epsilon {together:.4g} together at delta {limits.delta:g}"
        return f"{what}, and {limits.total:g} is the limit."
    return None


def note(kit: ClientKit, terms: Terms) -> None:
    """Put a job on the account; once more changes nothing."""
    path = _folder(kit) / f"{terms.id}.json"
    if not path.exists():
        replace_private(path, terms.model_dump_json(indent=1))


def reserve(kit: ClientKit, limits: Limits, terms: Terms) -> None:
    """Put a job on the account if its cost is within the limits, or raise; one process after the other."""
    with locked(_folder(kit)):
        reason = why_too_much(kit, limits, terms)
        if reason is not None:
            raise PrivacyError(reason, "Nothing was sent. Allow more if that is acceptable to you.")
        note(kit, terms)


def voted_on(kit: ClientKit) -> list[str]:
    """The ids of the jobs on the account."""
    return [path.stem for path in _folder(kit).glob("*.json")]


def _folder(kit: ClientKit) -> Path:
    return inner_folder(kit.folder, "votes")


def _noted(kit: ClientKit) -> dict[str, Terms]:
    found = {}
    for path in sorted(_folder(kit).glob("*.json")):
        content = read_bytes(path)
        try:
            terms = Terms.model_validate_json(content)
        except ValidationError:
            if re.search(rb'"format":\s*[123]\b', content):
                raise KitError(
                    f"{path} is of an older release, which counted otherwise.",
                    "Move that folder away, and allow less from now on, by what your votes have cost so far.",
                ) from None
            terms = None
        # Without one of its lines the account would be too low.
        if terms is None or terms.id != path.stem:
            raise KitError(f"{path} is damaged.", "Restore it from your copy of the kit.")
        found[terms.id] = terms
    return found
