"""The accuracy figures: labels and students over the number of teachers, plaintext against secure."""

from __future__ import annotations

from collections.abc import Sequence

from sedml.errors import FileFormatError
from sedml.lab.reproduce import published
from sedml.lab.reproduce.accuracy_charts import accuracy_charts
from sedml.lab.reproduce.item_result import Cell, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.points import (
    Point,
    accuracy_of,
    chance_words,
    largest_gap,
    mnist_point,
    student_table,
    student_words,
    svhn_point,
    teach,
)
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import StudentRow
from sedml.lab.reproduce.vote_data import svhn_histograms

__all__ = ["TITLE", "run"]

TITLE = "Accuracy: labels and students over the number of teachers"

_PAPER = (
    "Label and student accuracy on MNIST and SVHN at epsilon 2.04, 5.035 and 8.03 (of one query): the gap between "
    "SEDML and plaintext aggregation is negligible; accuracy falls as the training set is cut up for more teachers. "
    "The figures print no numbers."
)


def run(settings: Settings) -> ItemResult:
    """Label both data sets by the protocol and in plaintext, and teach students of MNIST."""
    missing: list[str] = []
    mnist = _points(settings, "mnist", missing)
    svhn = _points(settings, "svhn", missing)
    points = [*mnist, *svhn]
    if not points:
        return ItemResult("accuracy", TITLE, _PAPER, skipped=" ".join(missing))
    students: list[StudentRow] = []
    if mnist:
        students, reason = teach(settings, mnist)
        if reason:
            missing.append(f"No students: {reason}")
    tables = [_table(points, students), _privacy_table(points)]
    if students:
        tables.append(student_table("accuracy_students", students))
    return ItemResult(
        name="accuracy",
        title=TITLE,
        paper=_PAPER,
        ours=_words(points, students),
        measured=_measured(settings, mnist, svhn, students),
        modelled=(
            "The paper does not say how it split epsilon over sigma1 and sigma2: here both are equal.",
            "SVHN's students are left out: they need the images of all queries, of which only the votes are published.",
        ),
        headlines=_headlines(mnist, svhn, students),
        tables=tuple(tables),
        charts=tuple(accuracy_charts(mnist, svhn, students)),
        skipped=" ".join(missing),
        agrees=all(point.agrees for point in points),
    )


def _points(settings: Settings, dataset: str, missing: list[str]) -> list[Point]:
    scale = settings.scale
    grid = [(teachers, epsilon) for epsilon in scale.accuracy_epsilons for teachers in scale.accuracy_teachers]
    points = []
    try:
        histograms = svhn_histograms(settings.data_dir, scale.svhn_queries) if dataset == "svhn" else None
        for done, (teachers, epsilon) in enumerate(grid):
            settings.progress(f"labels of {dataset}", done, len(grid))
            name = f"{dataset}-teachers{teachers}-epsilon{epsilon:g}"
            if histograms is None:
                point = mnist_point(settings, name, teachers=teachers, threshold=published.THRESHOLD, epsilon=epsilon)
            else:
                point = svhn_point(histograms, name, teachers=teachers, threshold=published.THRESHOLD, epsilon=epsilon)
            points.append(point)
    except FileFormatError as error:
        if settings.students is not None and dataset == "mnist":
            raise
        missing.append(f"{dataset.upper()} is missing: {error.what} {error.do}")
        return []
    return points


def _gaps(points: Sequence[Point], one: str, other: str) -> float:
    return largest_gap([(point.quality(one).accuracy, point.quality(other).accuracy) for point in points])


def _student_gap(points: Sequence[Point], students: Sequence[StudentRow]) -> float:
    pairs = [[accuracy_of(students, point.file.name, line) for line in ("secure", "plain")] for point in points]
    return largest_gap([(secure, plain) for secure, plain in pairs])


def _words(points: Sequence[Point], students: Sequence[StudentRow]) -> str:
    fresh, noise = _gaps(points, "secure", "plain"), _gaps(points, "plain", "again")
    text = (
        "For the same noise the protocol's labels are those of plain aggregation, each of them. "
        if all(point.agrees for point in points)
        else "For the same noise the protocol's labels are NOT those of plain aggregation. "
    )
    text += (
        f"With fresh noise they differ by at most {fresh:.2f} percentage points of label accuracy, and two plaintext "
        f"runs by up to {noise:.2f}. "
    )
    if students:
        gap = _student_gap([point for point in points if point.file.name.startswith("mnist")], students)
        text += f"The students' mean accuracies differ by at most {gap:.2f} points; {chance_words(students)}. "
    job = max(point.privacy.job_exact for point in points)
    return text + (
        "The epsilons in the paper's legend are of one query. For the whole job the same noise means epsilon up to "
        f"{job:,.0f}, no protection to speak of: see the table of privacy."
    )


def _measured(
    settings: Settings, mnist: Sequence[Point], svhn: Sequence[Point], students: Sequence[StudentRow]
) -> tuple[str, ...]:
    lines = []
    if mnist:
        crews = (
            "a crew of K networks for each K, with 60,000 / K images each, as in the paper"
            if all(point.own_crew for point in mnist)
            else "the first K of 250 networks with 240 images each, so a teacher is as good at K = 50 as at 250; the "
            "paper's get more data the fewer they are, so its fall over K cannot show here"
        )
        lines.append(f"MNIST: single votes on the first {len(mnist[0].truth):,} test images, of {crews}.")
    if svhn:
        lines.append(
            f"SVHN: the published histograms of 250 teachers on {len(svhn[0].truth):,} test images. Fewer teachers "
            "by drawing K of the 250 votes of each sample without replacement (hypergeometric), as the single votes "
            "were not published."
        )
    if students:
        lines.append(student_words(settings, students))
    lines.append("Plaintext: the ideal functionality with noise of the same law, drawn anew.")
    return tuple(lines)


def _headlines(
    mnist: Sequence[Point], svhn: Sequence[Point], students: Sequence[StudentRow]
) -> tuple[Headline, ...]:  # fmt: skip
    lines = []
    for dataset, points in (("MNIST", mnist), ("SVHN", svhn)):
        if points:
            gap = f"at most {_gaps(points, 'secure', 'plain'):.2f} points"
            lines.append(Headline(f"label accuracy, secure against plaintext, {dataset}", "negligible gap", gap))
    if students:
        gap = f"at most {_student_gap(mnist, students):.2f} points"
        lines.append(Headline("student accuracy, secure against plaintext, MNIST", "negligible gap", gap))
    strictest = min([*mnist, *svhn], key=lambda point: point.privacy.query_paper)
    lines.append(
        Headline(
            f"epsilon of the job, sigma {strictest.sigma:.2f}, {len(strictest.truth):,} queries",
            f"{strictest.epsilon:g} (of one query)",
            f"{strictest.privacy.job_exact:,.0f} (of the job)",
        )
    )
    return tuple(lines)


def _table(points: Sequence[Point], students: Sequence[StudentRow]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for point in points:
        dataset = point.file.name.partition("-")[0]
        secure, plain, again = (point.quality(line) for line in ("secure", "plain", "again"))
        taught = [accuracy_of(students, point.file.name, line) for line in ("plain", "secure")]
        rows.append(
            (dataset, point.epsilon, point.teachers, plain.answered, secure.answered, plain.accuracy, again.accuracy,
             secure.accuracy, secure.right_of_all, *taught, point.agrees)
        )  # fmt: skip
    return Table(
        name="accuracy",
        title="Labels and students",
        columns=(
            Column("dataset", "data"),
            Column("epsilon_query", "ε of a query", "g"),
            Column("teachers", "teachers", ","),
            Column("plain_answered", "labels, plain", ","),
            Column("secure_answered", "labels, secure", ","),
            Column("plain_accuracy", "right, plain", ".2%"),
            Column("plain_again_accuracy", "right, plain again", ".2%"),
            Column("secure_accuracy", "right, secure", ".2%"),
            Column("secure_right_of_all", "right of all asked, secure", ".2%"),
            Column("student_plain", "student, plain", ".2%"),
            Column("student_secure", "student, secure", ".2%"),
            Column("same_noise_same_labels", "same noise, same labels"),
        ),
        rows=tuple(rows),
    )


def _privacy_table(points: Sequence[Point]) -> Table:
    seen: dict[tuple[str, float], Point] = {}
    for point in points:
        seen.setdefault((point.file.name.partition("-")[0], point.epsilon), point)
    return Table(
        name="accuracy_privacy",
        title="What the noise means",
        columns=(
            Column("dataset", "data"),
            Column("delta", "δ", "g"),
            Column("queries", "queries", ","),
            Column("sigma", "sigma1 = sigma2, votes", ".3f"),
            Column("epsilon_query_paper", "ε of a query, the paper", ".4g"),
            Column("epsilon_job_paper", "ε of the job, the paper's formula", ",.1f"),
            Column("epsilon_job_exact", "ε of the job, proven, exact noise", ",.1f"),
            Column("epsilon_job", "ε of the job, as drawn", ",.1f"),
        ),
        rows=tuple(
            (dataset, point.delta, len(point.truth), point.sigma, point.privacy.query_paper, point.privacy.job_paper,
             point.privacy.job_exact, point.privacy.job)
            for (dataset, _), point in seen.items()
        ),
        note="In the requester's view, every query answered. 'None': at an epsilon of 70 or more, the error of "
        "10^-36 of the noise sampler is no longer covered by delta, so no guarantee is claimed at all.",
    )  # fmt: skip
