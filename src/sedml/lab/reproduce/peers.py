"""Other engines for secure computation on the same counts in the same run. The paper has no such comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import numpy.typing as npt

from sedml.lab.bench.protocol import StageReport, bench_protocol, stages_of
from sedml.lab.bench.workload import random_counts
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.peers import PeerResult, run_peers
from sedml.lab.peers.table import ENGINES, Trust
from sedml.lab.reproduce.drawing import NONE, OTHER, RIGHT, Chart, System, cost_chart, seconds
from sedml.lab.reproduce.measuring import LINK, SIGMA, measure, standard_task
from sedml.lab.reproduce.results import Column, Headline, ItemResult, Table
from sedml.lab.reproduce.scale import Scale, Settings
from sedml.lab.semi_honest.check_and_label_noise import fresh_noise
from sedml.lab.semi_honest.garbled import circuit_of
from sedml.mpc.kernel import kernel_in_use
from sedml.protocol.task import Task

__all__ = ["peers"]

_NAMES = {"spu": "SPU", "mpyc": "MPyC", "mp-spdz": "MP-SPDZ", "emp": "EMP"}
_OURS: dict[str, tuple[Trust, str]] = {
    "SEDML, dealt": (
        "dealer",
        "Two servers that do not collude and a dealer that colludes with neither, semi-honest; for simulation only. "
        "The dealer is done before the job.",
    ),
    "SEDML, fused": (
        "semi-honest",
        "Two semi-honest servers and no dealer, in the laboratory only: oblivious transfers make the one-use "
        "randomness and are part of the time and the traffic, all but the 128 base transfers, which are made once.",
    ),
    "SEDML, garbled": (
        "semi-honest",
        "The same, on garbled circuits: three rounds once the counts are there.",
    ),
    "SEDML": (
        "malicious",
        "Two servers, one of which may do anything, and no dealer, as in a deployment: authenticated garbling. All but "
        "the 128 base transfers, which are made once a connection, is part of the time and the traffic.",
    ),
}
_GROUPS: dict[Trust, str] = {
    "dealer": "with a dealer",
    "semi-honest": "between two servers that follow the protocol",
    "honest majority": "with three parties, two of them honest",
    "malicious": "against a server that deviates",
}
_ALL_TRAFFIC = "all traffic, with what is dealt or made before"


@dataclass(frozen=True)
class _Row:
    """An engine on a job, ours or another, as it stands in the table; None where it has no such figure."""

    engine: str
    trust: Trust
    samples: int
    online_ms: float | None
    ms: float | None
    """The time with the dealing and unpacking, or the making, of one-use randomness."""
    kb: float | None
    """What went between all parties, before the job too, and from the dealer."""
    online_rounds: int | None
    rounds: int | None
    ands: int | None
    """AND gates of the circuit, where there is one: of different engines, what each costs can be compared."""
    matches_ideal: bool | None
    measured: str = "here"
    version: str | None = None
    skipped: str | None = None

    @property
    def ours(self) -> bool:
        """Whether it is SEDML, which alone makes one-use randomness before."""
        return self.online_ms is not None

    @property
    def and_ns(self) -> float | None:
        """Nanoseconds an AND gate."""
        return self.ms * 1e6 / self.ands if self.ms and self.ands else None

    @property
    def and_bytes(self) -> float | None:
        """Bytes an AND gate, of all directions."""
        return self.kb * 1e3 / self.ands if self.kb and self.ands else None

    @property
    def time(self) -> str:
        """The time in all, for people."""
        return seconds((self.ms or 0.0) / 1e3)


def peers(settings: Settings) -> ItemResult:
    """Run the same functionality in other engines, and ours beside it."""
    scale = settings.scale
    rows: list[_Row] = []
    found: list[PeerResult] = []
    for samples in scale.peer_samples:
        task = standard_task(samples, 10, scale.teachers)
        counts = random_counts(samples, 10, scale.teachers, seed=0)
        settings.progress(f"ours, {samples:,} samples", 0, 1)
        rows += _our_rows(task, scale)
        found += run_peers(
            counts, task.threshold, *_noise(task), repeat=scale.peer_repeat, progress=settings.progress
        )  # fmt: skip
    rows += map(_peer_row, found)
    rows.sort(key=lambda row: (row.samples, get_args(Trust).index(row.trust), row.ms is None, row.ms or 0.0))
    pairs = [(row, best) for row in rows if row.ours and (best := _fastest(rows, row))]
    return ItemResult(
        paper="Nothing: the paper compares only with XWWL20.",
        ours=" ".join(_words(*pair) for pair in pairs) or "No other engine could be run here; the table says why.",
        measured=(
            f"Shared counts of {scale.teachers} teachers in, labels out, 10 classes; the same counts and noise for "
            f"every engine. SEDML has counts and noise of the same law: {LINK}.",
        ),
        modelled=[
            f"{name} is quoted: measured on a machine with two cores, apart from this run."
            for name in sorted({_engine(row) for row in found if row.measured == "elsewhere" and row.seconds})
        ],
        headlines=[
            Headline(
                f"{row.engine} in all against the fastest peer {_GROUPS[row.trust]}, {row.samples:,} samples",
                "not compared",
                row.time,
                f"{best.engine} {best.time}",
            )
            for row, best in pairs
        ],
        tables=(
            _table(rows),
            Table(
                "peers_trust",
                "Whom you trust",
                (
                    Column("engine", "engine", value=lambda pair: pair[0]),
                    Column("trust", "who computes, who deals, who must not collude", value=lambda pair: pair[1]),
                ),
                [
                    *((name, words) for name, (_, words) in _OURS.items()),
                    *{_peer_row(row).engine: row.trust for row in found}.items(),
                ],
            ),
        ),
        charts=[
            chart
            for samples in scale.peer_samples
            for trust in get_args(Trust)
            if (chart := _chart([row for row in rows if (row.samples, row.trust) == (samples, trust)]))
        ],
        skipped=" ".join(
            sorted({f"{_engine(row)}: {row.skipped}." for row in found if row.skipped and row.measured == "here"})
        ),
        agrees=all(row.matches_ideal is not False for row in rows),
    )


def _our_rows(task: LabTask, scale: Scale) -> list[_Row]:
    made = replace(task, dealt=None)
    reports = [measure(scale, one) for one in (task, made, replace(made, protocol="garbled"))]
    terms = task.classes, task.samples, task.teachers, task.threshold, SIGMA
    ours = bench_protocol(Task(*terms), transport=scale.transport, repeat=scale.repeat)
    circuit = circuit_of(task.classes, task.widths.threshold, task.widths.label)
    return [
        _our_row("SEDML, dealt", stages_of(reports[0]), dealt=(reports[0].seconds["deal"], reports[0].bytes["deal"])),
        _our_row("SEDML, fused", stages_of(reports[1])),
        _our_row("SEDML, garbled", stages_of(reports[2]), ands=circuit.ands * task.samples),
        _our_row("SEDML", ours, ands=ours.ands),
    ]


def _our_row(name: str, report: StageReport, *, dealt: tuple[float, int] = (0.0, 0), ands: int | None = None) -> _Row:
    votes, total = report.stages["votes"], report.stages["total"]
    return _Row(
        name,
        _OURS[name][0],
        report.samples,
        votes.seconds * 1e3,
        (total.seconds + dealt[0]) * 1e3,
        (total.bytes + dealt[1]) / 1e3,
        votes.rounds,
        total.rounds,
        ands,
        report.matches_ideal,
    )


def _peer_row(row: PeerResult) -> _Row:
    trust = ENGINES[row.engine].trusted.get(row.variant, "dealer")
    ms = None if row.seconds is None else row.seconds * 1e3
    kb = None if row.bytes is None else row.bytes / 1e3
    return _Row(f"{_engine(row)} {row.variant}", trust, row.samples, None, ms, kb, None, row.rounds, row.ands,
                row.matches_ideal, row.measured, row.version, row.skipped)  # fmt: skip


def _engine(row: PeerResult) -> str:
    return _NAMES.get(row.engine, row.engine)


def _noise(task: LabTask) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Noise of both servers together: g int64[Q] and g_i int64[N, Q], for engines that are told their noise."""
    both = fresh_noise(task)
    g: npt.NDArray[np.int64] = np.add(*(one.threshold(0, task.samples) for one in both), dtype=np.int64)
    return g, np.add(*(one.label(0, task.classes, task.samples) for one in both), dtype=np.int64)


def _fastest(rows: Sequence[_Row], ours: _Row) -> _Row | None:
    """The fastest peer that was run here at this size and asks for the same trust; rows are in order of time."""
    alike = (row for row in rows if (row.samples, row.trust) == (ours.samples, ours.trust) and not row.ours)
    return next((row for row in alike if row.ms and row.measured == "here"), None)


def _words(row: _Row, best: _Row) -> str:
    return (
        f"{row.samples:,} samples {_GROUPS[row.trust]}: {row.engine} takes {row.time} in all, the fastest peer, "
        f"{best.engine}, {best.time}: {(best.ms or 0.0) / (row.ms or 1.0):,.1f} times as long."
    )


def _table(rows: Sequence[_Row]) -> Table:
    return Table(
        "peers",
        "The same functionality, engine by engine",
        (
            Column("engine", "engine"),
            Column("trust", "trust"),
            Column("samples", "samples", ","),
            Column("online_ms", "online, ms", ",.1f"),
            Column("ms", "in all, ms", ",.1f"),
            Column("kb", f"{_ALL_TRAFFIC}, KB", ",.0f"),
            Column("online_rounds", "rounds online", ","),
            Column("rounds", "rounds in all", ","),
            Column("ands", "AND gates", ","),
            Column("and_ns", "ns an AND", ",.0f"),
            Column("and_bytes", "bytes an AND", ",.0f"),
            Column("matches_ideal", "labels right"),
            Column("measured", "measured"),
            Column("version", "version"),
            Column("skipped", "skipped because"),
        ),
        rows,
        "In all is with the dealing or the making of one-use randomness, which SEDML does before the counts are "
        "there; online is what remains then. The others do both at once, so they have no online time of their own. "
        "Circuits differ: what an AND gate costs compares engines that run one. SEDML's link is TLS, the others' is "
        f"plain TCP. Its hot loops ran on {kernel_in_use()}.",
    )


def _chart(rows: Sequence[_Row]) -> Chart | None:
    """Time and traffic of what has figures, of rows of one size that ask for the same trust; None without a peer."""
    known = sorted((row for row in rows if row.ms), key=lambda row: not row.ours)
    if not known or known[-1].ours:
        return None

    def system(row: _Row) -> System:
        kind = ("SEDML, measured in this run", RIGHT) if row.ours else ("measured in this run", OTHER)
        cost = row.ms and row.ms / 1e3, row.kb and row.kb * 1e3
        return row.engine, kind if row.measured == "here" else ("measured elsewhere", NONE), cost

    first = known[0]
    return cost_chart(
        f"peers_{first.trust.replace(' ', '_').replace('-', '_')}_{first.samples}",
        f"{first.samples:,} samples, 10 classes, {_GROUPS[first.trust]}: time and traffic of each engine.",
        [system(row) for row in known],
        ("time in all", _ALL_TRAFFIC),
    )
