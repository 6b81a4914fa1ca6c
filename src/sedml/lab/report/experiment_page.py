"""An experiment's outcome for people and machines: tables for the terminal, a page, a JSON document.

Teachers' accuracies and vote counts are no private labels. Where the data is somebody's own, the page says so before
anything else; a `public` page or document leaves them out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

import sedml
from sedml.files import save_labels
from sedml.lab.report import charts, figure, render, table
from sedml.lab.saving import save_text
from sedml.learn.experiment import Outcome

_PRIVATE = 1.0
NOT_FOR_PUBLICATION = "Not for publication: shows votes that are not differentially private."
_FIXED_NOISE = (
    "This is a demonstration: the same seed gives the same noise, and so the same page. Real runs draw fresh noise, "
    "since noise that somebody can work out protects nobody."
)
_SOURCES = {
    "printed": "digits rendered for this run from the fonts that come with matplotlib; nobody's data",
    "digits": "scikit-learn's handwritten digits",
}
_PHASES = {"set-up": "set-up", "preparation": "preparation, which needs no vote", "votes": "from votes to labels"}


class _Card(NamedTuple):
    """A figure to see first."""

    value: str
    text: str
    good: bool = False


class _Row(NamedTuple):
    """A line of a table; one that was measured, such as a time, is another every time."""

    name: str
    value: str
    measured: bool = False


class _Part(NamedTuple):
    """A part of the page: what it shows, in words, and the picture (a data URL) or the table."""

    title: str
    text: str
    picture: str = ""
    rows: Sequence[_Row] = ()


def accuracy_table(outcome: Outcome, *, public: bool = False) -> Table:
    """How often teachers, labels and students are right."""
    rows = [
        [Text(cell, style="bold" if name == "student" else "") for cell in (name, f"{value:.1%}")]
        for name, value in _accuracies(outcome, public).items()
    ]
    return table("How often each is correct", ["who"], ["correct"], rows)


def privacy_table(outcome: Outcome) -> Table:
    """Epsilon of the whole job."""
    spent = outcome.privacy
    rows = [
        ("the requester and one operator together", figure(spent.epsilon)),
        ("the requester alone", figure(spent.epsilon_apart)),
    ]
    return table(f"Epsilon of the whole job at delta {spent.delta:g}", ["who sees it"], ["epsilon"], rows)


def meaning(outcome: Outcome) -> str:
    """Whether the job's epsilon is private, and what it means, in one sentence."""
    spent = outcome.privacy
    if not math.isfinite(spent.epsilon):
        return "With this noise there is no guarantee for any teacher."
    verdict = "Private" if spent.epsilon <= _PRIVATE else "Not private"
    return (
        f"{verdict}: with epsilon {figure(spent.epsilon)}, however any one teacher had voted on all "
        f"{outcome.task.samples:,} samples, whatever the requester and one operator see together would have been at "
        f"most {math.exp(spent.epsilon):.3g} times as likely, except with a probability of {spent.delta:g}."
    )


def document(outcome: Outcome, *, public: bool = False) -> dict[str, Any]:
    """Everything but the samples and the votes; a public one has no figures of the teachers' either."""
    stats = outcome.stats
    return {
        "experiment": asdict(outcome.experiment),
        "public": public,
        "fixed_noise": outcome.fixed_noise,
        "teachers": outcome.task.teachers,
        "asked": outcome.task.samples,
        "answered": outcome.answered,
        "classes": outcome.task.classes,
        "threshold": outcome.task.threshold,
        "same_as_plain": outcome.same_as_plain,
        "accuracies": _accuracies(outcome, public),
        "privacy": asdict(outcome.privacy),
        "seconds": outcome.seconds,
        "phases": {name: asdict(cost) for name, cost in stats.phases.items()},
        "rounds": stats.rounds,
        "server_bytes": stats.server_bytes,
        "teacher_bytes": {"s0": stats.teacher_bytes[0], "s1": stats.teacher_bytes[1]},
    }


def write_results(outcome: Outcome, folder: Path, *, public: bool = False) -> None:
    """`result.json`, `labels.npy` and `index.html`."""
    save_text(folder / "index.html", page(outcome, public=public))
    save_text(folder / "result.json", json.dumps(document(outcome, public=public), indent=2) + "\n")
    save_labels(folder / "labels.npy", outcome.labels)


def page(outcome: Outcome, *, public: bool = False) -> str:
    """The report as one self-contained HTML page; the same outcome gives the same page, but for what was measured."""
    task = outcome.task
    subtitle = f"{task.teachers} teachers, {task.classes} classes, votes counted by two servers that see only shares."
    return render(
        "experiment.html.j2",
        title=f"SEDML: {outcome.experiment.name}",
        subtitle=f"{subtitle} {_FIXED_NOISE}" if outcome.fixed_noise else subtitle,
        cards=_cards(outcome, public),
        parts=_parts(outcome, public),
        footer="Every label is the one that a trusted third party would give for the same noise."
        if outcome.same_as_plain
        else "WARNING: labels differ from those that a trusted third party would give for the same noise.",
        notice=NOT_FOR_PUBLICATION if outcome.own_data and not public else "",
        version=sedml.__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _accuracies(outcome: Outcome, public: bool) -> dict[str, float]:
    return outcome.accuracies if public else outcome.teacher_accuracies | outcome.accuracies


def _cards(outcome: Outcome, public: bool) -> list[_Card]:
    spent = outcome.privacy
    cards = [
        _Card(f"{outcome.accuracies['student']:.1%}", "the student, on held-out samples", good=True),
        _Card(
            f"ε = {figure(spent.epsilon)}",
            f"for the whole job, even if the requester and one operator work together; {figure(spent.epsilon_apart)} "
            f"if no operator does (δ = {spent.delta:g})",
            good=True,
        ),
        _Card(
            f"{outcome.answered:,} of {outcome.task.samples:,}",
            f"samples got a label; {outcome.accuracies['labels given']:.1%} of these labels are correct",
        ),
    ]
    if not public:
        cards[1:1] = [
            _Card(f"{outcome.teacher_accuracies['a teacher alone, mean']:.1%}", "a teacher alone, on average")
        ]
    return cards


def _parts(outcome: Outcome, public: bool) -> list[_Part]:
    task, names = outcome.task, outcome.class_names
    top, answered = outcome.counts.max(axis=0), outcome.labels >= 0
    parts = [
        _Part(
            "How often each is correct",
            "On samples held out for this; labels, on the samples asked about. The last student was told the truth "
            "about every public sample.",
            charts.inline(charts.accuracy_chart(_accuracies(outcome, public))),
        ),
        _Part(
            "What it costs in privacy",
            f"{meaning(outcome)} It holds whatever the answers are.",
            charts.inline(charts.epsilon_chart(outcome.privacy)),
        ),
        _Part(
            "Consensus by class",
            f"The {task.samples:,} public samples that were asked about, by their true class.",
            charts.inline(charts.class_chart(outcome.labels, outcome.truth, names)),
        ),
    ]
    if not public:
        text = (
            "Votes for the most popular class of each sample. The servers never see these counts. The noise moves a "
            "sample across the threshold now and then, on purpose."
        )
        picture = charts.inline(charts.margin_chart(top, answered, task.threshold, task.teachers))
        parts.append(_Part("Vote margins against the threshold", text, picture))
    if outcome.images.ndim == 4:
        shown = None if public else top
        picture = charts.inline(charts.gallery(outcome.images, outcome.labels, outcome.truth, shown, names))
        text = "The label that the requester got"
        text += "." if public else " and, in brackets, the votes for the most popular class."
        parts.append(_Part("A few samples", text, picture))
    parts.append(_Part("Terms", "They were fixed before the first vote.", rows=_terms(outcome)))
    parts.append(_Part("Time and traffic", "All of it on one machine.", rows=_costs(outcome)))
    return parts


def _terms(outcome: Outcome) -> list[_Row]:
    task, experiment = outcome.task, outcome.experiment
    return [
        _Row("data set", _SOURCES.get(experiment.dataset, experiment.dataset)),
        _Row("teachers' model", experiment.teacher),
        _Row("student's model", experiment.student),
        _Row("split over the teachers", experiment.split),
        _Row("seed", str(experiment.seed)),
        _Row("threshold", f"{task.threshold} of {task.teachers} votes"),
        _Row("noise, standard deviation in votes", f"{task.sigma:g}"),
    ]


def _costs(outcome: Outcome) -> list[_Row]:
    stats = outcome.stats
    rows = [_Row("a teacher sent", f"{stats.teacher_bytes[0]} bytes to S0, {stats.teacher_bytes[1]:,} bytes to S1")]
    for phase, cost in stats.phases.items():
        rows.append(_Row(f"{_PHASES[phase]}: rounds, traffic", f"{cost.rounds}, {cost.bytes / 1e6:,.2f} MB"))
        rows.append(_Row(f"{_PHASES[phase]}: time", f"{cost.seconds * 1e3:,.1f} ms", measured=True))
    rows += [_Row(f"{name}: time", f"{seconds:.2f} s", measured=True) for name, seconds in outcome.seconds.items()]
    return rows
