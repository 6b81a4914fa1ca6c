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
    "paper_table",
    "plan_document",
    "terms_table",
    "view_table",
]

_SEEN = {"checks": "checks (server)", "labels": "labels (requester)", "job": "both (requester)"}


def view_table(spent: PrivacyReport) -> Table:
    """A job's three views, with the claim and the bounds to compare it with."""
    rows = []
    for view in spent.views:
        figures = view.epsilon, view.order, view.epsilon_zcdp, view.epsilon_classic, view.rho
        sampler = f"{view.delta_sampler:.1e}" if math.isfinite(view.delta_sampler) else "none"
        rows.append((view.observer, *map(figure, figures), sampler))
    return table(
        f"{spent.samples:,} samples, {spent.answered:,} answered, sigma1 {spent.sigma1:g}, "
        f"sigma2 {spent.sigma2:g}, delta {spent.delta:g}",
        ["who sees it"],
        ("epsilon\nclaim", "order", "epsilon\nzCDP", "epsilon\nclassic", "rho", "sampler's\ndelta"),
        rows,
        "claim: charged for what comes out, a bit and a label, at one Rényi order\n"
        "zCDP: charged as if all noisy counts came out\n"
        "classic: the same, rho + 2√(rho log 1/delta), as in older papers\n"
        "sampler's delta: the part of delta that covers noise not drawn exactly\n"
        "none: no guarantee against this observer",
    )


def paper_table(spent: PrivacyReport) -> Table:
    """The paper's own figures."""
    figures = {"one query": spent.paper_query, f"all {spent.samples:,} samples together": spent.paper_job}
    rows = [(what, f"epsilon {figure(value)}") for what, value in figures.items()]
    return table("By the paper's formula", ("", ""), (), rows)


def claim(worst: PrivacyReport, spent: PrivacyReport) -> str:
    """Which figure of a job may be claimed, in words."""
    text = (
        f"The claim is epsilon {figure(worst.requester.epsilon)} at delta {worst.delta:g}: what the requester sees, "
        f"with all {worst.samples:,} samples answered."
    )
    if spent.answered == worst.answered:
        return text
    return f"{text} The figures for {spent.answered:,} answers are what a budget is charged, not a claim of their own."


def audit_table(reports: Sequence[AuditReport], job: Mechanism) -> Table:
    """What an audit found for each part of a job, next to what is claimed."""
    planted = f", planted fault: {job.fault}" if job.fault else ""
    rows = []
    for report in reports:
        verdict = Text("stands") if report.passed else Text("DISPROVED", style="bold red")
        share = f"{report.reached:.0%}" if math.isfinite(report.claim) and report.claim > 0.0 else ""
        figures = f"{report.runs:,}", figure(report.claim), figure(report.epsilon_lower), share
        rows.append((_SEEN[report.part], *figures, verdict))
    return table(
        f"Audit: {job.samples} samples, {job.classes} classes, threshold {job.threshold}, sigma1 {job.sigma1:g}, "
        f"sigma2 {job.sigma2:g}, delta {job.delta:g}{planted}",
        ["what is seen"],
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
        "sigma1, sigma2": f"{chosen.sigma1:g}, {chosen.sigma2:g}",
        "labels to expect": f"{chosen.answered:,.1f}",
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


def cost_table(plan: Plan) -> Table:
    """A plan's cost for the three observers, at most and as expected."""
    headings = "all answered,\nas reserved", f"{plan.expected.answered:,} answered,\nas expected"
    pairs = zip(plan.reserved.views, plan.expected.views, strict=True)
    rows = [(most.observer, figure(most.epsilon), figure(likely.epsilon)) for most, likely in pairs]
    return table("What it costs in epsilon", ["who sees it"], headings, rows)


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
    terms = f"--threshold {chosen.threshold} --sigma1 {chosen.sigma1:g} --sigma2 {chosen.sigma2:g}"
    limit = f"--delta {plan.delta:g} --budget {plan.epsilon:g}"
    return f"sedml aggregate predictions.npy --classes {plan.classes} {terms} {limit} --out labels.npy"
