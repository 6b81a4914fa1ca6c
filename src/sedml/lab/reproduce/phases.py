"""The paper's two tables, time and traffic by phase: 1,000 samples, 10 classes, 250 teachers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sedml.lab.bench.workload import random_votes
from sedml.lab.paper.lab_run import LabStats, run_votes
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, PLAIN, RIGHT, Chart, Panel, Series, kilobytes, seconds
from sedml.lab.reproduce.measuring import LINK, measure, paper_tasks
from sedml.lab.reproduce.results import Column, Headline, ItemResult, Table
from sedml.lab.reproduce.scale import Scale, Settings
from sedml.protocol.votes import histogram

__all__ = ["table1", "table2"]

_PHASES = {
    "count": "counting the votes",
    "highest": "1. highest vote",
    "threshold": "2. threshold check",
    "label": "3. consensus label",
    "total": "in all",
}
_KB = 1000


@dataclass(frozen=True)
class _Costs:
    """What each phase costs: by the paper, with its three phases here, and with the fused protocol."""

    paper: Mapping[str, float]
    three: Mapping[str, float]
    fused: Mapping[str, float]

    @property
    def times_less(self) -> tuple[float, float]:
        """How many times less than in the paper a whole job costs with each protocol."""
        return self.paper["total"] / self.three["total"], self.paper["total"] / self.fused["total"]

    def less(self, phase: str) -> float | None:
        """How many times less than in the paper a phase costs with its protocol, if the paper has that phase."""
        return self.paper[phase] / self.three[phase] if phase in self.paper else None

    def chart(self, name: str, caption: str, label: str, unit: Callable[[float], str]) -> Chart:
        """Bars by phase."""
        looks = (
            (self.paper, "the paper", PAPER),
            (self.three, "ours, the paper's three phases", PLAIN),
            (self.fused, "ours, fused", RIGHT),
        )
        series = [Series(who, colour, [costs.get(phase) for phase in _PHASES]) for costs, who, colour in looks]
        return Chart(name, caption, [Panel(series, label, unit=unit)], groups=list(_PHASES.values()))

    def headlines(self, what: str, job: str, paper: str, unit: Callable[[float], str]) -> list[Headline]:
        """The whole job with each protocol next to the paper's figure."""
        whole = ("the paper's three phases", self.three), ("fused protocol", self.fused)
        return [
            Headline(f"{what}, {protocol}, {job}", paper, unit(own["total"]), f"{less:,.0f} times less")
            for (protocol, own), less in zip(whole, self.times_less, strict=True)
        ]


def table1(settings: Settings) -> ItemResult:
    """Time the paper's three phases as written, and the fused protocol, from votes to labels."""
    scale = settings.scale
    tasks = paper_tasks(scale)
    settings.progress("the paper's phases", 0, 2)
    three = measure(scale, tasks[0])
    settings.progress("fused", 1, 2)
    fused = measure(scale, tasks[1])
    costs = _Costs(published.SECONDS, three.seconds, fused.seconds)
    return ItemResult(
        paper="1,000 samples, 10 classes, 250 teachers: 23.249 s, 2.5119 s and 21.575 s, together 47.3359 s; "
        "Python on an AMD Ryzen 5 4600H, mean of 10 runs.",
        ours=f"The same three phases, in the same ring of 32 bits, take {seconds(three.seconds['total'])} from the "
        f"shares of {scale.teachers} teachers' votes to shares of the labels: {costs.times_less[0]:,.0f} times less. "
        f"The fused protocol takes {seconds(fused.seconds['total'])}: "
        f"{costs.times_less[1]:,.0f} times less. The machines differ, so only the order of magnitude of these factors "
        "means anything; it comes from sending one message per round for all samples together.",
        measured=(
            f"{_job(scale)}; {LINK}; median of {three.repeat} runs; noise drawn by both servers.",
            f"{three.answered:,} samples passed the threshold in the three phases and {fused.answered:,} in the fused "
            "protocol; every label was checked against plain aggregation for the same noise.",
        ),
        modelled=("The paper's times are quoted; it does not say what link its two servers had.",),
        headlines=costs.headlines("time", _job(scale), seconds(published.SECONDS["total"]), seconds),
        tables=[
            Table(
                "table1",
                "Running time",
                (
                    Column("phase", "phase", value=_PHASES.get),
                    Column("paper_s", "the paper, s", ",.4f", costs.paper.get),
                    Column("three_phases_ms", "ours, its three phases, ms", ",.2f", lambda x: costs.three[x] * 1e3),
                    Column("times_faster", "times faster", ",.0f", costs.less),
                    Column("fused_ms", "ours, fused, ms", ",.2f", lambda x: costs.fused[x] * 1e3 or None),
                    Column("fused_rounds", "rounds, fused", ",", lambda x: fused.rounds[x] or None),
                    Column("three_phases_rounds", "rounds, three phases", ",", three.rounds.get),
                ),
                _PHASES,
                "The paper adds up the shares of the votes in its phase 1 (line 5). The fused protocol never computes "
                "the highest vote.",
            )
        ],
        charts=[
            costs.chart(
                "table1",
                "Time by phase; the fused protocol has no phase for the highest vote.",
                f"time for {scale.samples:,} samples (logarithmic)",
                seconds,
            )
        ],
        agrees=three.matches_ideal and fused.matches_ideal,
    )


def table2(settings: Settings) -> ItemResult:
    """Count the bytes of the paper's three phases and of the fused protocol on the same votes."""
    scale = settings.scale
    tasks = paper_tasks(scale)
    votes = random_votes(scale.samples, 10, scale.teachers, seed=0)
    settings.progress("the paper's phases", 0, 2)
    three = run_votes(tasks[0], votes)
    settings.progress("fused", 1, 2)
    fused = run_votes(tasks[1], votes)
    paper = {phase: float(kb * _KB) for phase, kb in published.KB.items()}
    costs = _Costs(paper, _bytes(three.stats), _bytes(fused.stats))
    whole = costs.fused["total"]
    passed = [int((run.labels >= 0).sum()) for run in (three, fused)]
    return ItemResult(
        paper="Messages among the servers: 29,628 KB, 3,292 KB and 28,201 KB, together 61,121 KB for 1,000 samples.",
        ours=f"The same three phases in the same ring of 32 bits: {kilobytes(costs.three['total'])}, "
        f"{costs.times_less[0]:.1f} times less. The fused protocol: {kilobytes(whole)}, {costs.times_less[1]:.0f} "
        "times less.",
        measured=(
            f"{_job(scale)}; the bytes of all frames in both directions, headers included, as the channel counts them "
            "(TLS and TCP add a few per cent). They depend on the terms and on how many samples pass, not on the "
            "machine.",
            f"{passed[0]:,} samples passed the threshold in the three phases, {passed[1]:,} in the fused protocol; "
            "in the paper about 95 in 100 did, by the ratio of its phases 3 and 1.",
        ),
        modelled=("A KB is taken as 1,000 bytes, here and in the paper's figures, which do not say.",),
        headlines=costs.headlines("traffic", _job(scale), f"{published.KB['total']:,} KB", kilobytes),
        tables=[
            Table(
                "table2",
                "Between the servers, both directions",
                (
                    Column("phase", "phase", value=_PHASES.get),
                    Column("paper_kb", "the paper, KB", ",", published.KB.get),
                    Column("three_phases_kb", "ours, its three phases, KB", ",.1f", lambda x: costs.three[x] / _KB),
                    Column("times_less", "times less", ",.1f", costs.less),
                    Column("fused_kb", "ours, fused, KB", ",.1f", lambda x: costs.fused[x] / _KB or None),
                ),
                _PHASES,
                f"Before the job, the dealer sends S1 {kilobytes(three.stats.dealer_bytes)} for the three phases and "
                f"{kilobytes(fused.stats.dealer_bytes)} for the fused protocol; a teacher sends "
                f"{sum(tasks[0].teacher_bytes):,} bytes of one-hot shares or, in the narrower ring of the fused "
                f"protocol, {sum(tasks[1].teacher_bytes):,}. The paper reports neither.",
            )
        ],
        charts=[
            costs.chart(
                "table2",
                "Traffic by phase. Adding up votes takes no message.",
                f"between the servers for {scale.samples:,} samples (logarithmic)",
                kilobytes,
            )
        ],
        agrees=all(run.is_ideal(histogram(votes, 10)) for run in (three, fused)),
    )


def _job(scale: Scale) -> str:
    return f"{scale.samples:,} samples, 10 classes, {scale.teachers} teachers"


def _bytes(stats: LabStats) -> Mapping[str, int]:
    return {phase: cost.bytes for phase, cost in stats.phases.items()} | {"total": stats.server_bytes}
