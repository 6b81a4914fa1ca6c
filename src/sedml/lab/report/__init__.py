"""Reports for people: tables of privacy here, pictures in modules of their own.

Nothing in here is imported by `sedml` itself, and matplotlib only when something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table

from sedml.lab.audit import AuditReport
from sedml.privacy.accounting import PrivacyReport
from sedml.privacy.planning import Plan

__all__ = ["asked_table", "audit_table", "cost_table", "figure", "paper_table", "terms_table", "view_table"]


def figure(value: float) -> str:
    """Four digits, or "none" where there is no guarantee."""
    return f"{value:.4g}" if math.isfinite(value) else "none"


def view_table(spent: PrivacyReport) -> Table:
    """A job's three views, by every conversion."""
    table = Table(
        title=f"{spent.samples:,} samples, {spent.answered:,} answered, sigma1 {spent.sigma1:g}, "
        f"sigma2 {spent.sigma2:g}, noise by {spent.noise}, delta {spent.delta:g}",
        title_justify="left",
        caption="claim: zCDP, by the conversion of Canonne et al. 2020\n"
        "fixed: holds if the number of answers was fixed beforehand\n"
        "Gaussian: exact for continuous noise, a reference only\n"
        "classic: rho + 2√(rho log 1/delta)\n"
        "sampler's delta: inside delta, for noise not drawn exactly\n"
        "none: no guarantee against this observer",
        caption_justify="left",
    )
    table.add_column("who sees it")
    for name in (
        "rho",
        "epsilon\nclaim",
        "epsilon\nfixed",
        "epsilon\nGaussian",
        "epsilon\nclassic",
        "sampler's\ndelta",
    ):
        table.add_column(name, justify="right")
    for view in spent.views:
        epsilons = view.epsilon, view.epsilon_fixed, view.epsilon_gaussian, view.epsilon_classic
        sampler = f"{view.delta_sampler:.1e}" if math.isfinite(view.delta_sampler) else "none"
        table.add_row(view.observer, *(figure(value) for value in (view.rho, *epsilons)), sampler)
    return table


def paper_table(spent: PrivacyReport) -> Table:
    """The paper's own figures."""
    table = Table(title="By the paper's formula", title_justify="left", show_header=False)
    table.add_row("one query", f"epsilon {figure(spent.paper_query)}")
    table.add_row(f"composed over {spent.samples:,} samples", f"epsilon {figure(spent.paper_job)}")
    return table


def terms_table(plan: Plan) -> Table:
    """The terms to use, and what they bring."""
    chosen = plan.chosen
    table = Table(
        title=f"Plan for epsilon {plan.epsilon:g} at delta {plan.delta:g}",
        title_justify="left",
        show_header=False,
        caption=f"{plan.source}; {plan.teachers:,} teachers, {plan.classes} classes",
        caption_justify="left",
    )
    table.add_row("samples to ask", f"{chosen.asked:,} of {plan.samples:,}")
    table.add_row("threshold T", f"{chosen.threshold:,} vote{'s' if chosen.threshold > 1 else ''}")
    table.add_row("sigma1, sigma2", f"{chosen.sigma1:g}, {chosen.sigma2:g}")
    table.add_row("labels expected", f"{chosen.answered:,.1f}")
    table.add_row(
        "of them right", f"{chosen.right:,.1f} ({chosen.accuracy:.1%}, at least {plan.min_accuracy:.1%} asked for)"
    )
    return table


def cost_table(plan: Plan) -> Table:
    """A plan's cost in the three views, at most and as expected."""
    table = Table(title="What it costs, epsilon", title_justify="left")
    table.add_column("who sees it")
    table.add_column("all answered,\nas reserved", justify="right")
    table.add_column(f"{plan.expected.answered:,} answered,\nas expected", justify="right")
    for most, likely in zip(plan.reserved.views, plan.expected.views, strict=True):
        table.add_row(most.observer, figure(most.epsilon), figure(likely.epsilon))
    return table


def asked_table(plan: Plan) -> Table:
    """What other numbers of samples would bring at the plan's budget."""
    table = Table(title="How many samples are worth asking, at this budget", title_justify="left")
    for name in ("asked", "labels expected", "of them right", "accuracy", ""):
        table.add_column(name, justify="right")
    for point in plan.by_asked:
        chosen = point.asked == plan.chosen.asked
        figures = f"{point.answered:,.1f}", f"{point.right:,.1f}", f"{point.accuracy:.1%}"
        missed = "-", "-", f"below {plan.min_accuracy:.1%}"
        row = f"{point.asked:,}", *(figures if point.answered else missed), "the plan" if chosen else ""
        table.add_row(*row, style="bold" if chosen else "")
    return table


def audit_table(reports: Sequence[AuditReport], terms: str) -> Table:
    """What an audit found in each view, next to what is claimed."""
    first = reports[0]
    planted = f", planted fault: {first.fault}" if first.fault else ""
    table = Table(
        title=f"Audit: {terms}{planted}",
        title_justify="left",
        caption=f"{first.runs:,} runs a view; the lower bound holds with {first.confidence:.1%} confidence",
        caption_justify="left",
    )
    for name in ("who sees it", "epsilon at least", "claimed", ""):
        table.add_column(name, justify="right" if name.startswith(("eps", "cl")) else "left")
    for report in reports:
        verdict = "the claim stands" if report.passed else "[bold red]DISPROVED[/]"
        table.add_row(report.view, figure(report.epsilon_lower), figure(report.claim), verdict)
    return table
