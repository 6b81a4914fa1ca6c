"""Two servers in two threads on randomness that a dealer dealt them; and what each saw.

Nothing here is random: seeds are made of fixed bytes, so a failure comes back on the next run.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sedml.lab.paper.correlations import Correlations, deal
from sedml.lab.paper.dealing import Seeds
from sedml.lab.paper.lab_run import ballot_loaders, run_job
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.onehot_ballots import cast_onehot
from sedml.lab.semi_honest.party import Party
from sedml.mpc.bits import from_planes
from sedml.mpc.channel import memory_pair
from sedml.mpc.prg import Seed
from sedml.protocol.votes import histogram
from support.harness import TASK_ID, TIMEOUT, Tap, fixed_seed, split_ring
from support.semi_honest import AuditedParty, Job, Run, fixed_noises


@dataclass
class DealtRun(Run):
    """A run, and what S1 was sent for it."""

    corrections: np.ndarray


def run_pair(plan, side: Callable[[Party], Any], *, seeds: tuple[Seed, Seed] | None = None, block: int = 0) -> DealtRun:
    """Deal `plan` and run `side` as S0 and as S1 in two threads."""
    seed0, seed1 = seeds or (fixed_seed(100), fixed_seed(101))
    corrections = deal(plan, block, seed0, seed1)
    taps = [Tap(channel) for channel in memory_pair(TASK_ID, timeout=TIMEOUT)]
    parties = (
        AuditedParty(0, taps[0], Correlations(plan, block, seed0, None)),
        AuditedParty(1, taps[1], Correlations(plan, block, seed1, corrections)),
    )

    def guarded(party: Party) -> Any:
        try:
            return side(party)
        except BaseException:
            party.channel.close()
            raise

    with ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(guarded, party) for party in parties]
    for error in [future.exception() for future in futures]:
        if error is not None:
            raise error
    return DealtRun((futures[0].result(), futures[1].result()), parties, corrections)


def join_bits(run: Run, samples: int) -> np.ndarray:
    return from_planes(run.shares[0] ^ run.shares[1], samples)


def counts_loaders(task: LabTask, counts: np.ndarray, key: int = 11):
    """Shares of given counts."""
    shares = split_ring(counts, task.widths.counts, key)
    return tuple(lambda block, share=share: share[:, block.start : block.stop] for share in shares)


def loaders_of(task: LabTask, votes: np.ndarray):
    """However the task wants its votes: ballots, or shares of the counts."""
    if task.votes == "counts":
        return counts_loaders(task, histogram(votes, task.classes))
    return ballot_loaders(task, [cast_onehot(row, task) for row in votes])


def secure(task: LabTask, votes: np.ndarray, parts, **options) -> tuple[Job, np.ndarray]:
    """Run the whole job with the noise handed in; the result and what `ideal` says."""
    noises, want = fixed_noises(task, histogram(votes, task.classes), parts)
    seeds = Seeds.of(task, fixed_seed(200), fixed_seed(201))
    return Job(task, *run_job(task, loaders_of(task, votes), noises, seeds=seeds, **options)), want
