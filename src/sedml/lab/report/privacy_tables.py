"""What `sedml privacy` tells people: a job's cost, what an audit found, and a plan with its costs and alternatives."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from sedml.errors import counted
from sedml.lab.audit import AuditReport, Mechanism
from sedml.lab.report import figure, table
from sedml.privacy.accounting import PrivacyReport
from sedml.privacy.plan_alternatives import Alternative
from sedml.privacy.planning import Plan
from sedml.privacy.unit import NO_PROTECTION, ORGANISATION, Unit, judged
from sedml.privacy.utility import Utility

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
    if spent.unit.moves < spent.unit.votes:
        whole = judged(spent.epsilon_organisation).split(", ")
        rows.insert(1, ("the claim, for an organisation with all its votes", whole[0], ", ".join(whole[1:])))
    return table(
        f"{counted(spent.samples, 'sample')}, sigma {spent.sigma:g}, delta {spent.delta:g}", [""], ("epsilon", ""), rows
    )


def claim(spent: PrivacyReport) -> str:
    """Which figure of a job may be claimed, in words."""
    unit = spent.unit
    about = "one teacher's votes"
    if unit.name != ORGANISATION:
        about = f"one {unit.name}, whose data is " + unit.whereabouts("a teacher's", "that teacher's")
    return (
        f"The claim is epsilon {figure(spent.epsilon)} at delta {spent.delta:g}: if one operator runs the published "
        "code, the other operator doing anything at all, the requester and any other teachers together learn no more "
        f"about {about}. A server alone learns nothing."
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
    chosen, unit = plan.chosen, plan.privacy.unit
    alone = f"; one organisation has {unit.votes}" if unit.votes > 1 else ""
    rows = {
        "samples to ask about": f"{chosen.asked:,} of {plan.samples:,}",
        "threshold T": f"{chosen.threshold:,} of {plan.most_votes:,} votes{alone}",
        "sigma": f"{chosen.sigma:g}",
        "labels to expect": f"{chosen.answered:,.1f}",
        "of them correct": f"{chosen.right:,.1f} ({chosen.accuracy:.1%}; asked for: {plan.min_accuracy:.1%})",
        f"epsilon for each {unit.name}": figure(chosen.epsilon),
        "  if neither operator works with the requester": figure(plan.privacy.epsilon_apart),
    }
    if unit.moves < unit.votes:
        rows["epsilon for an organisation"] = judged(plan.privacy.epsilon_organisation)
    return table(
        f"Plan for epsilon {plan.epsilon:g} at delta {plan.delta:g}, for each {unit.name}",
        ("", ""),
        (),
        rows.items(),
        f"{plan.source}; {_voters(plan.teachers, unit)}, {plan.classes} classes",
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
    headings = "asked", "labels", "correct", "accuracy", ""
    return table("How many samples are worth asking about, at this budget", (), headings, rows)


def votes_table(plan: Plan) -> Table:
    """What more votes or more organisations would bring at the plan's epsilon."""
    unit, rows = plan.privacy.unit, []
    own = Alternative(plan.teachers, unit.votes, plan.chosen, plan.privacy.epsilon_organisation)
    for one in sorted((*plan.by_votes, own), key=lambda one: (one.teachers, one.votes)):
        terms, spent = one.expected, one.epsilon_organisation
        figures = f"{terms.answered:,.1f}", f"{terms.right:,.1f}", f"{terms.sigma:.4g}", f"{terms.threshold:,}"
        told = (
            (*figures, f"{spent:.3g}" if math.isfinite(spent) else "no limit")
            if terms.answered
            else ("none", *[""] * 4)
        )
        row = f"{one.teachers:,} x {one.votes}", *told, "the plan" if one is own else ""
        rows.append([Text(cell, style="bold" if one is own else "") for cell in row])
    title = f"More votes or more organisations, at epsilon {plan.epsilon:g} for each {unit.name}"
    headings = "organisations x votes", "labels", "right", "sigma", "T", "epsilon of an organisation", ""
    note = f"found by a rough search; an epsilon of {NO_PROTECTION:g} or more is in effect no protection"
    return table(title, (), headings, rows, note)


def plan_document(plan: Plan) -> dict[str, Any]:
    """All of a plan, and the command that carries it out."""

    def utility(point: Utility) -> dict[str, Any]:
        return asdict(point) | {"accuracy": point.accuracy}

    return asdict(plan) | {
        "chosen": utility(plan.chosen),
        "by_epsilon": [utility(point) for point in plan.by_epsilon],
        "by_asked": [utility(point) for point in plan.by_asked],
        "by_votes": [asdict(one) | {"expected": utility(one.expected)} for one in plan.by_votes],
        "command": _command_line(plan),
    }


def advice(plan: Plan) -> Iterator[str]:
    """What to keep in mind about a plan, and how to carry it out."""
    chosen, unit = plan.chosen, plan.privacy.unit
    if unit.votes > 1 and plan.teachers > 1 and chosen.threshold == plan.least_threshold:
        yield f"The threshold is one vote more than one organisation has: with fewer, its {unit.votes} could decide."
    if chosen.asked < plan.samples:
        yield "Choose which samples to ask about without looking at votes."
        yield "Asking about more would take more noise and bring no more correct labels."
    if chosen.epsilon < 0.95 * plan.epsilon:
        yield f"Part of the budget of epsilon {plan.epsilon:g} stays unused: spending it would bring hardly any labels."
    rows = f", {unit.votes} rows for each organisation" if unit.votes > 1 else ""
    yield f"To run it, with predictions on {counted(chosen.asked, 'sample')}{rows}:"
    yield f"  {_command_line(plan)}"


def _command_line(plan: Plan) -> str:
    chosen, unit = plan.chosen, plan.privacy.unit
    terms = f"--threshold {chosen.threshold} --sigma {chosen.sigma:g}"
    whom = f" --unit {shlex.quote(unit.name)}" if unit.name != ORGANISATION else ""
    whom += f" --votes {unit.votes}" if unit.votes > 1 else ""
    whom += f" --spread {unit.spread}" if unit.spread > 1 else ""
    limit = f"--delta {plan.delta:g} --budget {plan.epsilon:g}"
    return f"sedml aggregate predictions.npy --classes {plan.classes} {terms}{whom} {limit} --out labels.npy"


def _voters(teachers: int, unit: Unit) -> str:
    return (
        counted(teachers, "teacher") if unit.votes == 1 else f"{counted(teachers, 'organisation')} x {unit.votes} votes"
    )
