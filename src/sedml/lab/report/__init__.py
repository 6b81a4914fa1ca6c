"""Reports for people: tables of privacy here, plans, pictures and pages in modules of their own.

Nothing in here is imported by `sedml` itself, and matplotlib only when something is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from sedml.lab.audit import AuditReport, Mechanism
from sedml.privacy.accounting import PrivacyReport

__all__ = ["audit_table", "claim", "figure", "paper_table", "view_table"]

_SEEN = {"checks": "checks (server)", "labels": "labels (requester)", "job": "both (requester)"}


def figure(value: float) -> str:
    """Four digits, or "none" where there is no guarantee."""
    return f"{value:.4g}" if math.isfinite(value) else "none"


def view_table(spent: PrivacyReport) -> Table:
    """A job's three views, with the claim and the bounds to compare it with."""
    table = Table(
        title=f"{spent.samples:,} samples, {spent.answered:,} answered, sigma1 {spent.sigma1:g}, "
        f"sigma2 {spent.sigma2:g}, delta {spent.delta:g}",
        title_justify="left",
        caption="claim: charged for what comes out, a bit and a label, at one Rényi order\n"
        "zCDP: charged as if all noisy counts came out\n"
        "classic: the same, rho + 2√(rho log 1/delta), as in older papers\n"
        "sampler's delta: the part of delta that covers noise not drawn exactly\n"
        "none: no guarantee against this observer",
        caption_justify="left",
    )
    table.add_column("who sees it")
    for name in ("epsilon\nclaim", "order", "epsilon\nzCDP", "epsilon\nclassic", "rho", "sampler's\ndelta"):
        table.add_column(name, justify="right")
    for view in spent.views:
        figures = view.epsilon, view.order, view.epsilon_zcdp, view.epsilon_classic, view.rho
        sampler = f"{view.delta_sampler:.1e}" if math.isfinite(view.delta_sampler) else "none"
        table.add_row(view.observer, *map(figure, figures), sampler)
    return table


def paper_table(spent: PrivacyReport) -> Table:
    """The paper's own figures."""
    table = _plain_table("By the paper's formula")
    table.add_row("one query", f"epsilon {figure(spent.paper_query)}")
    table.add_row(f"all {spent.samples:,} samples together", f"epsilon {figure(spent.paper_job)}")
    return table


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
    first = reports[0]
    planted = f", planted fault: {job.fault}" if job.fault else ""
    table = Table(
        title=f"Audit: {job.samples} samples, {job.classes} classes, threshold {job.threshold}, sigma1 {job.sigma1:g}, "
        f"sigma2 {job.sigma2:g}, delta {job.delta:g}{planted}",
        title_justify="left",
        caption=f"each lower bound holds with a confidence of {first.confidence:g}",
        caption_justify="left",
    )
    table.add_column("what is seen")
    for name in ("runs", "claimed", "at least", "reached"):
        table.add_column(name, justify="right")
    table.add_column("")
    for report in reports:
        verdict = "stands" if report.passed else Text("DISPROVED", style="bold red")
        shares = f"{report.reached:.0%}" if math.isfinite(report.claim) and report.claim > 0.0 else ""
        figures = figure(report.claim), figure(report.epsilon_lower), shares
        table.add_row(_SEEN[report.part], f"{report.runs:,}", *figures, verdict)
    return table


def _plain_table(title: str) -> Table:
    return Table(title=title, title_justify="left", show_header=False)
