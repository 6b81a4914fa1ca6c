"""The paper's two figures of accuracy: labels and students over the number of teachers, and over the threshold."""

from __future__ import annotations

from collections.abc import Sequence

from sedml.lab.reproduce import published
from sedml.lab.reproduce.labelling import Point, Terms
from sedml.lab.reproduce.results import Headline, ItemResult
from sedml.lab.reproduce.scale import Settings
from sedml.lab.reproduce.students import StudentRow
from sedml.lab.reproduce.sweep import Line, Sweep, point_table, seed_noise, student_tables, sweep, sweep_charts

_ACCURACY = (
    "Label and student accuracy on MNIST and SVHN at epsilon 2.04, 5.035 and 8.03 (of one query): the gap between "
    "SEDML and plaintext aggregation is negligible, and accuracy falls as the training set is divided among more "
    "teachers. The figures print no numbers."
)
_THRESHOLD = (
    "Student accuracy over thresholds from 0.3 to 0.9 of the teachers, 9,000 queries, 10 classes, epsilon 8.02 (of one "
    "query): best at about 0.5 on MNIST and 0.6 on SVHN. The figure prints no numbers."
)


def accuracy(settings: Settings) -> ItemResult:
    """Label both data sets by the protocol and in plaintext, and teach students of MNIST."""
    scale = settings.scale
    grid = {
        f"teachers{teachers}-epsilon{epsilon:g}": Terms(teachers, published.THRESHOLD, epsilon)
        for epsilon in scale.accuracy_epsilons
        for teachers in scale.accuracy_teachers
    }
    found = sweep(settings, grid, scale.svhn_queries)
    if not found.points:
        return ItemResult(_ACCURACY, skipped=found.missing)
    by_noise = {(point.dataset, point.terms.epsilon): point for point in found.points}
    keys = (
        *("dataset", "epsilon_query", "teachers", "plain_answered", "secure_answered", "plain_accuracy"),
        *("plain_again_accuracy", "secure_accuracy", "secure_right_of_all", "student_plain", "student_secure"),
        "same_noise_same_labels",
    )
    privacy_keys = ("dataset", "delta", "queries", "sigma", "epsilon_query_paper", "epsilon_job_paper")
    note = "By the paper's theorem, which is of one query, and by the same composed over all of a job."
    return ItemResult(
        paper=_ACCURACY,
        ours=_accuracy_words(found),
        measured=_accuracy_measured(found),
        modelled=(
            "The paper does not say how it split epsilon over sigma1 and sigma2: here both are equal.",
            "There are no students of SVHN: they need the images of all queries, and only the votes were published.",
        ),
        headlines=_accuracy_headlines(found),
        tables=[
            point_table("accuracy", "Labels and students", keys, found, found.points),
            point_table("accuracy_privacy", "What the noise means", privacy_keys, found, [*by_noise.values()], note),
            *student_tables("accuracy", found.students),
        ],
        charts=sweep_charts("accuracy", found, "teachers"),
        skipped=found.missing,
        agrees=found.agrees,
    )


def threshold(settings: Settings) -> ItemResult:
    """Sweep the threshold on MNIST with students, and on SVHN's votes without."""
    scale = settings.scale
    grid = {f"threshold{x:g}": Terms(scale.teachers, x, published.THRESHOLD_EPSILON) for x in scale.thresholds}
    found = sweep(settings, grid, scale.queries)
    if not found.points:
        return ItemResult(_THRESHOLD, skipped=found.missing)
    keys = (
        *("dataset", "threshold", "plain_answered", "secure_answered", "plain_accuracy", "secure_accuracy"),
        *("secure_right_of_all", "student_plain", "student_secure", "same_noise_same_labels"),
    )
    measured = f"{scale.teachers} teachers, labels by the secure protocol and in plaintext as in the item on accuracy."
    words, headlines = _threshold_words(found)
    return ItemResult(
        paper=_THRESHOLD,
        ours=words,
        measured=[" ".join([measured, *_student_words(found.students)])],
        modelled=("On SVHN only labels are judged: the images of the queries are not part of the published votes.",),
        headlines=headlines,
        tables=[
            point_table("threshold", "Over the threshold", keys, found, found.points),
            *student_tables("threshold", found.students),
        ],
        charts=sweep_charts("threshold", found, "threshold"),
        skipped=found.missing,
        agrees=found.agrees,
    )


def _student_words(rows: Sequence[StudentRow]) -> list[str]:
    """How the students of a figure were trained, if there are any."""
    if not rows:
        return []
    seeds = len({row.seed for row in rows})
    return [
        f"Students of MNIST: {rows[0].setting}; trained on the labelled images only, tested on the last 1,000 "
        f"test images; mean of {seeds} {'seed' if seeds == 1 else 'seeds'}."
    ]


def _chance(rows: Sequence[StudentRow]) -> str:
    """How far apart equal points are by chance, in words."""
    noise = seed_noise(rows)
    if not noise:
        return "with one seed each, nobody can say how much of that is chance"
    return f"the choice of seeds alone moves two equal points up to {noise:.2f} apart (two standard errors)"


def _gap(points: Sequence[Point], value: Line, one: str = "secure", other: str = "plain") -> float:
    """The largest difference of two lines, in percentage points."""
    pairs = [(value(point, one), value(point, other)) for point in points]
    return max((100 * abs(a - b) for a, b in pairs if a is not None and b is not None), default=0.0)


def _accuracy_words(found: Sweep) -> str:
    same = "every label of the protocol is that" if found.agrees else "the protocol's labels are NOT those"
    text = (
        f"For the same noise {same} of plain aggregation. With fresh noise they differ by at most "
        f"{_gap(found.points, found.right):.2f} percentage points of label accuracy, and two plaintext runs by up to "
        f"{_gap(found.points, found.right, 'plain', 'again'):.2f}. "
    )
    if found.students:
        gap = _gap(found.mnist, found.taught)
        text += f"The students' mean accuracies differ by at most {gap:.2f} points; {_chance(found.students)}. "
    return text + (
        "The epsilons in the paper's legend are of one query. For the whole job its formula gives epsilon up to "
        f"{max(point.epsilon(len(point.truth)) for point in found.points):,.0f}, which is no protection to speak of: "
        "see the table of privacy."
    )


def _accuracy_measured(found: Sweep) -> list[str]:
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
    lines += _student_words(found.students)
    return [*lines, "Plaintext: the ideal functionality with fresh noise of the same law."]


def _accuracy_headlines(found: Sweep) -> list[Headline]:
    gaps = {f"label accuracy, secure against plaintext, {name}": _gap(points, found.right)
            for name, points in found.by_dataset}  # fmt: skip
    if found.students:
        gaps["student accuracy, secure against plaintext, MNIST"] = _gap(found.mnist, found.taught)
    strictest = min(found.points, key=lambda point: point.terms.epsilon)
    return [
        *(Headline(what, "negligible gap", f"at most {gap:.2f} points") for what, gap in gaps.items()),
        Headline(
            f"epsilon of the job, sigma {strictest.task.sigma1:.2f}, {len(strictest.truth):,} queries",
            f"{strictest.terms.epsilon:g} (of one query)",
            f"{strictest.epsilon(len(strictest.truth)):,.0f} (of the job)",
        ),
    ]


def _threshold_words(found: Sweep) -> tuple[str, list[Headline]]:
    text, headlines = "", []
    if found.students:
        # The thresholds whose students are no worse than the best by more than chance.
        means = {point.terms.threshold: found.taught(point, "secure") or 0.0 for point in found.mnist}
        best, chance = max(means.values()), seed_noise(found.students)
        good = [value for value, reached in means.items() if 100 * (best - reached) <= chance]
        text = (
            f"On MNIST the best students reach {best:.2%}; within chance, thresholds of "
            f"{', '.join(f'{value:g}' for value in good)} are as good: {_chance(found.students)}. "
        )
        alike = f"{min(good):g} to {max(good):g} alike, {best:.2%} at best"
        headlines = [
            Headline(
                "best threshold, students of MNIST",
                f"about {published.BEST_THRESHOLDS['mnist']:g}",
                alike if len(good) > 1 else f"{good[0]:g}, {best:.2%}",
            )
        ]
    for name, points in found.by_dataset:
        low, high = points[0].quality("secure"), points[-1].quality("secure")
        text += (
            f"{name}: from threshold {points[0].terms.threshold:g} to {points[-1].terms.threshold:g} the labels "
            f"fall from {low.answered:,} to {high.answered:,}, and the share of right labels among them rises from "
            f"{low.accuracy or 0:.1%} to {high.accuracy or 0:.1%}. "
        )
    return text + (
        "A high threshold gives fewer and better labels; where teachers agree as much as MNIST's do, the student "
        "hardly notices until there are too few labels."
    ), headlines
