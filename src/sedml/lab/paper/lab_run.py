"""Both servers of a task of the lab in one process, and the dealer where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter

from sedml.aggregation import both_servers
from sedml.aggregation.both_servers import Labels, Loader, Run, Stats, play
from sedml.lab.paper.correlations import Correlations
from sedml.lab.paper.dealing import Seeds, deal_block, dealt_correlations
from sedml.lab.paper.lab_block import PHASES, run_block
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import lab_noise
from sedml.lab.paper.onehot_ballots import cast_onehot, counts_share
from sedml.mpc.channel import Channel, memory_pair
from sedml.mpc.ot.extension import Extension, set_up
from sedml.lab.semi_honest.recipe import make
from sedml.lab.semi_honest.party import OneUse, Party, PhaseCost
from sedml.mpc.prg import SEED_BYTES, Seed
from sedml.mpc.ring import Array
from sedml.mpc.sharing import share
from sedml.lab.semi_honest.block import recipes
from sedml.lab.semi_honest.drawn_noise import Noise
from sedml.lab.semi_honest.labels import LabelShare
from sedml.lab.semi_honest.task import Block
from sedml.protocol.votes import Votes

__all__ = ["LabStats", "ballot_loaders", "cast_ballots", "counts_loaders", "run_counts", "run_job", "run_votes"]


@dataclass(frozen=True, repr=False)
class LabStats(Stats):
    """What a job cost, the dealer's part included."""

    deal_seconds: float = 0.0
    dealer_bytes: int = 0
    """Seeds for both servers and corrections for S1."""


def run_votes(task: LabTask, votes: Votes) -> Run[LabStats]:
    """Cast votes int[K, Q] as ballots and aggregate them, with fresh noise."""
    return _run(task, ballot_loaders(task, cast_ballots(task, votes)))


def run_counts(task: LabTask, counts: Array) -> Run[LabStats]:
    """Share counts int[N, Q] and aggregate them, with fresh noise."""
    return _run(task, counts_loaders(task, counts))


def _run(task: LabTask, loaders: tuple[Loader, Loader]) -> Run[LabStats]:
    noises = lab_noise(task, 0), lab_noise(task, 1)
    return Run(task, *run_job(task, loaders, noises), noises)


def cast_ballots(task: LabTask, votes: Votes) -> list[tuple[bytes, bytes]]:
    """The ballots of votes int[K, Q], in the form that the task wants."""
    return [cast_onehot(row, task) for row in votes] if task.votes == "onehot" else both_servers.cast_all(task, votes)


def ballot_loaders(task: LabTask, ballots: list[tuple[bytes, bytes]]) -> tuple[Loader, Loader]:
    """How S0 and S1 read their halves of the ballots."""
    if task.votes == "ballots":
        return both_servers.ballot_loaders(task, ballots)
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
    common, channels = Seed.random(), channels or memory_pair(task.id)
    costs: tuple[dict[str, PhaseCost], ...] = ({}, {})
    offline = PhaseCost(), PhaseCost()
    seeds, dealt = seeds or Seeds.of(task), PhaseCost(bytes=2 * SEED_BYTES if task.dealt else 0)

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
        channel, extension = channels[role], None
        for block in task.blocks:
            before, start = channel.traffic, perf_counter()
            if task.dealt:
                pieces: OneUse = deal(role, block)
                # Both begin together: that S0 waits for what S1 is dealt is no part of what a phase takes.
                channel.exchange(block.index, "ready", [])
            else:
                extension = extension or Extension(set_up(role, channel), common.key)
                pieces = make(role, extension, channel, block.index, recipes(task, block.samples))
                offline[role].add(channel.traffic - before, perf_counter() - start)
            party = Party(role, channel, pieces, costs[role])
            yield run_block(party, task, partial(loaders[role], block), noises[role], common)

    labels = play(task, channels, (side(0), side(1)))
    phases = {phase: costs[0].get(phase, PhaseCost()) for phase in PHASES}
    widths, sent = asdict(task.widths), task.teacher_bytes
    return labels, LabStats(widths, phases, sent, offline[0], dealt.seconds, dealt.bytes)
