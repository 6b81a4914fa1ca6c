"""The comparison with the prior art XWWL20: a homomorphic baseline on the same votes in the same run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sedml.lab.bench import Report
from sedml.lab.bench.workload import random_votes
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import (
    OTHER,
    PAPER,
    PLAIN,
    RIGHT,
    Series,
    bar_chart,
    canvas,
    cost_panels,
    kilobytes,
    legend,
    log_axis,
    seconds,
)
from sedml.lab.reproduce.item_result import Cell, Chart, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.measuring import SIGMA, TRANSPORTS, measure, paper_tasks
from sedml.lab.reproduce.scale import Settings

if TYPE_CHECKING:
    from sedml.lab.homomorphic import BaselineReport

__all__ = ["TITLE", "Scaled", "run", "scaled"]

TITLE = "Prior art: against homomorphic encryption"

_PAPER = (
    "XWWL20 takes 43 times as long as SEDML (every phase at least 32 times) and 1.23 times the traffic, which makes "
    f"{published.SECONDS['total'] * published.SECONDS_RATIO:,.0f} s and "
    f"{published.KB['total'] * published.BYTES_RATIO:,.0f} KB for 1,000 samples."
)
_PHASES = ("count", "highest", "threshold", "label")


@dataclass(frozen=True)
class Scaled:
    """A baseline's cost of a whole job, scaled from the samples it was run on."""

    key_bits: int
    run: int
    answered: int
    seconds: dict[str, float]
    server_bytes: float
    teacher_seconds: float
    """Of all teachers together."""


def run(settings: Settings) -> ItemResult:
    """Run the baseline on a few samples of a job and both our protocols on all of them."""
    from sedml.lab.homomorphic import run_baseline

    scale = settings.scale
    settings.progress("ours", 0, 1)
    tasks = paper_tasks(scale)
    three, fused = measure(scale, tasks[0]), measure(scale, tasks[1])
    # The votes of the first repetition of both.
    votes = random_votes(scale.samples, 10, scale.teachers, seed=0)
    some = votes[:, : min(scale.baseline_samples, scale.samples)]
    reports = [
        run_baseline(
            some,
            classes=10,
            threshold=tasks[0].threshold,
            sigma1=SIGMA,
            sigma2=SIGMA,
            key_bits=bits,
        )
        for bits in scale.key_bits
    ]
    whole = [scaled(report, scale.samples, fused.answered) for report in reports]
    times, bytes_ = _ratios(whole[0], three)
    return ItemResult(
        name="homomorphic",
        title=TITLE,
        paper=_PAPER,
        ours=f"Our reconstruction of such a protocol, Paillier and DGK with keys of {whole[0].key_bits} bits, takes "
        f"the servers {seconds(whole[0].seconds['total'])} for {scale.samples:,} samples, {times:,.0f} times as long "
        f"as SEDML's three phases here ({seconds(three.seconds['total'])}), and {kilobytes(whole[0].server_bytes)}, "
        f"{bytes_:,.1f} times the traffic. Against the fused protocol it is {_ratios(whole[0], fused)[0]:,.0f} times "
        f"the time and {_ratios(whole[0], fused)[1]:,.1f} times the traffic. On top of that each teacher encrypts for "
        f"{seconds(whole[0].teacher_seconds / scale.teachers)}, in two rounds.",
        measured=(
            f"Ours on all {scale.samples:,} samples, {scale.teachers} teachers; {TRANSPORTS[scale.transport]}; "
            f"medians of {three.repeat} runs, the first on the baseline's votes, the others on votes of the same law.",
            f"The baseline on the first {some.shape[1]} of those samples, all teachers, keys of "
            f"{' and '.join(str(bits) for bits in scale.key_bits)} bits; one core, one process, no network, "
            f"{reports[0].arithmetic}; every answer checked.",
        ),
        modelled=(
            f"The baseline's figures for {scale.samples:,} samples are scaled from {some.shape[1]}: counting, "
            "highest vote and threshold by the number of samples, the label phase by the number that passed. It "
            "works sample by sample, so the only error is in which samples were run.",
            "XWWL20's code is not public: the baseline is our own design of its kind, made as fast as we could, not a "
            "measurement of XWWL20 itself.",
        ),
        headlines=(
            Headline(
                f"time of the prior art against SEDML's three phases, {whole[0].key_bits} bits",
                f"{published.SECONDS_RATIO:g} times",
                f"{times:,.0f} times",
                "scaled from a sample",
            ),
            Headline(
                f"traffic of the prior art against SEDML's three phases, {whole[0].key_bits} bits",
                f"{published.BYTES_RATIO:g} times",
                f"{bytes_:,.1f} times",
                "scaled from a sample",
            ),
        ),
        tables=(_table(reports, whole, three, fused), _ratio_table(whole, three, fused)),
        charts=(_cost_chart(whole, three, fused), _ratio_chart(whole, three, fused)),
        agrees=three.matches_ideal and fused.matches_ideal and all(report.matches_ideal for report in reports),
    )


def scaled(report: BaselineReport, samples: int, answered: int) -> Scaled:
    """A baseline's cost for `samples` samples of which `answered` pass.

    Where none of the few that were run has passed, the label phase is taken to cost what the highest vote did.
    """
    each = samples / report.samples
    passed = answered / report.answered if report.answered else 0.0
    times = {phase: report.seconds[phase] * each for phase in ("count", "highest", "threshold")}
    sent = sum(report.server_bytes[phase] for phase in ("count", "highest", "threshold")) * each
    if report.answered:
        times["label"] = report.seconds["label"] * passed
        sent += report.server_bytes["label"] * passed
    else:
        times["label"] = report.seconds["highest"] * answered / report.samples
        sent += report.server_bytes["highest"] * answered / report.samples
    times["total"] = sum(times.values())
    return Scaled(
        report.key_bits, report.samples, report.answered, times, sent, report.seconds["teachers"] * each
    )  # fmt: skip


def _ratios(baseline: Scaled, ours: Report) -> tuple[float, float]:
    """How many times the time and the traffic of ours it takes."""
    return baseline.seconds["total"] / ours.seconds["total"], baseline.server_bytes / ours.bytes["servers"]


def _table(reports: list[BaselineReport], whole: list[Scaled], three: Report, fused: Report) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (f"baseline, {one.key_bits} bits", one.run, f"scaled from {one.run} samples",
         *(one.seconds[phase] for phase in _PHASES), one.seconds["total"], one.teacher_seconds, one.server_bytes / 1e6,
         report.rounds)
        for one, report in zip(whole, reports, strict=True)
    ]  # fmt: skip
    for name, ours in (("ours, the paper's three phases", three), ("ours, fused", fused)):
        rows.append(
            (name, ours.samples, "measured", *(ours.seconds[phase] or None for phase in _PHASES), ours.seconds["total"],
             None, ours.bytes["servers"] / 1e6, ours.rounds["total"])
        )  # fmt: skip
    return Table(
        name="homomorphic",
        title=f"Cost of {three.samples:,} samples",
        columns=(
            Column("system", "system"),
            Column("samples_run", "samples run", ","),
            Column("basis", "figures are"),
            Column("count_s", "count, s", ".4g"),
            Column("highest_s", "highest, s", ".4g"),
            Column("threshold_s", "threshold, s", ".4g"),
            Column("label_s", "label, s", ".4g"),
            Column("servers_s", "servers, s", ".4g"),
            Column("teachers_s", "all teachers, s", ".4g"),
            Column("server_mb", "between servers, MB", ".3g"),
            Column("rounds", "rounds", ","),
        ),
        rows=tuple(rows),
        note="The baseline's rounds are one-way messages that wait for each other; ours are exchanges.",
    )


def _ratio_table(whole: list[Scaled], three: Report, fused: Report) -> Table:
    rows: list[tuple[Cell, ...]] = [
        ("XWWL20 against SEDML, by the paper", published.SECONDS_RATIO, published.BYTES_RATIO)
    ]
    for one in whole:
        for name, ours in (("our three phases", three), ("our fused protocol", fused)):
            rows.append((f"baseline, {one.key_bits} bits, against {name}", *_ratios(one, ours)))
    return Table(
        name="homomorphic_ratios",
        title="How many times more",
        columns=(
            Column("pair", ""),
            Column("time", "times the time", ",.4g"),
            Column("traffic", "times the traffic", ",.3g"),
        ),
        rows=tuple(rows),
    )


def _cost_chart(whole: list[Scaled], three: Report, fused: Report) -> Chart:
    names = ["XWWL20, by the paper", "the paper's SEDML", *(f"baseline, {one.key_bits} bits" for one in whole)]
    names += ["ours, three phases", "ours, fused"]

    def series(paper: float, ratio: float, baseline: list[float], ours: list[float]) -> list[Series]:
        none: list[float | None] = [None] * len(whole)
        return [
            ("quoted from the paper", PAPER, [paper * ratio, paper, *none, None, None]),
            ("baseline, scaled from a sample", OTHER, [None, None, *baseline, None, None]),
            ("ours, measured", RIGHT, [None, None, *none, *ours]),
        ]

    quoted = published.SECONDS["total"], published.KB["total"] * 1e3
    times = [one.seconds["total"] for one in whole], [one.seconds["total"] for one in (three, fused)]
    sent = [one.server_bytes for one in whole], [float(one.bytes["servers"]) for one in (three, fused)]
    figure = cost_panels(
        names,
        (
            (series(quoted[0], published.SECONDS_RATIO, *times), "servers' time (logarithmic)", seconds),
            (series(quoted[1], published.BYTES_RATIO, *sent), "between the servers (logarithmic)", kilobytes),
        ),
    )
    return Chart("homomorphic", f"Time and traffic of the servers for {three.samples:,} samples.", figure)


def _times(value: float) -> str:
    return f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"


def _ratio_chart(whole: list[Scaled], three: Report, fused: Report) -> Chart:
    figure, panels = canvas(10.4, 1.5 + 0.8 * len(whole), 2)
    groups = [f"baseline, {one.key_bits} bits" for one in whole]
    shown = (published.SECONDS_RATIO, "times the time"), (published.BYTES_RATIO, "times the traffic")
    for place, (axes, (known, label)) in enumerate(zip(panels, shown, strict=True)):
        bar_chart(
            axes,
            groups,
            (
                ("against our three phases", PLAIN, [_ratios(one, three)[place] for one in whole]),
                ("against our fused protocol", RIGHT, [_ratios(one, fused)[place] for one in whole]),
            ),
            f"{label} of SEDML (logarithmic)",
            _times,
        )
        axes.axvline(known, color=PAPER, lw=2, label="the paper's figure")
        axes.set_xlim(left=min(axes.get_xlim()[0], known / 3))
        log_axis(axes, "x", _times)
        axes.set_title(f"the paper: {known:g}", fontsize=10, color=PAPER)
    panels[1].set_yticklabels([])
    legend(figure, panels[0])
    return Chart("homomorphic_ratio", "How many times more the homomorphic baseline needs.", figure)
