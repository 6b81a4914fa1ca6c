"""What `sedml privacy` tells people: a job's cost, what an audit found, and a plan with its costs and alternatives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from sedml.lab.audit import AuditReport, Mechanism
from sedml.lab.report import figure, table
from sedml.privacy.accounting import PrivacyReport
from sedml.privacy.planning import Plan
from sedml.privacy.utility import Utility

__all__ = [
    "advice",
    "asked_table",
    "audit_table",
    "claim",
    "cost_table",
    "plan_document",
    "terms_table",
]

_SEEN = {"collusion": "requester and one server", "requester": "requester alone"}


def cost_table(spent: PrivacyReport) -> Table:
    """What a job costs: the claim, and what to compare it with."""
    order = f"at Rényi order {figure(spent.order)}" if math.isfinite(spent.order) else ""
    sampler = f"{spent.delta_sampler:.1e} of delta" if math.isfinite(spent.delta_sampler) else "more than delta"
    rows = [
        ("the claim: the requester and one operator together, who does anything", figure(spent.epsilon), order),
        ("if neither operator works with the requester", figure(spent.epsilon_apart), ""),
        ("the claim, if all noisy counts came out (zCDP)", figure(spent.epsilon_zcdp), ""),
        ("for noise that is not drawn exactly", "", sampler),
    ]
    return table(
        f"{spent.samples:,} samples, sigma {spent.sigma:g}, delta {spent.delta:g}", [""], ("epsilon", ""), rows
    )


def claim(spent: PrivacyReport) -> str:
    """Which figure of a job may be claimed, in words."""
    return (
        f"The claim is epsilon {figure(spent.epsilon)} at delta {spent.delta:g}: if one operator runs the published "
        "code, the other operator doing anything at all, the requester and any other teachers together learn no more "
        "about one teacher's votes. A server alone learns nothing."
    )


def audit_table(reports: Sequence[AuditReport], job: Mechanism) -> Table:
    """What an audit found for each view of a job, next to what is claimed."""
    planted = f", planted fault: {job.fault}" if job.fault else ""
    rows = []
    for report in reports:
        verdict = Text("stands") if report.passed else Text("DISPROVED", style="bold red")
        share = f"{report.reached:.0%}" if math.isfinite(report.claim) and report.claim > 0.0 else ""
        figures = f"{report.runs:,}", figure(report.claim), figure(report.epsilon_lower), share
        rows.append((_SEEN[report.view], *figures, verdict))
    return table(
        f"Audit: {job.samples} samples, {job.classes} classes, threshold {job.threshold}, sigma {job.sigma:g}, "
        f"delta {job.delta:g}{planted}",
        ["who sees it"],
        ("runs", "claimed", "at least", "reached", ""),
        rows,
        f"each lower bound holds with a confidence of {reports[0].confidence:g}",
    )


def terms_table(plan: Plan) -> Table:
    """The terms to use, and what they bring."""
    chosen = plan.chosen
    rows = {
        "samples to ask about": f"{chosen.asked:,} of {plan.samples:,}",
        "threshold T": f"{chosen.threshold:,} vote{'s' if chosen.threshold > 1 else ''}",
        "sigma": f"{chosen.sigma:g}",
        "labels to expect": f"{chosen.answered:,.1f}",
        "epsilon if neither operator works with the requester": figure(plan.privacy.epsilon_apart),
        "right labels among them": f"{chosen.right:,.1f} ({chosen.accuracy:.1%}; at least {plan.min_accuracy:.1%} was "
        "asked for)",
    }
    return table(
        f"Plan for epsilon {plan.epsilon:g} at delta {plan.delta:g}",
        ("", ""),
        (),
        rows.items(),
        f"{plan.source}; {plan.teachers:,} teachers, {plan.classes} classes",
    )


def asked_table(plan: Plan) -> Table:
    """What other numbers of samples would bring at the plan's budget."""
    rows = []
    for point in plan.by_asked:
        figures = f"{point.answered:,.1f}", f"{point.right:,.1f}", f"{point.accuracy:.1%}"
        missed = "-", "-", f"below {plan.min_accuracy:.1%}"
        chosen = point.asked == plan.chosen.asked
        row = f"{point.asked:,}", *(figures if point.answered else missed), "the plan" if chosen else ""
        rows.append([Text(cell, style="bold" if chosen else "") for cell in row])
    headings = "asked", "labels", "right ones", "accuracy", ""
    return table("How many samples are worth asking about, at this budget", (), headings, rows)


def plan_document(plan: Plan) -> dict[str, Any]:
    """All of a plan, and the command that carries it out."""

    def utility(point: Utility) -> dict[str, Any]:
        return asdict(point) | {"accuracy": point.accuracy}

    return asdict(plan) | {
        "chosen": utility(plan.chosen),
        "by_epsilon": [utility(point) for point in plan.by_epsilon],
        "by_asked": [utility(point) for point in plan.by_asked],
        "command": _command_line(plan),
    }


def advice(plan: Plan) -> Iterator[str]:
    """What to keep in mind about a plan, and how to carry it out."""
    chosen = plan.chosen
    if chosen.asked < plan.samples:
        yield "Choose which samples to ask about without looking at votes."
        yield "Asking about more would take more noise and bring no more right labels."
    if chosen.epsilon < 0.95 * plan.epsilon:
        yield f"Part of the budget of epsilon {plan.epsilon:g} stays unused: spending it would bring hardly any labels."
    yield f"To run it, with predictions on {chosen.asked:,} samples:"
    yield f"  {_command_line(plan)}"


def _command_line(plan: Plan) -> str:
    chosen = plan.chosen
    terms = f"--threshold {chosen.threshold} --sigma {chosen.sigma:g}"
    limit = f"--delta {plan.delta:g} --budget {plan.epsilon:g}"
    return f"sedml aggregate predictions.npy --classes {plan.classes} {terms} {limit} --out labels.npy"
