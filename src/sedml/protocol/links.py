"""Which protocol suits the link between two servers that make their own randomness.

    seconds of a job = rounds x delay + bytes / bandwidth + compute        if its blocks run one after the other

for `fused`, which says little in many rounds, and for `garbled`, which says much in few. Offline and online count
together, for a deployment makes its randomness when it runs. Rounds are exact, and so are bytes if every sample has a
consensus; where some have none, `fused` sends a little less. Compute is a model: so much for a transfer, an AND gate,
a lane of a one-hot vector and a round, measured on one machine; on another both protocols take longer or shorter alike.
A deployment also puts every message on record before the next one.

Left out is what both protocols have in common: the public-key operations of the set-up, the roster, the ballots' pages.
TCP and TLS add a few percent to the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

from sedml.mpc.channel.frame import HEADER_SIZE
from sedml.mpc.gadgets.millionaires import negative_rounds
from sedml.mpc.gadgets.tally import OneHots
from sedml.mpc.gadgets.tournament import levels
from sedml.mpc.ot.extension import SPENT
from sedml.mpc.ot.recipe import transfers_of
from sedml.mpc.ot.trees import DEPTH, TREES
from sedml.protocol.block import recipes
from sedml.protocol.garbled import GarbledHalf
from sedml.protocol.task import Protocol, Task

__all__ = [
    "MOST_UNDER_WAY",
    "Choice",
    "Link",
    "LinkCost",
    "blocks_under_way",
    "choose",
    "cost_of",
    "online_rounds",
    "seconds",
]

MOST_UNDER_WAY = 8
"""Blocks that two servers work on at the same time, at most: each takes its memory."""

_SET_UP_ROUNDS = 2
_SET_UP_BYTES = 32 + 64 * DEPTH * TREES + 32 * DEPTH * TREES + 64 * TREES
"""Base OTs: a point, and two for each. Trees: two sums for each level, a sum and a digest of tags for each tree."""
_PROOF_BYTES = 48

# Seconds on the machine of docs/performance.md: `python benchmarks/link_model.py --fit` measures them.
_PER_TRANSFER = 1.3e-7
_PER_AND = 3.4e-7
_PER_LANE = 3.3e-8
_PER_ROUND = 5.1e-4
# What a deployment takes for its record of the run: a sync a round on a disk without moving parts, and digests.
_PER_SYNC = 1e-3
_PER_BYTE = 1e-9

_NEGLIGIBLE = 0.25
"""Waiting, as a part of the work, for which another block under way is not worth its memory."""


@dataclass(frozen=True)
class Link:
    """Between the two servers: seconds that a message takes one way, and bits a second each way."""

    delay: float
    bandwidth: float


@dataclass(frozen=True)
class LinkCost:
    """What a job takes of a link and of a machine, from the set-up to the labels."""

    rounds: int
    bytes: int
    """That each server sends, frames included."""
    transfers: int
    """Each way."""
    ands: int
    """AND gates that each server garbles; it evaluates as many."""
    lanes: int
    """Of one-hot vectors."""

    @property
    def compute(self) -> float:
        """Seconds, by the model."""
        work = self.transfers * _PER_TRANSFER + self.ands * _PER_AND + self.lanes * _PER_LANE
        return work + self.rounds * _PER_ROUND


@dataclass(frozen=True)
class Choice:
    """The protocol that is faster on a link, and how long both take, by the model."""

    protocol: Protocol
    fused: float
    garbled: float


def choose(task: Task, link: Link) -> Choice:
    """For a task of whichever protocol."""
    fused, garbled = (seconds(replace(task, protocol=protocol), link) for protocol in ("fused", "garbled"))
    return Choice("garbled" if garbled < fused else "fused", fused, garbled)


def seconds(task: Task, link: Link) -> float:
    """How long a deployment takes for a job over a link, by the model."""
    cost = cost_of(task)
    rounds, busy = _run(task, cost, link)
    # Blocks that are under way together wait together: those of a lane one after the other.
    in_turn = -(-task.block_count // blocks_under_way(task, link)) / task.block_count
    return max(rounds * in_turn * link.delay + busy * in_turn, busy)


def blocks_under_way(task: Task, link: Link, most: int = MOST_UNDER_WAY) -> int:
    """How many blocks of a job are worked on at the same time: so many that one works while the others wait."""
    rounds, busy = _run(task, cost_of(task), link)
    wanted = 1 + ceil(rounds * link.delay / busy - _NEGLIGIBLE)
    return max(1, min(wanted, most, MOST_UNDER_WAY, task.block_count))


def _run(task: Task, cost: LinkCost, link: Link) -> tuple[int, float]:
    """Rounds of a whole run, and seconds in which a server or the link has work to do."""
    # Besides: what both agree on at first, and after every block that it is saved.
    rounds = cost.rounds + 1 + task.block_count
    record = rounds * _PER_SYNC + 2 * cost.bytes * _PER_BYTE
    return rounds, 8 * cost.bytes / link.bandwidth + cost.compute + record


def cost_of(task: Task) -> LinkCost:
    """Of a whole task."""
    rounds, size, transfers, ands, lanes = _SET_UP_ROUNDS, _SET_UP_BYTES, 0, 0, 0
    full, rest = task.block_count - 1, task.samples - (task.block_count - 1) * task.block_samples
    for samples, many in ((task.block_samples, full), (rest, 1)):
        needs = recipes(task, samples)
        each = transfers_of(needs)
        transfers += many * each
        rounds += many * (1 + max(need.rounds_to_make for need in needs.values()) + online_rounds(task))
        size += many * (_extension_bytes(each) + sum(need.sent for need in needs.values()))
        ands += many * sum(need.circuit.ands * need.half for need in needs.values() if isinstance(need, GarbledHalf))
        lanes += many * sum(prod(need.shape) << need.bits for need in needs.values() if isinstance(need, OneHots))
    return LinkCost(rounds, size + rounds * HEADER_SIZE, transfers, ands, lanes)


def online_rounds(task: Task) -> int:
    """Of a block whose randomness is there and in which some sample has a consensus."""
    if task.protocol == "garbled":
        return 1 + 3
    threshold = negative_rounds(task.widths.threshold) + 3
    return 1 + threshold + len(levels(task.classes)) * (negative_rounds(task.widths.label) + 1)


def _extension_bytes(transfers: int) -> int:
    """A bit for each tree but one and each transfer, those spent on the check included."""
    return (TREES - 1) * (-(-transfers // 128) * 128 + SPENT) // 8 + _PROOF_BYTES
