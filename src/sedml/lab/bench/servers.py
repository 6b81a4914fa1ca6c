"""One server's side of a measured job of the lab: set-up, what needs no vote, and what does."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

from sedml.lab.bench.halves import Half
from sedml.lab.bench.resident import peak_mb
from sedml.lab.paper.lab_block import run_block
from sedml.lab.semi_honest.gadgets.refresh import agree
from sedml.lab.semi_honest.opened_labels import LabelShare
from sedml.lab.semi_honest.party import OneUse, Party
from sedml.lab.semi_honest.recipe import make
from sedml.lab.semi_honest.semi_honest_block import recipes
from sedml.mpc.channel import Channel, PhaseCost
from sedml.mpc.ot.extension import Extension, set_up
from sedml.mpc.steps import drive

__all__ = ["Measured", "run_server"]


@dataclass
class Measured:
    """One server's run of a job."""

    shares: list[LabelShare] = field(default_factory=list, repr=False)
    costs: dict[str, PhaseCost] = field(default_factory=dict)
    """Of each phase with the votes there."""
    set_up: PhaseCost = field(default_factory=PhaseCost)
    prepare: PhaseCost = field(default_factory=PhaseCost)
    """Making the randomness together, or unpacking what was dealt: neither needs a vote."""
    votes: PhaseCost = field(default_factory=PhaseCost)
    """From shares of counts to shares of labels."""
    peak_rss_mb: float = 0.0


def run_server(folder: Path, role: int, channel: Channel) -> Measured:
    """All blocks of the job in this folder, one after the other."""
    half, found = Half.read(folder, role), Measured()
    noise, loader, task = half.noise, half.loader, half.task
    before, start = channel.traffic, perf_counter()

    def charge(cost: PhaseCost) -> None:
        nonlocal before, start
        now = perf_counter()
        cost.add(channel.traffic - before, now - start)
        before, start = channel.traffic, now

    common = agree(channel)
    extension = Extension(drive(channel, 0, set_up(role)), common.key) if task.dealt is None else None
    charge(found.set_up)
    for block in task.blocks:
        if extension is None:
            pieces: OneUse = half.correlations(block).prepare()
        else:
            pieces = drive(channel, block.index, make(role, extension, block.index, recipes(task, block.samples)))
        charge(found.prepare)
        # Both begin together: the slower one's preparation is not the faster one's time with the votes.
        channel.exchange(block.index, "ready", [])
        before, start = channel.traffic, perf_counter()
        party = Party(role, channel, pieces, found.costs)
        found.shares.append(run_block(party, task, partial(loader, block), noise, common))
        charge(found.votes)
    found.peak_rss_mb = peak_mb()
    return found
