"""An experiment's outcome for people and machines: tables for the terminal, a page, a JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from sedml.files import save_labels
from sedml.lab.report import charts, figure
from sedml.lab.report.page import Card, Part, render
from sedml.lab.saving import save_text
from sedml.learn.experiment import Outcome

__all__ = ["accuracy_table", "document", "page", "privacy_table", "write_results"]


def accuracy_table(outcome: Outcome) -> Table:
    """How often teachers, labels and students are right."""
    table = Table(title="How often each is right", title_justify="left")
    table.add_column("who")
    table.add_column("right", justify="right")
    for name, value in outcome.accuracies.items():
        table.add_row(name, f"{value:.1%}", style="bold" if name == "student" else "")
    return table


def privacy_table(outcome: Outcome) -> Table:
    """Epsilon of the whole job, for the three observers."""
    table = Table(title=f"Epsilon of the whole job at delta {outcome.privacy.delta:g}", title_justify="left")
    table.add_column("who sees it")
    table.add_column("spent", justify="right")
    table.add_column("at most", justify="right")
    for spent, bound in zip(outcome.privacy.views, outcome.privacy_bound.views, strict=True):
        table.add_row(spent.observer, figure(spent.epsilon), figure(bound.epsilon))
    return table


def document(outcome: Outcome) -> dict[str, Any]:
    """Everything but the samples and the votes."""
    stats = outcome.stats
    return {
        "experiment": asdict(outcome.experiment),
        "teachers": outcome.task.teachers,
        "asked": outcome.task.samples,
        "answered": outcome.answered,
        "classes": outcome.task.classes,
        "threshold": outcome.task.threshold,
        "same_as_plain": outcome.same_as_plain,
        "accuracies": outcome.accuracies,
        "privacy": asdict(outcome.privacy),
        "privacy_bound": asdict(outcome.privacy_bound),
        "seconds": outcome.seconds,
        "phases": {name: asdict(cost) for name, cost in stats.phases.items()},
        "rounds": stats.rounds,
        "server_bytes": stats.server_bytes,
        "dealer_bytes": stats.dealer_bytes,
        "teacher_bytes": {"s0": stats.teacher_bytes[0], "s1": stats.teacher_bytes[1]},
    }


def write_results(outcome: Outcome, folder: Path) -> None:
    """`result.json`, `labels.npy` and `index.html`."""
    save_text(folder / "index.html", page(outcome))
    save_text(folder / "result.json", json.dumps(document(outcome), indent=2) + "\n")
    save_labels(folder / "labels.npy", outcome.labels)


def page(outcome: Outcome) -> str:
    """The report as one self-contained HTML page."""
    task, names = outcome.task, outcome.class_names
    top, answered = outcome.counts.max(axis=0), outcome.labels >= 0
    accuracies, stats = outcome.accuracies, outcome.stats
    spent = outcome.privacy.requester.epsilon
    cards = [
        Card(f"{accuracies['student']:.1%}", "student's test accuracy", good=True),
        Card(f"{accuracies['a teacher alone, best']:.1%}", "the best teacher alone"),
        Card(f"{outcome.answered:,} of {task.samples:,}", "samples asked about found a consensus"),
        Card(f"{accuracies['labels given']:.1%}", "of those labels are right"),
        Card(f"ε {figure(spent)}", f"of privacy spent, as the requester sees it, at δ = {outcome.privacy.delta:g}"),
        Card(f"{stats.seconds * 1e3:,.0f} ms", f"and {stats.rounds} rounds between the two servers"),
    ]
    parts = [
        Part(
            "How often each is right",
            "A student taught by secret, noisy votes, next to its teachers and to a student that is told the truth "
            "about every public sample.",
            charts.inline(charts.accuracy_chart(accuracies)),
        ),
        Part(
            "Consensus by class",
            f"The {task.samples:,} public samples that were asked about, by their true class.",
            charts.inline(charts.class_chart(outcome.labels, outcome.truth, names)),
        ),
        Part(
            "Vote margins against the threshold",
            "Votes for the most popular class of each sample. The servers never see these counts. The noise moves a "
            "sample across the threshold now and then, on purpose.",
            charts.inline(charts.margin_chart(top, answered, task.threshold, task.teachers)),
        ),
        Part(
            "What it costs in privacy",
            "Epsilon of the whole job: how much the answers can reveal about any one teacher's votes, the smaller the "
            "better. Spent: for the answers given. At most: if every sample had been answered; this figure holds "
            "whatever the answers are.",
            charts.inline(charts.epsilon_chart(outcome.privacy, outcome.privacy_bound)),
        ),
        Part(
            "Time and traffic by phase",
            "Between the two servers, both directions together.",
            charts.inline(charts.phase_chart(stats.phases)),
        ),
    ]
    if outcome.images.ndim == 4:
        picture = charts.gallery(outcome.images, outcome.labels, outcome.truth, top, names)
        text = "The label that the requester got and, in brackets, the votes for the most popular class."
        parts.append(Part("A few samples", text, charts.inline(picture)))
    parts.append(Part("Terms and details", "The terms were fixed before the first vote.", rows=_rows(outcome)))
    return render(
        f"SEDML: {outcome.experiment.name}",
        f"{task.teachers} teachers, {task.classes} classes, votes counted by two servers that see only secret shares.",
        cards,
        parts,
        "Every label is the one that a trusted third party would give for the same noise."
        if outcome.same_as_plain
        else "WARNING: labels differ from those that a trusted third party would give for the same noise.",
    )


def _rows(outcome: Outcome) -> list[tuple[str, str]]:
    task, stats, experiment = outcome.task, outcome.stats, outcome.experiment
    rows = [
        ("data set", experiment.dataset),
        ("teachers' model", experiment.teacher),
        ("split", experiment.split),
        ("threshold", f"{task.threshold} of {task.teachers} votes"),
        ("noise, standard deviation in votes", f"{task.sigma1:g} on the check, {task.sigma2:g} on the counts"),
        ("protocol", f"{task.protocol}, votes as {task.votes}, rings of up to {task.widths.counts} bits"),
        ("a teacher sent", f"{stats.teacher_bytes[0]} bytes to S0, {stats.teacher_bytes[1]:,} bytes to S1"),
        ("the dealer sent", f"{stats.dealer_bytes / 1e6:,.2f} MB"),
        ("between the servers", f"{stats.server_bytes / 1e3:,.1f} KB"),
        ("epsilon by the paper's formula", f"{outcome.privacy.paper_query:.3g} per query, "
         f"{outcome.privacy.paper_job:.3g} for the job"),
    ]  # fmt: skip
    rows += [(f"time, {name}", f"{seconds:.2f} s") for name, seconds in outcome.seconds.items()]
    return rows
