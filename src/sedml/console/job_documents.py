"""Jobs and budgets as the page shows them: in words and in epsilon."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sedml.console.replies import Document
from sedml.privacy.charging import SAMPLER_SHARE, best_order
from sedml.protocol.thresholds import threshold_count
from sedml.service.client import JobView, VoteReceipt
from sedml.service.client.budgets import CohortLine
from sedml.service.client.failures import error_from
from sedml.service.messages import JobStatus
from sedml.service.terms import Terms, charge_at, job_cost


def job_document(view: JobView) -> Document:
    """One job, as the servers that were asked see it."""
    terms, (least, most) = view.terms, view.votes
    all_votes = terms.votes * (view.teachers or max(terms.min_teachers, most))
    return terms.model_dump(exclude={"format", "deadline", "data_sha256", "nonce"}) | {
        "id": view.id,
        "class_names": terms.class_names,
        "state": view.state.value,
        "phase": view.phase,
        "over": view.over,
        "done": view.done,
        "deleted": any(status.deleted for status in view.statuses),
        "ballots": {"least": least, "most": most},
        # Of those who take part, or of those who must.
        "consensus": {"votes": threshold_count(terms.threshold, all_votes), "of": all_votes},
        "teachers": view.teachers,
        "samples_done": view.samples_done,
        "eta_seconds": view.eta_seconds,
        "waiting_for": view.waiting_for,
        "deadline": datetime.fromtimestamp(terms.deadline, UTC).isoformat(),
        "created": view.statuses[0].created_at.isoformat(),
        "servers": [_server(status) for status in view.statuses],
        "problems": {name: error.what for name, error in view.problems.items()},
    }


def cost_document(terms: Terms, known: Iterable[CohortLine]) -> Document:
    """What a vote on a job costs, alone and together with all that was spent before."""
    cost = job_cost(terms)
    figures: Document = {
        "epsilon": cost.epsilon,
        "epsilon_apart": cost.epsilon_apart,
        "promise": terms.protected.promise(cost.epsilon, cost.epsilon_organisation),
        "budget": None,
    }
    lines = [line for line in known if line.cohort == terms.cohort]
    if not lines:
        return figures
    fullest = max(lines, key=lambda line: line.used_share)
    order = best_order(fullest.epsilon, fullest.delta, SAMPLER_SHARE)
    after = fullest.used_share + charge_at(terms, order, fullest.unit).rho / fullest.rho_limit
    budget = {"promised": fullest.epsilon, "before_share": fullest.used_share, "after_share": min(1.0, after)}
    return figures | {"budget": budget}


def receipt_document(receipt: VoteReceipt) -> Document:
    """What each server has on record of a vote."""
    halves = {"s0": receipt.s0, "s1": receipt.s1}
    return {
        "job": receipt.job,
        "complete": receipt.complete,
        "parts": next((half.parts for half in halves.values() if half is not None), None),
        "received": {name: None if half is None else half.received_at.isoformat() for name, half in halves.items()},
    }


def _server(status: JobStatus) -> dict[str, Any]:
    return {
        "server": status.server,
        "state": f"{status.state}, deleted" if status.deleted else status.state.value,
        "ballots": status.votes,
        "blocks": status.blocks,
        "blocks_done": status.blocks_done,
        "seconds": status.protocol_seconds,
        "closed": None if status.closed_at is None else status.closed_at.isoformat(),
        "finished": None if status.finished_at is None else status.finished_at.isoformat(),
        "problem": None if status.problem is None else error_from(status.problem).what,
    }
