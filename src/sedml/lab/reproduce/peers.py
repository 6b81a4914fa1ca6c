"""Other engines for secure computation on the same counts in the same run. The paper has no such comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import numpy as np
import numpy.typing as npt

from sedml.lab.bench import Report
from sedml.lab.bench.workload import random_counts
from sedml.lab.peers.table import ENGINES, Trust
from sedml.lab.reproduce.drawing import NONE, OTHER, RIGHT, Series, cost_panels, kilobytes, seconds
from sedml.lab.reproduce.item_result import Cell, Chart, Column, Headline, ItemResult, Table
from sedml.lab.reproduce.measuring import TRANSPORTS, measure, standard_task
from sedml.lab.reproduce.scale import Settings
from sedml.mpc.prg import Seed
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.task import Protocol, Task

if TYPE_CHECKING:
    from sedml.lab.peers import PeerResult

__all__ = ["TITLE", "run"]

TITLE = "Peers: general MPC engines on the same counts"

_PAPER = "Nothing: the paper compares only with XWWL20."
_NAMES = {"spu": "SPU", "mpyc": "MPyC", "crypten": "CrypTen", "mp-spdz": "MP-SPDZ"}
_OURS: dict[tuple[str, Protocol], tuple[str, str]] = {
    ("dealer", "fused"): (
        "SEDML, dealt",
        "Two servers that do not collude and a dealer that colludes with neither, semi-honest; for simulation only. "
        "The dealer is done before the job.",
    ),
    ("servers", "fused"): (
        "SEDML",
        "Two semi-honest servers and no dealer, as in a deployment: oblivious transfers make the one-use randomness "
        "and are part of the time and the traffic, all but the 128 base transfers, which are made once.",
    ),
    ("servers", "garbled"): (
        "SEDML, garbled",
        "The same, on garbled circuits: three rounds once the counts are there, for servers far apart.",
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
        ours += [
            measure(scale, replace(task, dealt="fused" if who == "dealer" else None, protocol=how))
            for who, how in _OURS
        ]
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
        charts=tuple(
            chart
            for samples in scale.peer_samples
            for trust in get_args(Trust)
            if (chart := _chart(rows, ours, trust, samples)) is not None
        ),
        skipped=" ".join(absent),
        agrees=all(checked) and all(report.matches_ideal for report in ours),
    )


def _noise(task: Task) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Noise of both servers together: g int64[Q] and g_i int64[N, Q], for engines that are told their noise."""
    both = [DrawnNoise(task, Seed.random()) for _ in range(2)]
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
    """In all: with the dealing and unpacking, or the making, of one-use randomness."""
    return sum(report.seconds[part] for part in ("total", "offline", "deal", "prepare"))


def _trust(row: PeerResult | Report) -> Trust:
    if isinstance(row, Report):
        return "no dealer" if row.randomness == "servers" else "dealer"
    return ENGINES[row.engine].trusted.get(row.variant, "dealer") if row.engine in ENGINES else "dealer"


def _own_name(report: Report) -> str:
    return next(name for key, (name, _) in _OURS.items() if key == (report.randomness, report.protocol))


def _name(row: PeerResult) -> str:
    return f"{_engine(row)} {row.variant}".strip()


def _engine(row: PeerResult) -> str:
    return _NAMES.get(row.engine, row.engine)


def _nearest(rows: Sequence[PeerResult], report: Report) -> PeerResult | None:
    """The fastest peer at this size that asks for the same trust."""
    alike = (row for row in rows if row.samples == report.samples and _trust(row) == _trust(report))
    return min(alike, key=lambda row: row.seconds or 0.0, default=None)


_GROUPS: dict[Trust, str] = {
    "dealer": "with a dealer",
    "no dealer": "without a dealer",
    "honest majority": "with three parties, two of them honest",
}


def _words(rows: Sequence[PeerResult], ours: Sequence[Report]) -> str:
    parts = []
    for report in ours:
        best = _nearest(rows, report)
        if best is not None and best.seconds is not None:
            times = best.seconds / _time(report)
            parts.append(
                f"{report.samples:,} samples {_GROUPS[_trust(report)]}: {_own_name(report)} takes "
                f"{seconds(_time(report))} in all, the fastest peer, {_name(best)}, {seconds(best.seconds)}: "
                f"{times:,.1f} times as long."
            )
    return " ".join(parts) or "No other engine could be run here; the table says why."


def _headlines(rows: Sequence[PeerResult], ours: Sequence[Report]) -> tuple[Headline, ...]:
    lines = []
    for report in ours:
        best = _nearest(rows, report)
        if best is not None and best.seconds is not None:
            lines.append(
                Headline(
                    f"{_own_name(report)} in all against the fastest peer {_GROUPS[_trust(report)]}, "
                    f"{report.samples:,} samples",
                    "not compared",
                    seconds(_time(report)),
                    f"{_name(best)} {seconds(best.seconds)}",
                )
            )
    return tuple(lines)


def _table(rows: Sequence[PeerResult], ours: Sequence[Report]) -> Table:
    cells: list[tuple[Cell, ...]] = [
        (_own_name(report), _trust(report), report.samples, report.seconds["total"] * 1e3, _time(report) * 1e3,
         _traffic(report) / 1e3, report.rounds["total"], report.rounds["total"] + report.rounds["offline"],
         report.matches_ideal, "here", None, None)
        for report in ours
    ]  # fmt: skip
    cells += [
        (_name(row), _trust(row), row.samples, None, None if row.seconds is None else row.seconds * 1e3,
         None if row.bytes is None else row.bytes / 1e3, None, row.rounds, row.matches_ideal, row.measured,
         row.version, row.skipped)
        for row in rows
    ]  # fmt: skip

    def order(row: tuple[Cell, ...]) -> tuple[str, int, bool, float]:
        _, trust, samples, _, ms, *_ = row
        return str(samples).rjust(9), get_args(Trust).index(trust), ms is None, ms if isinstance(ms, float) else 0.0

    cells.sort(key=order)
    return Table(
        name="peers",
        title="The same functionality, engine by engine",
        columns=(
            Column("engine", "engine"),
            Column("trust", "trust"),
            Column("samples", "samples", ","),
            Column("online_ms", "online, ms", ",.1f"),
            Column("ms", "in all, ms", ",.1f"),
            Column("kb", f"{_ALL_TRAFFIC}, KB", ",.0f"),
            Column("online_rounds", "rounds online", ","),
            Column("rounds", "rounds in all", ","),
            Column("matches_ideal", "labels right"),
            Column("measured", "measured"),
            Column("version", "version"),
            Column("skipped", "skipped because"),
        ),
        rows=tuple(cells),
        note="In all is with the dealing or the making of one-use randomness, which SEDML does before the counts are "
        "there; online is what remains then. The others do both at once, so they have no online time of their own. "
        f"Of the traffic of SEDML with a dealer at {ours[0].samples:,} samples, "
        f"{kilobytes(ours[0].bytes['servers'])} are between the servers. "
        "Its link is TLS, the others' is plain TCP. Its hot loops ran on "
        f"{ours[0].kernel}.",
    )


def _trust_table(rows: Sequence[PeerResult]) -> Table:
    trust = {_name(row): row.trust for row in rows}
    return Table(
        name="peers_trust",
        title="Whom you trust",
        columns=(Column("engine", "engine"), Column("trust", "who computes, who deals, who must not collude")),
        rows=(*_OURS.values(), *trust.items()),
    )


def _chart(rows: Sequence[PeerResult], ours: Sequence[Report], trust: Trust, samples: int) -> Chart | None:
    """What has figures at this size and asks for this trust; None where no peer does."""
    own = [row for row in rows if row.samples == samples and row.seconds is not None and _trust(row) == trust]
    mine = [report for report in ours if report.samples == samples and _trust(report) == trust]
    if not own:
        return None
    own.sort(key=lambda row: row.seconds or 0.0)

    def series(sedml: Sequence[float], theirs: Sequence[float | None]) -> list[Series]:
        here, quoted = (
            [value if (row.measured == "here") == measured else None for row, value in zip(own, theirs, strict=True)]
            for measured in (True, False)
        )
        nothing = [None] * len(mine)
        bars: list[Series] = [("SEDML, measured in this run", RIGHT, [*sedml, *[None] * len(own)])] if mine else []
        if any(row.measured == "here" for row in own):
            bars.append(("measured in this run", OTHER, [*nothing, *here]))
        if any(row.measured != "here" for row in own):
            bars.append(("measured elsewhere", NONE, [*nothing, *quoted]))
        return bars

    times = series([_time(report) for report in mine], [row.seconds for row in own])
    traffic = series([_traffic(report) for report in mine], [row.bytes for row in own])
    figure = cost_panels(
        [*(_own_name(report) for report in mine), *(_name(row) for row in own)],
        (
            (times, "time in all (logarithmic)", seconds),
            (traffic, f"{_ALL_TRAFFIC} (logarithmic)", kilobytes),
        ),
    )
    caption = f"{samples:,} samples, 10 classes, {_GROUPS[trust]}: time and traffic of each engine."
    return Chart(f"peers_{trust.replace(' ', '_')}_{samples}", caption, figure)
