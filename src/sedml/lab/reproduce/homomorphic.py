"""The comparison with the prior art XWWL20: a homomorphic baseline on the same votes in the same run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sedml.lab.bench.workload import random_votes
from sedml.lab.homomorphic import BaselineReport, run_baseline
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import OTHER, PAPER, RIGHT, Chart, System, cost_chart, kilobytes, seconds
from sedml.lab.reproduce.measuring import LINK, SIGMA, measure, paper_tasks
from sedml.lab.reproduce.results import Column, Headline, ItemResult, Table
from sedml.lab.reproduce.scale import Settings

__all__ = ["Cost", "homomorphic", "scaled"]

_PHASES = ("count", "highest", "threshold", "label")


@dataclass(frozen=True)
class Cost:
    """What a system takes for a whole job."""

    system: str
    samples_run: int
    basis: str
    """Whether it was measured, or scaled from the samples that were run."""
    seconds: Mapping[str, float]
    server_bytes: float
    rounds: int
    teachers_s: float | None = None
    """What all teachers together took."""

    @property
    def servers_s(self) -> float:
        """The servers' time of all phases."""
        return self.seconds["total"]

    def against(self, other: Cost) -> tuple[float, float]:
        """How many times the time and the traffic of another it takes."""
        return self.servers_s / other.servers_s, self.server_bytes / other.server_bytes


def homomorphic(settings: Settings) -> ItemResult:
    """Run the baseline on a few samples of a job and both our protocols on all of them."""
    scale = settings.scale
    settings.progress("ours", 0, 1)
    tasks = paper_tasks(scale)
    measured = [measure(scale, task) for task in tasks]
    names = "ours, the paper's three phases", "ours, fused"
    three, fused = (
        Cost(name, one.task.samples, "measured", one.seconds, one.bytes["total"], one.rounds["total"])
        for name, one in zip(names, measured, strict=True)
    )
    # The votes of the first repetition of both.
    votes = random_votes(scale.samples, 10, scale.teachers, seed=0)
    some = votes[:, : min(scale.baseline_samples, scale.samples)]
    reports = [
        run_baseline(some, classes=10, threshold=tasks[0].threshold, sigma1=SIGMA, sigma2=SIGMA, key_bits=bits)
        for bits in scale.key_bits
    ]
    whole = [scaled(report, scale.samples, measured[1].answered) for report in reports]
    first, bits = whole[0], scale.key_bits[0]
    times, traffic = first.against(three)
    fused_times, fused_traffic = first.against(fused)
    return ItemResult(
        paper="XWWL20 takes 43 times as long as SEDML (every phase at least 32 times) and 1.23 times the traffic, "
        f"which makes {published.SECONDS['total'] * published.SECONDS_RATIO:,.0f} s and "
        f"{published.KB['total'] * published.BYTES_RATIO:,.0f} KB for 1,000 samples.",
        ours=f"Our reconstruction of such a protocol, Paillier and DGK with keys of {bits} bits, takes the servers "
        f"{seconds(first.servers_s)} for {scale.samples:,} samples, {times:,.0f} times as long as SEDML's three "
        f"phases here ({seconds(three.servers_s)}), and {kilobytes(first.server_bytes)}, {traffic:,.1f} times "
        f"the traffic. Against the fused protocol it is {fused_times:,.0f} times the time and {fused_traffic:,.1f} "
        "times the traffic. On top of that each teacher encrypts for "
        f"{seconds((first.teachers_s or 0.0) / scale.teachers)}, in two rounds.",
        measured=(
            f"Ours on all {scale.samples:,} samples, {scale.teachers} teachers; {LINK}; "
            f"medians of {measured[0].repeat} runs, the first on the baseline's votes, the others on votes of the same "
            "law.",
            f"The baseline on the first {first.samples_run} of those samples, all teachers, keys of "
            f"{' and '.join(map(str, scale.key_bits))} bits; one core, one process, no network, "
            f"{reports[0].arithmetic}; every answer checked.",
        ),
        modelled=(
            f"The baseline's figures for {scale.samples:,} samples are scaled from {first.samples_run}: counting, "
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
        tables=(_cost_table([*whole, three, fused]), _ratio_table(whole, three, fused)),
        charts=[_chart(whole, [three, fused])],
        agrees=all(one.matches_ideal for one in measured) and all(one.matches_ideal for one in reports),
    )


def scaled(report: BaselineReport, samples: int, answered: int) -> Cost:
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
    name, basis = f"baseline, {report.key_bits} bits", f"scaled from {report.samples} samples"
    return Cost(name, report.samples, basis, times, sent, report.rounds, report.seconds["teachers"] * each)


def _cost_table(costs: list[Cost]) -> Table:
    return Table(
        "homomorphic",
        f"Cost of {costs[-1].samples_run:,} samples",
        (
            Column("system", "system"),
            Column("samples_run", "samples run", ","),
            Column("basis", "figures are"),
            Column("count_s", "count, s", ".4g", lambda cost: cost.seconds["count"] or None),
            Column("highest_s", "highest, s", ".4g", lambda cost: cost.seconds["highest"] or None),
            Column("threshold_s", "threshold, s", ".4g", lambda cost: cost.seconds["threshold"] or None),
            Column("label_s", "label, s", ".4g", lambda cost: cost.seconds["label"] or None),
            Column("servers_s", "servers, s", ".4g"),
            Column("teachers_s", "all teachers, s", ".4g"),
            Column("server_mb", "between servers, MB", ".3g", lambda cost: cost.server_bytes / 1e6),
            Column("rounds", "rounds", ","),
        ),
        costs,
        "The baseline's rounds are one-way messages that wait for each other; ours are exchanges.",
    )


def _ratio_table(whole: list[Cost], three: Cost, fused: Cost) -> Table:
    rows = {"XWWL20 against SEDML, by the paper": (published.SECONDS_RATIO, published.BYTES_RATIO)}
    for one in whole:
        for name, ours in (("our three phases", three), ("our fused protocol", fused)):
            rows[f"{one.system}, against {name}"] = one.against(ours)
    return Table(
        "homomorphic_ratios",
        "How many times more",
        (
            Column("pair", "", value=lambda pair: pair),
            Column("time", "times the time", ",.4g", lambda pair: rows[pair][0]),
            Column("traffic", "times the traffic", ",.3g", lambda pair: rows[pair][1]),
        ),
        rows,
    )


def _chart(whole: list[Cost], ours: list[Cost]) -> Chart:
    quoted, scaled_up, measured = (
        ("quoted from the paper", PAPER), ("baseline, scaled from a sample", OTHER), ("ours, measured", RIGHT)
    )  # fmt: skip
    time, sent = published.SECONDS["total"], published.KB["total"] * 1e3
    systems: list[System] = [
        ("XWWL20, by the paper", quoted, (time * published.SECONDS_RATIO, sent * published.BYTES_RATIO)),
        ("the paper's SEDML", quoted, (time, sent)),
        *((one.system, scaled_up, (one.servers_s, one.server_bytes)) for one in whole),
        *((one.system, measured, (one.servers_s, one.server_bytes)) for one in ours),
    ]
    caption = f"Time and traffic of the servers for {ours[0].samples_run:,} samples."
    return cost_chart("homomorphic", caption, systems, ("servers' time", "between the servers"))
