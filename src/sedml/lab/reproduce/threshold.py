"""The threshold figure: student accuracy over the threshold, 9,000 queries."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sedml.errors import FileFormatError
from sedml.lab.reproduce import published
from sedml.lab.reproduce.accuracy_charts import draw_lines
from sedml.lab.reproduce.drawing import NONE, PLAIN, canvas, legend
from sedml.lab.reproduce.item_result import Cell, Chart, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.points import (
    Point,
    accuracy_of,
    chance_words,
    mnist_point,
    seed_noise,
    student_table,
    student_words,
    svhn_point,
    teach,
)
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import StudentRow
from sedml.lab.reproduce.vote_data import svhn_histograms

__all__ = ["TITLE", "run"]

TITLE = "Threshold: what the students make of it"

_PAPER = (
    "Student accuracy over thresholds from 0.3 to 0.9 of the teachers, 9,000 queries, 10 classes, epsilon 8.02 (of one "
    "query): best at about 0.5 on MNIST and 0.6 on SVHN. The figure prints no numbers."
)


def run(settings: Settings) -> ItemResult:
    """Sweep the threshold on MNIST with students, and on SVHN's votes without."""
    missing: list[str] = []
    mnist = _points(settings, "mnist", missing)
    svhn = _points(settings, "svhn", missing)
    if not mnist and not svhn:
        return ItemResult("threshold", TITLE, _PAPER, skipped=" ".join(missing))
    students: list[StudentRow] = []
    if mnist:
        students, reason = teach(settings, mnist)
        if reason:
            missing.append(f"No students: {reason}")
    tables = [_table([*mnist, *svhn], students)]
    if students:
        tables.append(student_table("threshold_students", students))
    setting = f" {student_words(settings, students)}" if students else ""
    return ItemResult(
        name="threshold",
        title=TITLE,
        paper=_PAPER,
        ours=_words(mnist, svhn, students),
        measured=(
            f"{settings.scale.teachers} teachers, labels by the secure protocol and in plaintext as in the item on "
            "accuracy." + setting,
        ),
        modelled=("On SVHN only labels are judged: the images of the queries are not part of the published votes.",),
        headlines=_headlines(mnist, students),
        tables=tuple(tables),
        charts=tuple(_charts(mnist, svhn, students)),
        skipped=" ".join(missing),
        agrees=all(point.agrees for point in (*mnist, *svhn)),
    )


def _points(settings: Settings, dataset: str, missing: list[str]) -> list[Point]:
    scale = settings.scale
    teachers, epsilon = scale.teachers, published.THRESHOLD_EPSILON
    points = []
    try:
        histograms = svhn_histograms(settings.data_dir, scale.queries) if dataset == "svhn" else None
        for done, threshold in enumerate(scale.thresholds):
            settings.progress(f"labels of {dataset}", done, len(scale.thresholds))
            name = f"{dataset}-threshold{threshold:g}"
            if histograms is None:
                points.append(mnist_point(settings, name, teachers=teachers, threshold=threshold, epsilon=epsilon))
            else:
                points.append(svhn_point(histograms, name, teachers=teachers, threshold=threshold, epsilon=epsilon))
    except FileFormatError as error:
        if settings.students is not None and dataset == "mnist":
            raise
        missing.append(f"{dataset.upper()} is missing: {error.what} {error.do}")
        return []
    return points


def _best(points: Sequence[Point], students: Sequence[StudentRow]) -> tuple[list[float], float]:
    """The thresholds whose students are no worse than the best by more than chance; and the best."""
    means = {point.threshold: accuracy_of(students, point.file.name, "secure") for point in points}
    known = {threshold: value for threshold, value in means.items() if value is not None}
    best = max(known.values())
    return [threshold for threshold, value in known.items() if 100 * (best - value) <= seed_noise(students)], best


def _words(mnist: Sequence[Point], svhn: Sequence[Point], students: Sequence[StudentRow]) -> str:
    text = ""
    if students:
        good, best = _best(mnist, students)
        text = (
            f"On MNIST the best students reach {best:.2%}; as good within chance are those of thresholds "
            f"{', '.join(f'{value:g}' for value in good)}: {chance_words(students)}. "
        )
    for name, points in (("MNIST", mnist), ("SVHN", svhn)):
        if points:
            low, high = points[0].quality("secure"), points[-1].quality("secure")
            text += (
                f"{name}: from threshold {points[0].threshold:g} to {points[-1].threshold:g} the labels fall from "
                f"{low.answered:,} to {high.answered:,} and the right ones among them rise from "
                f"{low.accuracy or 0:.1%} to {high.accuracy or 0:.1%}. "
            )
    return text + (
        "A high threshold gives fewer and better labels; where teachers agree as much as MNIST's do, the student "
        "hardly notices until labels run short."
    )


def _headlines(mnist: Sequence[Point], students: Sequence[StudentRow]) -> tuple[Headline, ...]:
    if not students:
        return ()
    good, best = _best(mnist, students)
    ours = f"{min(good):g} to {max(good):g} alike, {best:.2%} at best" if len(good) > 1 else f"{good[0]:g}, {best:.2%}"
    return (Headline("best threshold, students of MNIST", f"about {published.BEST_THRESHOLDS['mnist']:g}", ours),)


def _table(points: Sequence[Point], students: Sequence[StudentRow]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for point in points:
        secure, plain = point.quality("secure"), point.quality("plain")
        taught = [accuracy_of(students, point.file.name, line) for line in ("plain", "secure")]
        rows.append(
            (point.file.name.partition("-")[0], point.threshold, plain.answered, secure.answered, plain.accuracy,
             secure.accuracy, secure.right_of_all, *taught, point.agrees)
        )  # fmt: skip
    return Table(
        name="threshold",
        title="Over the threshold",
        columns=(
            Column("dataset", "data"),
            Column("threshold", "threshold", "g"),
            Column("plain_answered", "labels, plain", ","),
            Column("secure_answered", "labels, secure", ","),
            Column("plain_accuracy", "right, plain", ".2%"),
            Column("secure_accuracy", "right, secure", ".2%"),
            Column("secure_right_of_all", "right of all asked, secure", ".2%"),
            Column("student_plain", "student, plain", ".2%"),
            Column("student_secure", "student, secure", ".2%"),
            Column("same_noise_same_labels", "same noise, same labels"),
        ),
        rows=tuple(rows),
    )


def _charts(mnist: Sequence[Point], svhn: Sequence[Point], students: Sequence[StudentRow]) -> list[Chart]:
    charts = []
    if students:
        charts.append(_student_chart(mnist, students))
    for name, points in (("mnist", mnist), ("svhn", svhn)):
        if points:
            charts.append(_label_chart(name, points))
    return charts


def _student_chart(points: Sequence[Point], students: Sequence[StudentRow]) -> Chart:
    figure, [axes] = canvas(7.2, 3.8)
    thresholds = [point.threshold for point in points]

    def taught(point: Point, line: str) -> float | None:
        return accuracy_of(students, point.file.name, line)

    draw_lines(axes, thresholds, points, taught, seed_noise(students) / math.sqrt(2))
    found = [taught(point, line) for point in points for line in ("plain", "secure")]
    heights = [100 * value for value in found if value is not None]
    best = published.BEST_THRESHOLDS["mnist"]
    axes.axvline(best, color=NONE, lw=6, alpha=0.6, zorder=0, label=f"best by the paper, about {best:g}")
    axes.set_ylim(max(0.0, min(heights) - 1), min(100.5, max(heights) + 1))
    axes.set_xlabel("threshold, share of the teachers")
    axes.set_ylabel("student right, per cent")
    legend(figure, axes)
    return Chart(
        "threshold_mnist_students", "MNIST: students over the threshold; bars are two standard errors.", figure
    )


def _label_chart(name: str, points: Sequence[Point]) -> Chart:
    figure, panels = canvas(9.2, 3.6, 2)
    thresholds = [point.threshold for point in points]
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
