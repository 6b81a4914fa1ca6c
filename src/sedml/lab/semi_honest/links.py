"""What a job takes of the link between two servers and of a machine, and how many of its blocks are under way at once.

`fused` says little in many rounds, `garbled` much in few. Offline and online count together, for a deployment makes
its randomness when it runs. Rounds are exact, and so are bytes if every sample has a consensus; where some have none,
`fused` sends a little less. Compute is a model: so much for a transfer, an AND gate and a round, measured on one
machine; on another both protocols take longer or shorter alike.

Left out is what both protocols have in common: the public-key operations of the set-up, the roster, the ballots' pages.
TCP and TLS add a few percent to the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from sedml.mpc.channel.frame import HEADER_SIZE
from sedml.lab.semi_honest.gadgets.millionaires import negative_rounds
from sedml.lab.semi_honest.gadgets.tournament import levels
from sedml.mpc.ot.extension import SPENT
from sedml.lab.semi_honest.recipe import transfers_of
from sedml.mpc.ot.trees import DEPTH, TREES
from sedml.lab.semi_honest.block import recipes
from sedml.lab.semi_honest.garbled import GarbledHalf
from sedml.lab.semi_honest.task import Task

__all__ = ["MOST_UNDER_WAY", "PER_BYTE", "PER_SYNC", "LinkCost", "blocks_under_way", "cost_of"]

MOST_UNDER_WAY = 8
"""Blocks that two servers work on at the same time, at most: each takes its memory."""

_SET_UP_ROUNDS = 2
_SET_UP_BYTES = 32 + 64 * DEPTH * TREES + 32 * DEPTH * TREES + 64 * TREES
"""Base OTs: a point, and two for each. Trees: two sums for each level, a sum and a digest of tags for each tree."""
_PROOF_BYTES = 48

# Seconds on the machine of docs/performance.md: `python benchmarks/link_model.py --fit` measures them.
_PER_TRANSFER = 1.3e-7
_PER_AND = 3.4e-7
_PER_ROUND = 5.1e-4
# What a deployment takes for its record of the run: a sync a round on a disk without moving parts, and digests.
PER_SYNC = 1e-3
PER_BYTE = 1e-9

_NEGLIGIBLE = 0.25
"""Waiting, as a part of the work, for which another block under way is not worth its memory."""


@dataclass(frozen=True)
class LinkCost:
    """What a job takes of a link and of a machine, from the set-up to the labels."""

    rounds: int
    bytes: int
    """What each server sends, frames included."""
    transfers: int
    """Each way."""
    ands: int
    """AND gates that each server garbles; it evaluates as many."""

    @property
    def compute(self) -> float:
        """Seconds, by the model."""
        return self.transfers * _PER_TRANSFER + self.ands * _PER_AND + self.rounds * _PER_ROUND


def blocks_under_way(task: Task, delay: float, most: int = MOST_UNDER_WAY) -> int:
    """How many blocks of a job are worked on at the same time: so many that one works while the others wait.

    `delay` is how many seconds a message takes one way.
    """
    cost = cost_of(task)
    # Besides: what both agree on at first, and after every block that it is saved.
    rounds = cost.rounds + 1 + task.block_count
    # A deployment puts every message on record before the next one.
    busy = cost.compute + rounds * PER_SYNC + 2 * cost.bytes * PER_BYTE
    wanted = 1 + ceil(rounds * delay / busy - _NEGLIGIBLE)
    return max(1, min(wanted, most, MOST_UNDER_WAY, task.block_count))


def cost_of(task: Task) -> LinkCost:
    """What a whole task costs."""
    rounds, size, transfers, ands = _SET_UP_ROUNDS, _SET_UP_BYTES, 0, 0
    full, rest = task.block_count - 1, task.samples - (task.block_count - 1) * task.block_samples
    for samples, many in ((task.block_samples, full), (rest, 1)):
        needs = recipes(task, samples)
        each = transfers_of(needs)
        transfers += many * each
        rounds += many * (1 + max(need.rounds_to_make for need in needs.values()) + _online_rounds(task))
        size += many * (_extension_bytes(each) + sum(need.sent for need in needs.values()))
        ands += many * sum(need.circuit.ands * need.half for need in needs.values() if isinstance(need, GarbledHalf))
    return LinkCost(rounds, size + rounds * HEADER_SIZE, transfers, ands)


def _online_rounds(task: Task) -> int:
    """The rounds of a block whose randomness is there and in which some sample has a consensus."""
    if task.protocol == "garbled":
        return 3
    threshold = negative_rounds(task.widths.threshold) + 3
    return threshold + len(levels(task.classes)) * (negative_rounds(task.widths.label) + 1)


def _extension_bytes(transfers: int) -> int:
    """A bit for each tree but one and each transfer, those spent on the check included."""
    return (TREES - 1) * (-(-transfers // 128) * 128 + SPENT) // 8 + _PROOF_BYTES
