"""Table 1: time of the three phases, 1,000 samples, 10 classes, 250 teachers."""

from __future__ import annotations

from sedml.lab.bench import Report
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import seconds
from sedml.lab.reproduce.item_result import Cell, Chart, Column, ItemResult, Table
from sedml.lab.reproduce.measuring import TRANSPORTS, measure, paper_tasks
from sedml.lab.reproduce.phases import PHASE_NAMES, phase_chart, phase_headlines
from sedml.lab.reproduce.scale import Settings

__all__ = ["TITLE", "run"]

TITLE = "Table 1: time by phase"


def run(settings: Settings) -> ItemResult:
    """Time the paper's three phases as written, and the fused protocol, from votes to labels."""
    scale = settings.scale
    tasks = paper_tasks(scale)
    settings.progress("the paper's phases", 0, 2)
    three = measure(scale, tasks[0])
    settings.progress("fused", 1, 2)
    fused = measure(scale, tasks[1])
    faster = published.SECONDS["total"] / three.seconds["total"], published.SECONDS["total"] / fused.seconds["total"]
    job = f"{scale.samples:,} samples, 10 classes, {scale.teachers} teachers"
    return ItemResult(
        name="table1",
        title=TITLE,
        paper="1,000 samples, 10 classes, 250 teachers: 23.249 s, 2.5119 s and 21.575 s, together 47.3359 s; "
        "Python on an AMD Ryzen 5 4600H, mean of 10 runs.",
        ours=f"The same three phases, in the same ring of 32 bits, take {seconds(three.seconds['total'])} from the "
        f"shares of {scale.teachers} teachers' votes to shares of the labels: {faster[0]:,.0f} times less. The fused "
        f"protocol, with votes that cannot be stuffed, takes {seconds(fused.seconds['total'])}: {faster[1]:,.0f} "
        "times less. The machines differ, so only the order of magnitude of these factors means anything; it comes "
        "from sending one message per round for all samples together.",
        measured=(
            f"{job}; {TRANSPORTS[scale.transport]}; median of {three.repeat} runs; noise drawn by both servers.",
            f"{three.answered:,} samples passed the threshold in the three phases and {fused.answered:,} in the fused "
            "protocol; every label was checked against plain aggregation for the same noise.",
        ),
        modelled=("The paper's times are quoted; it does not say what link its two servers had.",),
        headlines=phase_headlines(
            "time",
            job,
            seconds(published.SECONDS["total"]),
            (seconds(three.seconds["total"]), seconds(fused.seconds["total"])),
            faster,
        ),
        tables=(_table(three, fused),),
        charts=(_chart(three, fused),),
        agrees=three.matches_ideal and fused.matches_ideal,
    )


def _table(three: Report, fused: Report) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for phase, name in PHASE_NAMES.items():
        theirs, same = published.SECONDS.get(phase), three.seconds[phase]
        ours = None if phase == "highest" else fused.seconds[phase]
        rows.append(
            (name, theirs, same * 1e3, theirs / same if theirs else None, None if ours is None else ours * 1e3,
             fused.rounds[phase] if ours is not None else None, three.rounds[phase])
        )  # fmt: skip
    return Table(
        name="table1",
        title="Running time",
        columns=(
            Column("phase", "phase"),
            Column("paper_s", "the paper, s", ",.4f"),
            Column("three_phases_ms", "ours, its three phases, ms", ",.2f"),
            Column("times_faster", "times faster", ",.0f"),
            Column("fused_ms", "ours, fused, ms", ",.2f"),
            Column("fused_rounds", "rounds, fused", ","),
            Column("three_phases_rounds", "rounds, three phases", ","),
        ),
        rows=tuple(rows),
        note="The paper adds up the shares of the votes in its phase 1 (line 5). The fused protocol counts index "
        "votes under encryption and never computes the highest vote.",
    )


def _chart(three: Report, fused: Report) -> Chart:
    return phase_chart(
        "table1",
        "Time by phase; the fused protocol has no phase for the highest vote.",
        (
            [published.SECONDS.get(phase) for phase in PHASE_NAMES],
            [three.seconds[phase] for phase in PHASE_NAMES],
            [fused.seconds[phase] or None for phase in PHASE_NAMES],
        ),
        f"time for {three.samples:,} samples (logarithmic)",
        seconds,
    )
