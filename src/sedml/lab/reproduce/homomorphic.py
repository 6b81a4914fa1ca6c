"""The comparison with the prior art XWWL20: a homomorphic baseline on the same votes in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sedml.lab.bench import Report
from sedml.lab.bench.workload import random_votes
from sedml.lab.homomorphic import BaselineReport, run_baseline
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import OTHER, PAPER, RIGHT, Chart, Panel, Series, kilobytes, seconds
from sedml.lab.reproduce.measuring import SIGMA, TRANSPORTS, measure, paper_tasks
from sedml.lab.reproduce.results import Cell, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.scale import Settings

__all__ = ["Scaled", "homomorphic", "scaled"]

_PHASES = ("count", "highest", "threshold", "label")


@dataclass(frozen=True)
class Scaled:
    """A baseline's cost of a whole job, scaled from the samples it was run on."""

    name: str
    run: int
    rounds: int
    seconds: dict[str, float]
    server_bytes: float
    teacher_seconds: float
    """What all teachers together took."""

    def against(self, ours: Report) -> tuple[float, float]:
        """How many times the time and the traffic of ours it takes."""
        return self.seconds["total"] / ours.seconds["total"], self.server_bytes / ours.bytes["servers"]


def homomorphic(settings: Settings) -> ItemResult:
    """Run the baseline on a few samples of a job and both our protocols on all of them."""
    scale = settings.scale
    settings.progress("ours", 0, 1)
    tasks = paper_tasks(scale)
    three, fused = measure(scale, tasks[0]), measure(scale, tasks[1])
    # The votes of the first repetition of both.
    votes = random_votes(scale.samples, 10, scale.teachers, seed=0)
    some = votes[:, : min(scale.baseline_samples, scale.samples)]
    reports = [
        run_baseline(some, classes=10, threshold=tasks[0].threshold, sigma1=SIGMA, sigma2=SIGMA, key_bits=bits)
        for bits in scale.key_bits
    ]
    whole = [scaled(report, scale.samples, fused.answered) for report in reports]
    first, bits = whole[0], scale.key_bits[0]
    times, traffic = first.against(three)
    fused_times, fused_traffic = first.against(fused)
    return ItemResult(
        paper="XWWL20 takes 43 times as long as SEDML (every phase at least 32 times) and 1.23 times the traffic, "
        f"which makes {published.SECONDS['total'] * published.SECONDS_RATIO:,.0f} s and "
        f"{published.KB['total'] * published.BYTES_RATIO:,.0f} KB for 1,000 samples.",
        ours=f"Our reconstruction of such a protocol, Paillier and DGK with keys of {bits} bits, takes the servers "
        f"{seconds(first.seconds['total'])} for {scale.samples:,} samples, {times:,.0f} times as long as SEDML's three "
        f"phases here ({seconds(three.seconds['total'])}), and {kilobytes(first.server_bytes)}, {traffic:,.1f} times "
        f"the traffic. Against the fused protocol it is {fused_times:,.0f} times the time and {fused_traffic:,.1f} "
        "times the traffic. On top of that each teacher encrypts for "
        f"{seconds(first.teacher_seconds / scale.teachers)}, in two rounds.",
        measured=(
            f"Ours on all {scale.samples:,} samples, {scale.teachers} teachers; {TRANSPORTS[scale.transport]}; "
            f"medians of {three.repeat} runs, the first on the baseline's votes, the others on votes of the same law.",
            f"The baseline on the first {first.run} of those samples, all teachers, keys of "
            f"{' and '.join(map(str, scale.key_bits))} bits; one core, one process, no network, "
            f"{reports[0].arithmetic}; every answer checked.",
        ),
        modelled=(
            f"The baseline's figures for {scale.samples:,} samples are scaled from {first.run}: counting, "
            "highest vote and threshold by the number of samples, the label phase by the number that passed. It "
            "works sample by sample, so the only error is in which samples were run.",
            "XWWL20's code is not public: the baseline is our own design of its kind, made as fast as we could, not a "
            "measurement of XWWL20 itself.",
        ),
        headlines=[
            Headline(
                f"{what} of the prior art against SEDML's three phases, {bits} bits",
                f"{known:g} times",
                ours,
                "scaled from a sample",
            )
            for what, known, ours in (
                ("time", published.SECONDS_RATIO, f"{times:,.0f} times"),
                ("traffic", published.BYTES_RATIO, f"{traffic:,.1f} times"),
            )
        ],
        tables=(_cost_table(whole, three, fused), _ratio_table(whole, three, fused)),
        charts=[_chart(whole, three, fused)],
        agrees=three.matches_ideal and fused.matches_ideal and all(report.matches_ideal for report in reports),
    )


def scaled(report: BaselineReport, samples: int, answered: int) -> Scaled:
    """A baseline's cost for `samples` samples of which `answered` pass.

    Where none of the few that were run has passed, the label phase is taken to cost what the highest vote did.
    """
    each = samples / report.samples
    factors = dict.fromkeys(("count", "highest", "threshold"), each)
    factors["label"] = answered / (report.answered or report.samples)
    known = {phase: phase if phase != "label" or report.answered else "highest" for phase in _PHASES}
    times = {phase: report.seconds[known[phase]] * factors[phase] for phase in _PHASES}
    times["total"] = sum(times.values())
    sent = sum(report.server_bytes[known[phase]] * factors[phase] for phase in _PHASES)
    name = f"baseline, {report.key_bits} bits"
    return Scaled(name, report.samples, report.rounds, times, sent, report.seconds["teachers"] * each)


def _cost_table(whole: list[Scaled], three: Report, fused: Report) -> Table:
    rows: list[Sequence[Cell]] = [
        (one.name, one.run, f"scaled from {one.run} samples", *(one.seconds[phase] for phase in _PHASES),
         one.seconds["total"], one.teacher_seconds, one.server_bytes / 1e6, one.rounds)
        for one in whole
    ]  # fmt: skip
    rows += [
        (name, ours.samples, "measured", *(ours.seconds[phase] or None for phase in _PHASES), ours.seconds["total"],
         None, ours.bytes["servers"] / 1e6, ours.rounds["total"])
        for name, ours in (("ours, the paper's three phases", three), ("ours, fused", fused))
    ]  # fmt: skip
    return Table(
        "homomorphic",
        f"Cost of {three.samples:,} samples",
        (
            Column("system", "system"),
            Column("samples_run", "samples run", ","),
            Column("basis", "figures are"),
            *(Column(f"{phase}_s", f"{phase}, s", ".4g") for phase in _PHASES),
            Column("servers_s", "servers, s", ".4g"),
            Column("teachers_s", "all teachers, s", ".4g"),
            Column("server_mb", "between servers, MB", ".3g"),
            Column("rounds", "rounds", ","),
        ),
        rows,
        "The baseline's rounds are one-way messages that wait for each other; ours are exchanges.",
    )  # fmt: skip


def _ratio_table(whole: list[Scaled], three: Report, fused: Report) -> Table:
    ours = ("our three phases", three), ("our fused protocol", fused)
    return Table(
        "homomorphic_ratios",
        "How many times more",
        (
            Column("pair", ""),
            Column("time", "times the time", ",.4g"),
            Column("traffic", "times the traffic", ",.3g"),
        ),
        [
            ("XWWL20 against SEDML, by the paper", published.SECONDS_RATIO, published.BYTES_RATIO),
            *((f"{one.name}, against {name}", *one.against(own)) for one in whole for name, own in ours),
        ],
    )


def _chart(whole: list[Scaled], three: Report, fused: Report) -> Chart:
    def series(paper: float, ratio: float, baseline: list[float], ours: list[float]) -> list[Series]:
        none: list[float | None] = [None] * len(whole)
        return [
            Series("quoted from the paper", PAPER, [paper * ratio, paper, *none, None, None]),
            Series("baseline, scaled from a sample", OTHER, [None, None, *baseline, None, None]),
            Series("ours, measured", RIGHT, [None, None, *none, *ours]),
        ]

    quoted = published.SECONDS["total"], published.KB["total"] * 1e3
    times = [one.seconds["total"] for one in whole], [one.seconds["total"] for one in (three, fused)]
    sent = [one.server_bytes for one in whole], [float(one.bytes["servers"]) for one in (three, fused)]
    groups = (
        "XWWL20, by the paper",
        "the paper's SEDML",
        *(one.name for one in whole),
        "ours, three phases",
        "ours, fused",
    )
    return Chart(
        "homomorphic",
        f"Time and traffic of the servers for {three.samples:,} samples.",
        (
            Panel(series(quoted[0], published.SECONDS_RATIO, *times), "servers' time (logarithmic)", unit=seconds),
            Panel(series(quoted[1], published.BYTES_RATIO, *sent), "between the servers (logarithmic)", unit=kilobytes),
        ),
        groups=groups,
        size=(10.4, 1.7 + 0.42 * len(groups)),
    )
