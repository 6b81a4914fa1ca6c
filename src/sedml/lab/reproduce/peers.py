"""Other engines for secure computation on the same counts in the same run. The paper has no such comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt

from sedml.lab.bench import Report
from sedml.lab.bench.workload import random_counts
from sedml.lab.reproduce.drawing import NONE, OTHER, RIGHT, Series, cost_panels, kilobytes, seconds
from sedml.lab.reproduce.item_result import Cell, Chart, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.measuring import TRANSPORTS, measure, standard_task
from sedml.lab.reproduce.scale import Settings
from sedml.mpc.prg import Seed
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.task import Randomness, Task

if TYPE_CHECKING:
    from sedml.lab.peers import PeerResult

__all__ = ["TITLE", "run"]

TITLE = "Peers: general MPC engines on the same counts"

_PAPER = "Nothing: the paper compares only with XWWL20."
_NAMES = {"spu": "SPU", "mpyc": "MPyC", "crypten": "CrypTen", "mp-spdz": "MP-SPDZ"}
_OURS = {
    "dealer": (
        "SEDML, dealt",
        "Two servers that do not collude and a dealer that colludes with neither, semi-honest; for simulation only. "
        "The dealer is done before the job, which is not part of the time.",
    ),
    "servers": (
        "SEDML",
        "Two semi-honest servers and no dealer, as in a deployment: oblivious transfers make the one-use randomness "
        "and are part of the time and the traffic, all but the 128 base transfers, which are made once.",
    ),
}
_ALL_TRAFFIC = "all traffic, with what is dealt or made before"


def run(settings: Settings) -> ItemResult:
    """Run the same functionality in other engines, and ours beside it."""
    from sedml.lab.peers import run_peers

    scale = settings.scale
    rows: list[PeerResult] = []
    ours: list[Report] = []
    for samples in scale.peer_samples:
        task = standard_task(samples, 10, scale.teachers)
        counts = random_counts(samples, 10, scale.teachers, seed=0)
        g, g_i = _noise(task)
        settings.progress(f"ours, {samples:,} samples", 0, 1)
        ours += [measure(scale, replace(task, randomness=who)) for who in get_args(Randomness)]
        rows += run_peers(
            counts,
            task.threshold,
            g,
            g_i,
            repeat=scale.peer_repeat,
            progress=settings.progress,
        )
    ran = [row for row in rows if row.seconds is not None and row.measured == "here"]
    absent = sorted({f"{_engine(row)}: {row.skipped}." for row in rows if row.skipped and row.measured == "here"})
    checked = [row.matches_ideal for row in rows if row.matches_ideal is not None]
    return ItemResult(
        name="peers",
        title=TITLE,
        paper=_PAPER,
        ours=_words(ran, ours),
        measured=(
            f"Shared counts of {scale.teachers} teachers in, labels out, 10 classes; the same counts and noise for "
            f"every engine. SEDML has the same counts in the first of its {ours[0].repeat} runs, with noise of the "
            f"same law: {TRANSPORTS[scale.transport]}.",
        ),
        modelled=tuple(
            f"{name} is quoted as measured on another machine."
            for name in sorted(
                {_engine(row) for row in rows if row.measured == "elsewhere" and row.seconds is not None}
            )
        ),
        headlines=_headlines(ran, ours),
        tables=(_table(rows, ours), _trust_table(rows)),
        charts=tuple(chart for report in ours if (chart := _chart(rows, report)) is not None),
        skipped=" ".join(absent),
        agrees=all(checked) and all(report.matches_ideal for report in ours),
    )


def _noise(task: Task) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Noise of both servers together: g int64[Q] and g_i int64[N, Q], for engines that are told their noise."""
    both = [DrawnNoise(task, role, Seed.random()) for role in (0, 1)]
    g = [np.concatenate([one.threshold(block.index, block.samples) for block in task.blocks]) for one in both]
    g_i = [
        np.concatenate([one.label(block.index, task.classes, block.samples) for block in task.blocks], axis=1)
        for one in both
    ]
    return np.add(*g).astype(np.int64), np.add(*g_i).astype(np.int64)


def _traffic(report: Report) -> float:
    """Between the servers, before the job too, and from the dealer: what the engines' figures hold as well."""
    return float(report.bytes["servers"] + report.bytes["offline"] + report.bytes["dealer"])


def _time(report: Report) -> float:
    """With the making of the servers' own randomness."""
    return report.seconds["total"] + report.seconds["offline"]


def _undealt(row: PeerResult | Report) -> bool:
    """Whether nobody deals."""
    if isinstance(row, Report):
        return row.randomness == "servers"
    from sedml.lab.peers.table import ENGINES

    return row.engine in ENGINES and row.variant in ENGINES[row.engine].undealt


def _name(row: PeerResult) -> str:
    return f"{_engine(row)} {row.variant}".strip()


def _engine(row: PeerResult) -> str:
    return _NAMES.get(row.engine, row.engine)


def _nearest(rows: Sequence[PeerResult], report: Report) -> PeerResult | None:
    """The fastest peer at this size, with or without a dealer as ours is."""
    alike = (row for row in rows if row.samples == report.samples and _undealt(row) == _undealt(report))
    return min(alike, key=lambda row: row.seconds or 0.0, default=None)


def _group(report: Report) -> str:
    return "without a dealer" if _undealt(report) else "with a dealer"


def _words(rows: Sequence[PeerResult], ours: Sequence[Report]) -> str:
    parts = []
    for report in ours:
        best = _nearest(rows, report)
        if best is not None and best.seconds is not None:
            times = best.seconds / _time(report)
            parts.append(
                f"{report.samples:,} samples {_group(report)} take {seconds(_time(report))} here and "
                f"{seconds(best.seconds)} in the fastest peer, {_name(best)}: {times:,.1f} times as long."
            )
    return " ".join(parts) or "No other engine could be run here; the table says why."


def _headlines(rows: Sequence[PeerResult], ours: Sequence[Report]) -> tuple[Headline, ...]:
    lines = []
    for report in ours:
        best = _nearest(rows, report)
        if best is not None and best.seconds is not None:
            lines.append(
                Headline(
                    f"time against the fastest peer {_group(report)}, {report.samples:,} samples",
                    "not compared",
                    seconds(_time(report)),
                    f"{_name(best)} {seconds(best.seconds)}",
                )
            )
    return tuple(lines)


def _table(rows: Sequence[PeerResult], ours: Sequence[Report]) -> Table:
    cells: list[tuple[Cell, ...]] = [
        (_OURS[report.randomness][0], not _undealt(report), report.samples, _time(report) * 1e3, _traffic(report) / 1e3,
         report.rounds["total"] + report.rounds["offline"], report.matches_ideal, "here", None, None)
        for report in ours
    ]  # fmt: skip
    cells += [
        (_name(row), not _undealt(row), row.samples, None if row.seconds is None else row.seconds * 1e3,
         None if row.bytes is None else row.bytes / 1e3, row.rounds, row.matches_ideal, row.measured,
         row.version, row.skipped)
        for row in rows
    ]  # fmt: skip

    def order(row: tuple[Cell, ...]) -> tuple[str, bool, bool, float]:
        _, dealt, samples, ms, *_ = row
        return str(samples).rjust(9), dealt is True, ms is None, ms if isinstance(ms, float) else 0.0

    cells.sort(key=order)
    return Table(
        name="peers",
        title="The same functionality, engine by engine",
        columns=(
            Column("engine", "engine"),
            Column("dealer", "dealer"),
            Column("samples", "samples", ","),
            Column("ms", "time, ms", ",.1f"),
            Column("kb", f"{_ALL_TRAFFIC}, KB", ",.0f"),
            Column("rounds", "rounds", ","),
            Column("matches_ideal", "labels right"),
            Column("measured", "measured"),
            Column("version", "version"),
            Column("skipped", "skipped because"),
        ),
        rows=tuple(cells),
        note="Where SEDML has a dealer, that sends its part before the job, the others' dealers during it: of its "
        f"traffic at {ours[0].samples:,} samples, {kilobytes(ours[0].bytes['servers'])} are between the servers. Its "
        "link is TLS, the others' is plain TCP.",
    )


def _trust_table(rows: Sequence[PeerResult]) -> Table:
    trust = {_name(row): row.trust for row in rows}
    return Table(
        name="peers_trust",
        title="Whom you trust",
        columns=(Column("engine", "engine"), Column("trust", "who computes, who deals, who must not collude")),
        rows=(*_OURS.values(), *trust.items()),
    )


def _chart(rows: Sequence[PeerResult], report: Report) -> Chart | None:
    """The engines that have figures at this size; None where none has."""
    own = [
        row
        for row in rows
        if row.samples == report.samples and row.seconds is not None and _undealt(row) == _undealt(report)
    ]
    if not own:
        return None
    own.sort(key=lambda row: row.seconds or 0.0)

    def series(mine: float, theirs: Sequence[float | None]) -> list[Series]:
        here, quoted = (
            [value if (row.measured == "here") == measured else None for row, value in zip(own, theirs, strict=True)]
            for measured in (True, False)
        )
        bars: list[Series] = [
            ("SEDML, measured in this run", RIGHT, [mine, *[None] * len(own)]),
            ("measured in this run", OTHER, [None, *here]),
        ]
        elsewhere = any(row.measured != "here" for row in own)
        return [*bars, ("measured elsewhere", NONE, [None, *quoted])] if elsewhere else bars

    figure = cost_panels(
        [_OURS[report.randomness][0], *(_name(row) for row in own)],
        (
            (series(_time(report), [row.seconds for row in own]), "time (logarithmic)", seconds),
            (series(_traffic(report), [row.bytes for row in own]), f"{_ALL_TRAFFIC} (logarithmic)", kilobytes),
        ),
    )
    caption = f"{report.samples:,} samples, 10 classes, {_group(report)}: time and traffic of each engine."
    return Chart(f"peers_{'undealt' if _undealt(report) else 'dealt'}_{report.samples}", caption, figure)
