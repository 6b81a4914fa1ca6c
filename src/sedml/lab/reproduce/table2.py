"""Table 2: traffic between the two servers by phase, 1,000 samples, 10 classes, 250 teachers."""

from __future__ import annotations

from sedml.lab.bench.workload import random_votes
from sedml.lab.paper.lab_run import LabStats
from sedml.lab.reproduce import published
from sedml.lab.reproduce.drawing import kilobytes
from sedml.lab.reproduce.item_result import Cell, Chart, Column, ItemResult, Table
from sedml.lab.reproduce.labelling import Labelled, label_votes
from sedml.lab.reproduce.measuring import paper_tasks
from sedml.lab.reproduce.phases import PHASE_NAMES, phase_chart, phase_headlines
from sedml.lab.reproduce.scale import Settings

__all__ = ["TITLE", "run"]

TITLE = "Table 2: traffic between the servers by phase"
_KB = 1000


def run(settings: Settings) -> ItemResult:
    """Count the bytes of the paper's three phases and of the fused protocol on the same votes."""
    scale = settings.scale
    tasks = paper_tasks(scale)
    votes = random_votes(scale.samples, 10, scale.teachers, seed=0)
    settings.progress("the paper's phases", 0, 2)
    three = label_votes(tasks[0], votes)
    settings.progress("fused", 1, 2)
    fused = label_votes(tasks[1], votes)
    whole = published.KB["total"] * _KB
    less = whole / three.stats.server_bytes, whole / fused.stats.server_bytes
    counting = fused.stats.phases["count"].bytes
    rest = whole / (fused.stats.server_bytes - counting)
    job = f"{scale.samples:,} samples, 10 classes, {scale.teachers} teachers"
    passed = [int((made.secure >= 0).sum()) for made in (three, fused)]
    return ItemResult(
        name="table2",
        title=TITLE,
        paper="Messages among the servers: 29,628 KB, 3,292 KB and 28,201 KB, together 61,121 KB for 1,000 samples.",
        ours=f"The same three phases in the same ring of 32 bits: {kilobytes(three.stats.server_bytes)}, "
        f"{less[0]:.1f} times less. The fused protocol: {kilobytes(fused.stats.server_bytes)}, {less[1]:.0f} times "
        f"less, of which {kilobytes(counting)} count votes that cannot be stuffed; from counts on it sends "
        f"{rest:,.0f} times less.",
        measured=(
            f"{job}; the bytes of all frames in both directions, headers included, as the channel counts them (TLS and "
            "TCP add a few per cent). They depend on the terms and on how many samples pass, not on the machine.",
            f"{passed[0]:,} samples passed the threshold in the three phases, {passed[1]:,} in the fused protocol; "
            "in the paper about 95 in 100 did, by the ratio of its phases 3 and 1.",
        ),
        modelled=("A KB is taken as 1,000 bytes, here and in the paper's figures, which do not say.",),
        headlines=phase_headlines(
            "traffic",
            job,
            f"{published.KB['total']:,} KB",
            (kilobytes(three.stats.server_bytes), kilobytes(fused.stats.server_bytes)),
            less,
        ),
        tables=(_table(three.stats, fused.stats),),
        charts=(_chart(three, fused),),
        agrees=three.agrees and fused.agrees,
    )


def _bytes(stats: LabStats, phase: str) -> int:
    return stats.server_bytes if phase == "total" else stats.phases[phase].bytes


def _table(three: LabStats, fused: LabStats) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for phase, name in PHASE_NAMES.items():
        theirs, same, ours = published.KB.get(phase), _bytes(three, phase), _bytes(fused, phase)
        rows.append(
            (name, theirs, same / _KB, theirs * _KB / same if theirs else None, ours / _KB if ours else None)
        )  # fmt: skip
    return Table(
        name="table2",
        title="Between the servers, both directions",
        columns=(
            Column("phase", "phase"),
            Column("paper_kb", "the paper, KB", ","),
            Column("three_phases_kb", "ours, its three phases, KB", ",.1f"),
            Column("times_less", "times less", ",.1f"),
            Column("fused_kb", "ours, fused, KB", ",.1f"),
        ),
        rows=tuple(rows),
        note=f"Before the job, the dealer sends S1 {kilobytes(three.dealer_bytes)} for the three phases and "
        f"{kilobytes(fused.dealer_bytes)} for the fused protocol; a teacher sends {sum(three.teacher_bytes):,} bytes "
        f"of one-hot shares or {sum(fused.teacher_bytes):,} bytes of index shares. The paper reports neither.",
    )


def _chart(three: Labelled, fused: Labelled) -> Chart:
    return phase_chart(
        "table2",
        "Traffic by phase. Adding up one-hot shares takes no message; counting index votes does.",
        (
            [published.KB[phase] * _KB if phase in published.KB else None for phase in PHASE_NAMES],
            [_bytes(three.stats, phase) or None for phase in PHASE_NAMES],
            [_bytes(fused.stats, phase) or None for phase in PHASE_NAMES],
        ),
        f"between the servers for {len(three.secure):,} samples (logarithmic)",
        kilobytes,
    )
