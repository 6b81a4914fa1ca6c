"""Table 1: time of the three phases, 1,000 samples, 10 classes, 250 teachers."""

from __future__ import annotations

from sedml.lab.bench import Report
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import PAPER, PLAIN, RIGHT, bar_chart, canvas, legend, seconds
from sedml.lab.reproduce.item_result import Cell, Chart, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.measuring import TRANSPORTS, measure, paper_tasks
from sedml.lab.reproduce.scale import Settings

__all__ = ["PHASE_NAMES", "TITLE", "run"]

TITLE = "Table 1: time by phase"

PHASE_NAMES = {
    "count": "counting the votes",
    "highest": "1. highest vote",
    "threshold": "2. threshold check",
    "label": "3. consensus label",
    "total": "in all",
}


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
        "times less. The machines differ, so the last digit of these factors means nothing; the order of magnitude "
        "is the batching of all samples into one message a round.",
        measured=(
            f"{job}; {TRANSPORTS[scale.transport]}; median of {three.repeat} runs; noise drawn by both servers.",
            f"{three.answered:,} samples passed the threshold in the three phases and {fused.answered:,} in the fused "
            "protocol; every label was checked against plain aggregation for the same noise.",
        ),
        modelled=("The paper's times are quoted; it does not say what link its two servers had.",),
        headlines=(
            Headline(
                f"time, the paper's three phases, {job}",
                seconds(published.SECONDS["total"]),
                seconds(three.seconds["total"]),
                f"{faster[0]:,.0f} times less",
            ),
            Headline(
                f"time, fused protocol, {job}",
                seconds(published.SECONDS["total"]),
                seconds(fused.seconds["total"]),
                f"{faster[1]:,.0f} times less",
            ),
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
    figure, [axes] = canvas(7.6, 4.6)
    phases = list(PHASE_NAMES)
    bar_chart(
        axes,
        [PHASE_NAMES[phase] for phase in phases],
        (
            ("the paper", PAPER, [published.SECONDS.get(phase) for phase in phases]),
            ("ours, the paper's three phases", PLAIN, [three.seconds[phase] for phase in phases]),
            ("ours, fused", RIGHT, [fused.seconds[phase] or None for phase in phases]),
        ),
        f"time for {three.samples:,} samples (logarithmic)",
        seconds,
    )
    legend(figure, axes)
    return Chart("table1", "Time by phase; the fused protocol has no phase for the highest vote.", figure)
