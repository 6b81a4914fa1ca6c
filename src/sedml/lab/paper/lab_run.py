"""Both servers of a task of the lab in one process, and the dealer where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from sedml.lab.paper.correlations import Correlations
from sedml.lab.paper.dealing import Seeds, deal_block, dealt_correlations
from sedml.lab.paper.lab_block import PHASES, run_block
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import lab_noise
from sedml.lab.paper.onehot_ballots import cast_onehot, counts_share
from sedml.lab.semi_honest import semi_honest_servers
from sedml.lab.semi_honest.check_and_label_noise import Noise
from sedml.lab.semi_honest.opened_labels import LabelShare
from sedml.lab.semi_honest.party import Party
from sedml.lab.semi_honest.semi_honest_servers import Labels, Loader, Run, Stats, play
from sedml.mpc.channel import Channel, PhaseCost, memory_pair
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.mpc.ring import Array
from sedml.mpc.sharing import share
from sedml.protocol.task import Block
from sedml.protocol.votes import Votes

__all__ = ["LabStats", "ballot_loaders", "counts_loaders", "run_counts", "run_job", "run_votes"]


@dataclass(frozen=True)
class LabStats(Stats):
    """What a job cost, the dealer's part included."""

    deal_seconds: float = 0.0
    dealer_bytes: int = 0
    """Seeds for both servers and corrections for S1."""


def run_votes(task: LabTask, votes: Votes) -> Run[LabStats]:
    """Cast votes int[K, Q] as one-hot ballots and aggregate them, with fresh noise."""
    return _run(task, ballot_loaders(task, [cast_onehot(row, task) for row in votes]))


def run_counts(task: LabTask, counts: Array) -> Run[LabStats]:
    """Share counts int[N, Q] and aggregate them, with fresh noise."""
    return _run(task, counts_loaders(task, counts))


def _run(task: LabTask, loaders: tuple[Loader, Loader]) -> Run[LabStats]:
    noises = lab_noise(task, 0), lab_noise(task, 1)
    return Run(task, *run_job(task, loaders, noises), noises)


def ballot_loaders(task: LabTask, ballots: list[tuple[bytes, bytes]]) -> tuple[Loader, Loader]:
    """How S0 and S1 add up their halves of the ballots."""
    s0, s1 = (partial(counts_share, role, half, task) for role, half in enumerate(zip(*ballots, strict=True)))
    return s0, s1


def counts_loaders(task: LabTask, counts: Array) -> tuple[Loader, Loader]:
    """Share counts int[N, Q], and how S0 and S1 read their shares."""

    def loader(half: Array) -> Loader:
        return lambda block: half[:, block.start : block.stop]

    s0, s1 = share(task.counts_layout, counts, Seed.random(), "counts")
    return loader(s0), loader(s1)


def run_job(
    task: LabTask,
    loaders: tuple[Loader, Loader],
    noises: tuple[Noise, Noise],
    *,
    channels: tuple[Channel, Channel] | None = None,
    seeds: Seeds | None = None,
) -> tuple[Labels, LabStats]:
    """Deal or make what every block of a task needs, and run it; the labels int64[Q], and what they cost.

    `seeds` may be given again for the same task only with the same shares and the same noise: a mask that hides two
    different values reveals their difference.
    """
    if task.dealt is None:
        labels, stats = semi_honest_servers.run_job(task, loaders, noises, channels=channels)
        return labels, LabStats(_all_phases(stats.phases), stats.offline)
    common, channels = Seed.random(), channels or memory_pair(task.id)
    costs: tuple[dict[str, PhaseCost], ...] = ({}, {})
    seeds, dealt = seeds or Seeds.of(task), PhaseCost(bytes=2 * SEED_BYTES)

    def deal(role: int, block: Block) -> Correlations:
        """What a server is dealt for a block, unpacked."""
        if role == 0:
            return dealt_correlations(task, block, seeds.s0, None).prepare()
        start = perf_counter()
        corrections = deal_block(task, block, seeds)
        dealt.seconds += perf_counter() - start
        dealt.bytes += corrections.size
        return dealt_correlations(task, block, seeds.s1, corrections).prepare()

    def side(role: int) -> Iterator[LabelShare]:
        """A server."""
        for block in task.blocks:
            pieces = deal(role, block)
            # Both begin together: that S0 waits for what S1 is dealt is no part of what a phase takes.
            channels[role].exchange(block.index, "ready", [])
            party = Party(role, channels[role], pieces, costs[role])
            yield run_block(party, task, partial(loaders[role], block), noises[role], common)

    labels = play(task, channels, (side(0), side(1)))
    return labels, LabStats(_all_phases(costs[0]), PhaseCost(), dealt.seconds, dealt.bytes)


def _all_phases(costs: dict[str, PhaseCost]) -> dict[str, PhaseCost]:
    """With nothing for those that a protocol does not have."""
    return {phase: costs.get(phase, PhaseCost()) for phase in PHASES}
