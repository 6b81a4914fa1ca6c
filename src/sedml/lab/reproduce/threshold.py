"""The threshold figure: student accuracy over the threshold, 9,000 queries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sedml.lab.reproduce import published
from sedml.lab.reproduce.accuracy_charts import draw_lines, zoom
from sedml.lab.reproduce.drawing import NONE, PLAIN, canvas, legend
from sedml.lab.reproduce.item_result import Chart, Headline, ItemResult, Table
from sedml.lab.reproduce.point_tables import point_table, student_table
from sedml.lab.reproduce.points import Point, Terms
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.sweep import Sweep, chance_words, seed_noise, student_words, sweep

__all__ = ["TITLE", "run"]

TITLE = "Threshold: how it changes labels and students"

_PAPER = (
    "Student accuracy over thresholds from 0.3 to 0.9 of the teachers, 9,000 queries, 10 classes, epsilon 8.02 (of one "
    "query): best at about 0.5 on MNIST and 0.6 on SVHN. The figure prints no numbers."
)


def run(settings: Settings) -> ItemResult:
    """Sweep the threshold on MNIST with students, and on SVHN's votes without."""
    scale = settings.scale
    grid = {f"threshold{x:g}": Terms(scale.teachers, x, published.THRESHOLD_EPSILON) for x in scale.thresholds}
    found = sweep(settings, grid, scale.queries)
    if not found.points:
        return ItemResult("threshold", TITLE, _PAPER, skipped=found.missing)
    tables = [_table(found)]
    if found.students:
        tables.append(student_table("threshold_students", found.students))
    setting = f" {student_words(settings, found.students)}" if found.students else ""
    return ItemResult(
        name="threshold",
        title=TITLE,
        paper=_PAPER,
        ours=_words(found),
        measured=(
            f"{scale.teachers} teachers, labels by the secure protocol and in plaintext as in the item on accuracy."
            + setting,
        ),
        modelled=("On SVHN only labels are judged: the images of the queries are not part of the published votes.",),
        headlines=_headlines(found),
        tables=tuple(tables),
        charts=tuple(_charts(found)),
        skipped=found.missing,
        agrees=all(point.agrees for point in found.points),
    )


def _best(found: Sweep) -> tuple[list[float], float]:
    """The thresholds whose students are no worse than the best by more than chance; and the best."""
    means = {point.terms.threshold: found.taught(point, "secure") for point in found.mnist}
    known = {threshold: value for threshold, value in means.items() if value is not None}
    best, chance = max(known.values()), seed_noise(found.students)
    return [threshold for threshold, value in known.items() if 100 * (best - value) <= chance], best


def _words(found: Sweep) -> str:
    text = ""
    if found.students:
        good, best = _best(found)
        text = (
            f"On MNIST the best students reach {best:.2%}; within chance, thresholds of "
            f"{', '.join(f'{value:g}' for value in good)} are as good: {chance_words(found.students)}. "
        )
    for name, points in (("MNIST", found.mnist), ("SVHN", found.svhn)):
        if points:
            low, high = points[0].quality("secure"), points[-1].quality("secure")
            text += (
                f"{name}: from threshold {points[0].terms.threshold:g} to {points[-1].terms.threshold:g} the labels "
                f"fall from {low.answered:,} to {high.answered:,}, and the share of right ones among them rises from "
                f"{low.accuracy or 0:.1%} to {high.accuracy or 0:.1%}. "
            )
    return text + (
        "A high threshold gives fewer and better labels; where teachers agree as much as MNIST's do, the student "
        "hardly notices until there are too few labels."
    )


def _headlines(found: Sweep) -> tuple[Headline, ...]:
    if not found.students:
        return ()
    good, best = _best(found)
    ours = f"{min(good):g} to {max(good):g} alike, {best:.2%} at best" if len(good) > 1 else f"{good[0]:g}, {best:.2%}"
    return (Headline("best threshold, students of MNIST", f"about {published.BEST_THRESHOLDS['mnist']:g}", ours),)


def _table(found: Sweep) -> Table:
    keys = (
        *("dataset", "threshold", "plain_answered", "secure_answered", "plain_accuracy", "secure_accuracy"),
        *("secure_right_of_all", "student_plain", "student_secure", "same_noise_same_labels"),
    )
    return point_table("threshold", "Over the threshold", keys, found.points, found)


def _charts(found: Sweep) -> list[Chart]:
    charts = [_student_chart(found)] if found.students else []
    for name, points in (("mnist", found.mnist), ("svhn", found.svhn)):
        if points:
            charts.append(_label_chart(name, points))
    return charts


def _student_chart(found: Sweep) -> Chart:
    figure, [axes] = canvas(7.2, 3.8)
    points = found.mnist
    error = seed_noise(found.students) / math.sqrt(2)
    draw_lines(axes, [point.terms.threshold for point in points], points, found.taught, error)
    best = published.BEST_THRESHOLDS["mnist"]
    axes.axvline(best, color=NONE, lw=6, alpha=0.6, zorder=0, label=f"best by the paper, about {best:g}")
    zoom(axes, [found.taught(point, line) for point in points for line in ("plain", "secure")])
    axes.set_xlabel("threshold, share of the teachers")
    axes.set_ylabel("student right, per cent")
    legend(figure, axes)
    return Chart(
        "threshold_mnist_students", "MNIST: students over the threshold; bars are two standard errors.", figure
    )


def _label_chart(name: str, points: Sequence[Point]) -> Chart:
    figure, panels = canvas(9.2, 3.6, 2)
    thresholds = [point.terms.threshold for point in points]
    found = [point.quality("secure") for point in points]
    queries = len(points[0].truth)
    panels[0].plot(thresholds, [100 * each.answered / queries for each in found], "o-", color=PLAIN)
    panels[0].set_ylabel("samples with a label, per cent")
    right = [math.nan if each.accuracy is None else 100 * each.accuracy for each in found]
    panels[1].plot(thresholds, right, "o-", color=PLAIN, label="secure protocol")
    panels[1].set_ylabel("right labels among them, per cent")
    best = published.BEST_THRESHOLDS[name]
    for axes in panels:
        axes.axvline(
            best, color=NONE, lw=6, alpha=0.6, zorder=0, label=f"best for students by the paper, about {best:g}"
        )
        axes.set_xticks(thresholds)
        axes.set_xlabel("threshold, share of the teachers")
    legend(figure, panels[1], 2)
    return Chart(f"threshold_{name}_labels", f"{name.upper()}: labels over the threshold, {queries:,} queries.", figure)
