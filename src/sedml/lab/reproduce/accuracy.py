"""The accuracy figures: labels and students over the number of teachers, plaintext against secure."""

from __future__ import annotations

from collections.abc import Sequence

from sedml.lab.reproduce import published
from sedml.lab.reproduce.accuracy_charts import accuracy_charts
from sedml.lab.reproduce.item_result import Headline, ItemResult, Table
from sedml.lab.reproduce.point_tables import point_table, student_table
from sedml.lab.reproduce.points import Point, Terms
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.sweep import Sweep, chance_words, largest_gap, student_words, sweep

__all__ = ["TITLE", "run"]

TITLE = "Accuracy: labels and students over the number of teachers"

_PAPER = (
    "Label and student accuracy on MNIST and SVHN at epsilon 2.04, 5.035 and 8.03 (of one query): the gap between "
    "SEDML and plaintext aggregation is negligible, and accuracy falls as the training set is divided among more "
    "teachers. The figures print no numbers."
)


def run(settings: Settings) -> ItemResult:
    """Label both data sets by the protocol and in plaintext, and teach students of MNIST."""
    scale = settings.scale
    grid = {
        f"teachers{teachers}-epsilon{epsilon:g}": Terms(teachers, published.THRESHOLD, epsilon)
        for epsilon in scale.accuracy_epsilons
        for teachers in scale.accuracy_teachers
    }
    found = sweep(settings, grid, scale.svhn_queries)
    if not found.points:
        return ItemResult("accuracy", TITLE, _PAPER, skipped=found.missing)
    tables = [_table(found), _privacy_table(found)]
    if found.students:
        tables.append(student_table("accuracy_students", found.students))
    return ItemResult(
        name="accuracy",
        title=TITLE,
        paper=_PAPER,
        ours=_words(found),
        measured=_measured(settings, found),
        modelled=(
            "The paper does not say how it split epsilon over sigma1 and sigma2: here both are equal.",
            "There are no students of SVHN: they need the images of all queries, and only the votes were published.",
        ),
        headlines=_headlines(found),
        tables=tuple(tables),
        charts=tuple(accuracy_charts(found)),
        skipped=found.missing,
        agrees=all(point.agrees for point in found.points),
    )


def _gaps(points: Sequence[Point], one: str, other: str) -> float:
    return largest_gap([(point.quality(one).accuracy, point.quality(other).accuracy) for point in points])


def _student_gap(found: Sweep) -> float:
    return largest_gap([(found.taught(point, "secure"), found.taught(point, "plain")) for point in found.mnist])


def _words(found: Sweep) -> str:
    points = found.points
    fresh, noise = _gaps(points, "secure", "plain"), _gaps(points, "plain", "again")
    text = (
        "For the same noise every label of the protocol is that of plain aggregation. "
        if all(point.agrees for point in points)
        else "For the same noise the protocol's labels are NOT those of plain aggregation. "
    )
    text += (
        f"With fresh noise they differ by at most {fresh:.2f} percentage points of label accuracy, and two plaintext "
        f"runs by up to {noise:.2f}. "
    )
    if found.students:
        gap = _student_gap(found)
        text += f"The students' mean accuracies differ by at most {gap:.2f} points; {chance_words(found.students)}. "
    job = max(point.privacy.job_exact for point in points)
    return text + (
        "The epsilons in the paper's legend are of one query. For the whole job the same noise means epsilon up to "
        f"{job:,.0f}, which is no protection to speak of: see the table of privacy."
    )


def _measured(settings: Settings, found: Sweep) -> tuple[str, ...]:
    lines = []
    if found.mnist:
        crews = (
            "a crew of K networks for each K, with 60,000 / K images each, as in the paper"
            if all(point.own_crew for point in found.mnist)
            else "the first K of 250 networks with 240 images each, so a teacher is as good at K = 50 as at 250; the "
            "paper's teachers have more data the fewer they are, so its fall over K cannot show here"
        )
        lines.append(f"MNIST: single votes on the first {len(found.mnist[0].truth):,} test images, of {crews}.")
    if found.svhn:
        lines.append(
            f"SVHN: the published histograms of 250 teachers on {len(found.svhn[0].truth):,} test images. For fewer "
            "teachers, K of the 250 votes on each sample are drawn without replacement (hypergeometric), as the single "
            "votes were not published."
        )
    if found.students:
        lines.append(student_words(settings, found.students))
    lines.append("Plaintext: the ideal functionality with fresh noise of the same law.")
    return tuple(lines)


def _headlines(found: Sweep) -> tuple[Headline, ...]:
    lines = []
    for dataset, points in (("MNIST", found.mnist), ("SVHN", found.svhn)):
        if points:
            gap = f"at most {_gaps(points, 'secure', 'plain'):.2f} points"
            lines.append(Headline(f"label accuracy, secure against plaintext, {dataset}", "negligible gap", gap))
    if found.students:
        gap = f"at most {_student_gap(found):.2f} points"
        lines.append(Headline("student accuracy, secure against plaintext, MNIST", "negligible gap", gap))
    strictest = min(found.points, key=lambda point: point.privacy.query_paper)
    lines.append(
        Headline(
            f"epsilon of the job, sigma {strictest.sigma:.2f}, {len(strictest.truth):,} queries",
            f"{strictest.terms.epsilon:g} (of one query)",
            f"{strictest.privacy.job_exact:,.0f} (of the job)",
        )
    )
    return tuple(lines)


def _table(found: Sweep) -> Table:
    keys = (
        *("dataset", "epsilon_query", "teachers", "plain_answered", "secure_answered", "plain_accuracy"),
        *("plain_again_accuracy", "secure_accuracy", "secure_right_of_all", "student_plain", "student_secure"),
        "same_noise_same_labels",
    )
    return point_table("accuracy", "Labels and students", keys, found.points, found)


def _privacy_table(found: Sweep) -> Table:
    keys = (
        *("dataset", "delta", "queries", "sigma", "epsilon_query_paper"),
        *("epsilon_job_paper", "epsilon_job_exact", "epsilon_job"),
    )
    seen: dict[tuple[str, float], Point] = {}
    for point in found.points:
        seen.setdefault((point.dataset, point.terms.epsilon), point)
    return point_table(
        "accuracy_privacy",
        "What the noise means",
        keys,
        list(seen.values()),
        found,
        note="As the requester sees it, with every query answered. 'None': at an epsilon of 70 or more, delta no "
        "longer covers the sampler's error of 10^-36, so no guarantee is claimed at all.",
    )
