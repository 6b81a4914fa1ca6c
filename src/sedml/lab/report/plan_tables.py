"""A plan for people and machines: its terms, costs and alternatives as tables, a document, advice in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.table import Table

from sedml.lab.report import figure
from sedml.privacy.planning import Plan
from sedml.privacy.utility import Utility

__all__ = ["advice", "asked_table", "cost_table", "plan_document", "terms_table"]


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
    table.add_row("samples to ask about", f"{chosen.asked:,} of {plan.samples:,}")
    table.add_row("threshold T", f"{chosen.threshold:,} vote{'s' if chosen.threshold > 1 else ''}")
    table.add_row("sigma1, sigma2", f"{chosen.sigma1:g}, {chosen.sigma2:g}")
    table.add_row("labels to expect", f"{chosen.answered:,.1f}")
    table.add_row(
        "right labels among them",
        f"{chosen.right:,.1f} ({chosen.accuracy:.1%}; at least {plan.min_accuracy:.1%} was asked for)",
    )
    return table


def cost_table(plan: Plan) -> Table:
    """A plan's cost for the three observers, at most and as expected."""
    table = Table(title="What it costs in epsilon", title_justify="left")
    table.add_column("who sees it")
    table.add_column("all answered,\nas reserved", justify="right")
    table.add_column(f"{plan.expected.answered:,} answered,\nas expected", justify="right")
    for most, likely in zip(plan.reserved.views, plan.expected.views, strict=True):
        table.add_row(most.observer, figure(most.epsilon), figure(likely.epsilon))
    return table


def asked_table(plan: Plan) -> Table:
    """What other numbers of samples would bring at the plan's budget."""
    table = Table(title="How many samples are worth asking about, at this budget", title_justify="left")
    for name in ("asked", "labels", "right ones", "accuracy", ""):
        table.add_column(name, justify="right")
    for point in plan.by_asked:
        chosen = point.asked == plan.chosen.asked
        figures = f"{point.answered:,.1f}", f"{point.right:,.1f}", f"{point.accuracy:.1%}"
        missed = "-", "-", f"below {plan.min_accuracy:.1%}"
        row = f"{point.asked:,}", *(figures if point.answered else missed), "the plan" if chosen else ""
        table.add_row(*row, style="bold" if chosen else "")
    return table


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
