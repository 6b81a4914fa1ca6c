"""Everything of a block that needs no vote: 7 rounds, after which the votes take 4 (`block`).

Each server garbles the circuits of one half of the samples and evaluates those of the other half.

1. Correlated transfers, which are authenticated bits (`sedml.mpc.authenticated`). 1 round.
2. Leaky ANDs; beside them the second Delta of the outputs. 4 rounds. Coins of both assign the leaky ANDs to buckets.
3. `products`: opened in 1 round are the bits e of the buckets and f, g of the products; besides, each server tells sigma of
   the outputs, and the shifts that turn random masks into its noise (`inputs`).
4. `tables`: the garbled tables, the lowest bits of the ANDs' labels, fingerprints of what was opened, the proof of sigma.
   1 round. Nobody goes on if a check fails.

Nothing that a server says here depends on a vote, and whether it stops does not either.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sedml.mpc.authenticated.bits import Bits, Bytes, Words, bits_of, caught, fingerprint, opening_key, wipe
from sedml.mpc.authenticated.buckets import Places, bucket_bits, places
from sedml.mpc.authenticated.gates import garble
from sedml.mpc.authenticated.leaky import leaky_ands
from sedml.mpc.authenticated.masks import products, weave
from sedml.mpc.authenticated.outputs import PADDING, Second, Sums, check_sums, prove_sums, second_bits
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps, together
from sedml.protocol.inputs import InputLabels, InputMasks, all_inputs, draw_labels, to_planes
from sedml.protocol.session import Session
from sedml.protocol.shape import Shape
from sedml.protocol.task import Block, Task

__all__ = ["Evaluated", "Garbled", "Prepared", "prepare"]

_LOWEST = np.uint64(1)


@dataclass(frozen=True)
class Garbled:
    """What the garbler keeps of its half."""

    inputs: InputLabels
    masks: Bytes = field(repr=False)
    """Of its shares' bits, uint8[count planes, half]."""
    labels: Words = field(repr=False)
    """For M = 0 of all ANDs, uint64[ands, half, 2]."""
    words: tuple[Words, ...] = field(repr=False)
    """Lower words of its `peer` rows of operands a, b and of results ^ products, uint64[ands, half] each."""


@dataclass(frozen=True)
class Evaluated:
    """What the evaluator keeps of its half."""

    r: Bytes = field(repr=False)
    """The masks of its shares' bits, which are its inputs: uint8[count planes, half]."""
    tables: Words = field(repr=False)
    colours: Bytes = field(repr=False)
    out: Words = field(repr=False)
    """Its `peer` rows of results ^ products."""
    words: tuple[Words, ...] = field(repr=False)
    """Lower words of its `own` rows, as the garbler's."""


@dataclass(frozen=True)
class Prepared:
    """One server's preparation of a block, for one attempt: `block.answer` uses it up."""

    role: int
    shape: Shape
    delta: Words = field(repr=False)
    garbled: Garbled
    evaluated: Evaluated
    sigma: Bytes = field(repr=False)
    """sigma_0 ^ sigma_1 of the outputs, uint8[outputs]."""
    second: Second
    """The bits u of the outputs, and PADDING more."""

    def wipe(self) -> None:
        """Overwrite all that is secret."""
        garbled, evaluated, second = self.garbled, self.evaluated, self.second
        wipe(garbled.inputs.shares, garbled.inputs.threshold, garbled.masks, garbled.labels, *garbled.words)
        wipe(evaluated.r, evaluated.tables, evaluated.out, *evaluated.words)
        wipe(second.bit, second.mac, second.key)


@dataclass(frozen=True)
class _Rows:
    """Rows of a half, of one of the two kinds: of the masks of operands, of results ^ products, and of outputs."""

    a: Words
    b: Words
    out: Words
    outputs: Words

    @property
    def low(self) -> tuple[Words, ...]:
        return tuple(np.ascontiguousarray(rows[..., 0]) for rows in (self.a, self.b, self.out))


def prepare(session: Session, task: Task, block: Block, noise: Array) -> Steps[Prepared]:
    """One server's preparation; its own noise int[N, Q] becomes masks."""
    shape, extension, role = Shape(task, block), session.begin(block.index), session.role
    made = yield from extension.extend(sum(shape.sections))
    delta = made.delta
    parts = _sections(shape, made)
    leaky, results, blinds = (bits_of(part) for part in parts[:3])
    leaky, results = leaky.reshape(-1, 3), results.reshape(2, shape.plan.ands, shape.half)
    inputs = InputMasks(shape, parts[3], parts[4], _noise_planes(role, shape, noise))
    coins, second = yield from together(
        leaky_ands(role, delta, leaky, made.first), second_bits(parts[5], shape.second)
    )

    place = places(coins, shape.ands, shape.size)
    e, x, y = bucket_bits(leaky.bit, place)
    masks = [weave(shape.plan, inputs.bits(half == role), results.bit[half]) for half in (0, 1)]
    f, g = (mask ^ np.stack([one[i] for one in masks]).reshape(-1) for i, mask in enumerate((x, y)))
    outputs = np.concatenate([*(one[2].reshape(-1) for one in masks), blinds.bit])
    padding = slice(shape.outputs, shape.outputs + PADDING)
    asked = second.without(padding)
    sigma, shifts = outputs ^ asked.bit, inputs.shifts
    told = [np.packbits(part, bitorder="little") for part in (e, f, g, sigma, shifts)]
    came = yield "block/products", told
    e, f, g = (_opened(*pair) for pair in zip((e, f, g), told, came, strict=False))
    their_sigma, their_shifts = (_unpacked(packed, part) for packed, part in zip(came[3:], (sigma, shifts), strict=True))
    key = opening_key(*(part for pair in zip(told, came, strict=True) for part in (pair if role == 0 else pair[::-1])))

    def rows(half: int, under: str) -> tuple[_Rows, Bytes]:
        """The rows of a half under one Delta, and the fingerprint of those that were opened."""
        mine, is_own = half == role, under == "own"
        given = inputs.own(mine, delta, their_shifts) if is_own else inputs.peer(mine)
        made, of_leaky = (results.own, leaky.own) if is_own else (results.peer, leaky.peer)
        a, b, out = weave(shape.plan, given, made[half])
        here = slice(half * shape.ands // 2, (half + 1) * shape.ands // 2)
        product, words = products(
            here.start, place[:, here], e[:, here], f[here], g[here], of_leaky, a, b, delta if is_own else None
        )
        product ^= made[half]
        return _Rows(a, b, product, out), fingerprint(key, words)

    own, expected = zip(*(rows(half, "own") for half in (0, 1)), strict=True)
    peer, prints = zip(*(rows(half, "peer") for half in (0, 1)), strict=True)
    wipe(leaky.bit, leaky.own, leaky.peer)
    authenticated = (np.concatenate([*(one.outputs.reshape(-1, 2) for one in side), blind]) for side, blind in ((own, blinds.own), (peer, blinds.peer)))
    sums = Sums(Bits(outputs, *authenticated), asked, delta[0])

    labels = draw_labels(shape)
    mine, other = own[role], peer[1 - role]
    given = all_inputs(shape, labels.shares, labels.threshold)
    tables, zeros = garble(shape.plan, given, mine.a, mine.b, mine.out, delta, block.index)
    colours = np.packbits((zeros[..., 0] & _LOWEST).astype(np.uint8), bitorder="little")
    their_tables, their_colours, their_prints, *proof = yield (
        "block/tables",
        [tables, colours, np.stack(prints), *prove_sums(sums, key)],
    )
    if not np.array_equal(their_prints, np.stack(expected)):
        raise caught("opened bits")
    check_sums(sums, key, their_sigma, *proof)
    their_tables[0] ^= other.b
    their_tables[1] ^= other.a
    return Prepared(
        role,
        shape,
        delta,
        Garbled(labels, inputs.shares(True).copy(), zeros, peer[role].low),
        Evaluated(
            inputs.shares(False).copy(),
            their_tables,
            np.unpackbits(their_colours, count=zeros.size // 2, bitorder="little").reshape(zeros.shape[:-1]),
            other.out,
            own[1 - role].low,
        ),
        (sigma ^ their_sigma)[: shape.outputs],
        second[: padding.stop],
    )


def _sections(shape: Shape, made: Transfers) -> list[Transfers]:
    """What the transfers are for, in the order of `Shape.sections`."""
    starts = np.cumsum([0, *shape.sections])
    return [made.part(int(start), size) for start, size in zip(starts, shape.sections, strict=False)]


def _noise_planes(role: int, shape: Shape, noise: Array) -> tuple[Bytes, Bytes]:
    """Noise as numbers of so many bits that count from the lowest; of the half that this server garbles first."""
    halves = shape.halves(noise.astype(np.int64) + (1 << (shape.widths.noise - 1)))
    mine, theirs = (to_planes(halves[half], shape.widths.noise) for half in (role, 1 - role))
    return mine, theirs


def _opened(part: Bytes, mine: Bytes, theirs: Bytes) -> Bytes:
    return _unpacked(mine ^ theirs, part)


def _unpacked(packed: Bytes, like: Bytes) -> Bytes:
    return np.unpackbits(packed, count=like.size, bitorder="little").reshape(like.shape)
