"""The paper's two tables, time and traffic by phase: 1,000 samples, 10 classes, 250 teachers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sedml.lab.bench.workload import random_votes
from sedml.lab.paper.lab_run import run, vote_loaders
from sedml.lab.report.charts import PLAIN
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, Chart, Panel, Series, kilobytes, seconds
from sedml.lab.reproduce.measuring import LINK, measure, paper_task
from sedml.lab.reproduce.results import Column, Headline, ItemResult, Table
from sedml.lab.reproduce.scale import Scale, Settings
from sedml.mpc.channel import PhaseCost
from sedml.protocol.votes import histogram

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
    """What each phase costs: by the paper, and with its three phases here."""

    paper: Mapping[str, float]
    ours: Mapping[str, float]

    def less(self, phase: str) -> float | None:
        """How many times less than in the paper a phase costs here, if the paper has that phase."""
        return self.paper[phase] / self.ours[phase] if phase in self.paper else None

    @property
    def times_less(self) -> float:
        """How many times less than in the paper a whole job costs here."""
        return self.paper["total"] / self.ours["total"]

    def chart(self, name: str, caption: str, label: str, unit: Callable[[float], str]) -> Chart:
        """Bars by phase."""
        looks = (self.paper, "the paper", PAPER), (self.ours, "ours, the paper's three phases", PLAIN)
        series = [Series(who, colour, [costs.get(phase) for phase in _PHASES]) for costs, who, colour in looks]
        return Chart(name, caption, [Panel(series, label, unit=unit)], groups=list(_PHASES.values()))

    def headlines(self, what: str, job: str, paper: str, unit: Callable[[float], str]) -> list[Headline]:
        """The whole job next to the paper's figure."""
        whole = f"{what}, the paper's three phases, {job}"
        return [Headline(whole, paper, unit(self.ours["total"]), f"{self.times_less:,.0f} times less")]


def table1(settings: Settings) -> ItemResult:
    """Time the paper's three phases as written, from votes to labels."""
    scale = settings.scale
    settings.progress("the paper's phases", 0, 1)
    found = measure(scale, paper_task(scale))
    costs = _Costs(published.SECONDS, _each(found.phases, found.stages["votes"], lambda x: x.seconds))
    rounds = _each(found.phases, found.stages["votes"], lambda x: x.rounds)
    return ItemResult(
        paper="1,000 samples, 10 classes, 250 teachers: 23.249 s, 2.5119 s and 21.575 s, together 47.3359 s; "
        "Python on an AMD Ryzen 5 4600H, mean of 10 runs.",
        ours=f"The same three phases, in the same ring of 32 bits, take {seconds(costs.ours['total'])} from the "
        f"shares of {scale.teachers} teachers' votes to shares of the labels: {costs.times_less:,.0f} times less. "
        "The machines differ, so only the order of magnitude of this factor means anything; it comes from sending one "
        "message per round for all samples together.",
        measured=(
            f"{_job(scale)}; {LINK}; median of {found.repeat} runs; noise drawn by both servers.",
            f"{found.answered:,} samples passed the threshold; every label was checked against plain aggregation for "
            "the same noise.",
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
                    Column("three_phases_ms", "ours, its three phases, ms", ",.2f", lambda x: costs.ours[x] * 1e3),
                    Column("times_faster", "times faster", ",.0f", costs.less),
                    Column("three_phases_rounds", "rounds, three phases", ",", rounds.get),
                ),
                _PHASES,
                "The paper adds up the shares of the votes in its phase 1 (line 5).",
            )
        ],
        charts=[costs.chart("table1", "Time by phase.", f"time for {scale.samples:,} samples (logarithmic)", seconds)],
        agrees=found.matches_ideal,
    )


def table2(settings: Settings) -> ItemResult:
    """Count the bytes of the paper's three phases."""
    scale, task = settings.scale, paper_task(settings.scale)
    votes = random_votes(scale.samples, 10, scale.teachers, seed=0)
    settings.progress("the paper's phases", 0, 1)
    found = run(task, vote_loaders(task, votes))
    paper = {phase: float(kb * _KB) for phase, kb in published.KB.items()}
    costs = _Costs(paper, _each(found.side.phases, found.side.votes, lambda x: x.bytes))
    return ItemResult(
        paper="Messages among the servers: 29,628 KB, 3,292 KB and 28,201 KB, together 61,121 KB for 1,000 samples.",
        ours=f"The same three phases in the same ring of 32 bits: {kilobytes(costs.ours['total'])}, "
        f"{costs.times_less:.1f} times less.",
        measured=(
            f"{_job(scale)}; the bytes of all frames in both directions, headers included, as the channel counts them "
            "(TLS and TCP add a few per cent). They depend on the terms and on how many samples pass, not on the "
            "machine.",
            f"{int((found.labels >= 0).sum()):,} samples passed the threshold; in the paper about 95 in 100 did, by "
            "the ratio of its phases 3 and 1.",
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
                    Column("three_phases_kb", "ours, its three phases, KB", ",.1f", lambda x: costs.ours[x] / _KB),
                    Column("times_less", "times less", ",.1f", costs.less),
                ),
                _PHASES,
                f"Before the job, the dealer sends S1 {kilobytes(found.side.deal.bytes)}, and a teacher sends "
                f"{sum(task.teacher_bytes):,} bytes of one-hot shares. The paper reports neither.",
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
        agrees=found.is_ideal(histogram(votes, 10)),
    )


def _job(scale: Scale) -> str:
    return f"{scale.samples:,} samples, 10 classes, {scale.teachers} teachers"


def _each(phases: Mapping[str, PhaseCost], total: PhaseCost, value: Callable[[PhaseCost], float]) -> dict[str, float]:
    """Of every phase, and of all together."""
    return {phase: value(cost) for phase, cost in phases.items()} | {"total": value(total)}
