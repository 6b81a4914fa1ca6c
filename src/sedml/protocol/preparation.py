"""Everything of a block that needs no vote: 7 rounds, after which the votes take 4 (`block`).

Each server garbles the circuits of one half of the samples and evaluates those of the other half.

1. Correlated transfers, which are authenticated bits (`sedml.mpc.authenticated`). 1 round.
2. Leaky ANDs; beside them the second Delta of the outputs. 4 rounds. Coins of both assign the leaky ANDs to buckets.
3. `products`: opened in 1 round are the bits e of the buckets and f, g of the products; besides, each server tells
   sigma of the outputs, and the shifts that turn random masks into its noise (`inputs`).
4. `tables`: the garbled tables, the lowest bits of the ANDs' labels, fingerprints of what was opened, the proof of
   sigma. 1 round. Nobody goes on if a check fails.

Nothing that a server says here depends on a vote, and whether it stops does not either.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from sedml.errors import CorrelationReusedError
from sedml.mpc.authenticated.authenticated_bits import (
    Bits,
    Bytes,
    Words,
    bits_of,
    caught,
    fingerprint,
    opening_key,
    wipe,
)
from sedml.mpc.authenticated.buckets import bucket_bits, places
from sedml.mpc.authenticated.gates import garble
from sedml.mpc.authenticated.leaky import leaky_ands
from sedml.mpc.authenticated.masks import products, weave
from sedml.mpc.authenticated.outputs import PADDING, Second, Sums, check_sums, prove_sums, second_bits
from sedml.mpc.ot.extension import Transfers, begin_extension
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps, together
from sedml.protocol.block_shape import Shape
from sedml.protocol.inputs import InputLabels, InputMasks, all_inputs, draw_labels, to_planes
from sedml.protocol.server_session import Session
from sedml.protocol.task import Block, Task

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

    session: Session
    shape: Shape
    delta: Words = field(repr=False)
    garbled: Garbled
    evaluated: Evaluated
    sigma: Bytes = field(repr=False)
    """sigma_0 ^ sigma_1 of the outputs, uint8[outputs]."""
    second: Second
    """The bits u of the outputs, and PADDING more."""
    _unused: Lock = field(default_factory=Lock, repr=False)
    """Taken once and never given back."""

    def begin(self) -> None:
        """Use it, once: masks that hide two different shares would reveal their difference."""
        self.session.check()
        if not self._unused.acquire(blocking=False):
            raise CorrelationReusedError(
                "This preparation was used before.", "Prepare the block anew, over a new connection."
            )

    def wipe(self) -> None:
        """Overwrite all that is secret."""
        garbled, evaluated, second = self.garbled, self.evaluated, self.second
        wipe(garbled.inputs.shares, garbled.inputs.threshold, garbled.masks, garbled.labels, *garbled.words)
        wipe(evaluated.r, evaluated.tables, evaluated.out, *evaluated.words)
        wipe(second.bit, second.mac, second.key, self.delta)


@dataclass(frozen=True)
class _Rows:
    """Rows of a half under one Delta: of the masks of operands, of results ^ products, and of outputs."""

    a: Words
    b: Words
    out: Words
    outputs: Words

    @property
    def low(self) -> tuple[Words, ...]:
        return tuple(np.ascontiguousarray(rows[..., 0]) for rows in (self.a, self.b, self.out))


@dataclass(frozen=True)
class _Masks:
    """The masks of all wires, once their products are there; what was opened is not checked yet."""

    own: tuple[_Rows, _Rows]
    """Of the half that S0 garbles, and of the other one."""
    peer: tuple[_Rows, _Rows]
    shares: tuple[Bytes, Bytes]
    """Of this server's shares, as garbler and as evaluator."""
    sums: Sums
    sigma: tuple[Bytes, Bytes]
    """This server's, and the other's."""
    second: Second
    key: bytes
    """Of the fingerprints."""
    prints: Bytes
    """Of this server's rows, uint8[2, 32], to be shown."""
    expected: Bytes
    """What the other's must be."""

    def wipe(self, kept: Words | None = None) -> None:
        """Overwrite the rows, but for some that are kept; without any, all else too, for nothing comes of it."""
        for rows in (*self.own, *self.peer):
            wipe(*(part for part in (rows.a, rows.b, rows.out, rows.outputs) if part is not kept))
        if kept is None:
            wipe(*self.shares, self.second.bit, self.second.mac, self.second.key)


def prepare(session: Session, task: Task, block: Block, noise: Array) -> Steps[Prepared]:
    """One server's preparation; its own noise int[N, Q] becomes masks."""
    try:
        return (yield from _prepare(session, Shape(task, block), noise))
    except BaseException:
        session.end()
        raise


def _prepare(session: Session, shape: Shape, noise: Array) -> Steps[Prepared]:
    base = session.begin(shape.block.index)
    made = yield from begin_extension(base, b"block", sum(shape.sections))
    try:
        masks = yield from _masks(session.role, shape, made, noise)
    finally:
        wipe(base.sent, base.choices, made.choices, made.received, made.sent)
    delta, kept = made.delta, None
    del made
    try:
        prepared = yield from _tables(session, shape, delta, masks)
        kept = prepared.evaluated.out
    finally:
        masks.wipe(kept)
    return prepared


def _masks(role: int, shape: Shape, made: Transfers, noise: Array) -> Steps[_Masks]:
    """Steps 2 and 3."""
    parts, delta = _sections(shape, made), made.delta
    leaky, results, blinds = (bits_of(part) for part in parts[:3])
    leaky, results = leaky.reshape(-1, 3), results.reshape(2, shape.plan.ands, shape.half)
    inputs = InputMasks(shape, parts[3], parts[4], _noise_planes(role, shape, noise))
    coins, second = yield from together(leaky_ands(role, delta, leaky, made.first), second_bits(parts[5], shape.second))
    place = places(coins, shape.ands, shape.size)
    e, x, y = bucket_bits(leaky.bit, place)
    woven = [weave(shape.plan, inputs.bits(half == role), results.bit[half]) for half in (0, 1)]
    f, g = (mask ^ np.stack([one[i] for one in woven]).reshape(-1) for i, mask in enumerate((x, y)))
    outputs = np.concatenate([*(one[2].reshape(-1) for one in woven), blinds.bit])
    asked = second.without(slice(shape.outputs, shape.outputs + PADDING))
    sigma, shifts = outputs ^ asked.bit, inputs.shifts
    told = [np.packbits(part, bitorder="little") for part in (e, f, g, sigma, shifts)]
    came = yield "block/products", told
    e, f, g = (_unpacked(mine ^ theirs, part) for mine, theirs, part in zip(told, came, (e, f, g), strict=False))
    their_sigma, their_shifts = (
        _unpacked(theirs, part) for theirs, part in zip(came[3:], (sigma, shifts), strict=True)
    )
    key = opening_key(
        f"products of block {shape.block.index}",
        *(part for pair in zip(told, came, strict=True) for part in (pair if role == 0 else pair[::-1])),
    )

    def rows(
        half: int, of_leaky: Words, of_results: Words, of_inputs: Words, under: Words | None
    ) -> tuple[_Rows, Bytes]:
        """The rows of a half, and the fingerprint of those that were opened."""
        a, b, out = weave(shape.plan, of_inputs, of_results[half])
        here = slice(half * shape.ands // 2, (half + 1) * shape.ands // 2)
        product, words = products(here.start, place[:, here], e[:, here], f[here], g[here], of_leaky, a, b, under)
        product ^= of_results[half]
        return _Rows(a, b, product, out), fingerprint(key, words)

    (own_0, expected_0), (own_1, expected_1) = (
        rows(half, leaky.own, results.own, inputs.own(half == role, delta, their_shifts), delta) for half in (0, 1)
    )
    (peer_0, print_0), (peer_1, print_1) = (
        rows(half, leaky.peer, results.peer, inputs.peer(half == role), None) for half in (0, 1)
    )
    wipe(*inputs.noise, x, y, *(part for one in woven for part in one))
    of_outputs = Bits(
        outputs,
        np.concatenate([own_0.outputs.reshape(-1, 2), own_1.outputs.reshape(-1, 2), blinds.own]),
        np.concatenate([peer_0.outputs.reshape(-1, 2), peer_1.outputs.reshape(-1, 2), blinds.peer]),
    )
    return _Masks(
        own=(own_0, own_1),
        peer=(peer_0, peer_1),
        shares=(inputs.shares(True).copy(), inputs.shares(False).copy()),
        sums=Sums(of_outputs, asked, delta[0]),
        sigma=(sigma, their_sigma),
        second=second[: shape.outputs + PADDING],
        key=key,
        prints=np.stack([print_0, print_1]),
        expected=np.stack([expected_0, expected_1]),
    )


def _tables(session: Session, shape: Shape, delta: Words, masks: _Masks) -> Steps[Prepared]:
    """Step 4."""
    role = session.role
    labels, mine, theirs = draw_labels(shape), masks.own[role], masks.peer[1 - role]
    given = all_inputs(shape, labels.shares, labels.threshold)
    tables, zeros = garble(shape.plan, given, mine.a, mine.b, mine.out, delta, shape.block.index)
    colours = np.packbits((zeros[..., 0] & _LOWEST).astype(np.uint8), bitorder="little")
    told: list[Array] = [tables, colours, masks.prints, *prove_sums(masks.sums, masks.key)]
    their_tables, their_colours, their_prints, *proof = yield "block/tables", told
    if not np.array_equal(their_prints, masks.expected):
        raise caught("opened bits")
    check_sums(masks.sums, masks.key, masks.sigma[1], *proof)
    their_tables[0] ^= theirs.b
    their_tables[1] ^= theirs.a
    garbled = Garbled(labels, masks.shares[0], zeros, masks.peer[role].low)
    evaluated = Evaluated(
        masks.shares[1],
        their_tables,
        np.unpackbits(their_colours, count=zeros.size // 2, bitorder="little").reshape(zeros.shape[:-1]),
        theirs.out,
        masks.own[1 - role].low,
    )
    sigma = (masks.sigma[0] ^ masks.sigma[1])[: shape.outputs]
    return Prepared(session, shape, delta, garbled, evaluated, sigma, masks.second)


def _sections(shape: Shape, made: Transfers) -> list[Transfers]:
    """What the transfers are for, in the order of `Shape.sections`."""
    starts = np.cumsum([0, *shape.sections])
    return [made.part(int(start), size) for start, size in zip(starts, shape.sections, strict=False)]


def _noise_planes(role: int, shape: Shape, noise: Array) -> tuple[Bytes, Bytes]:
    """Noise as numbers of so many bits that count from the lowest; of the half that this server garbles first."""
    halves = shape.halves(noise.astype(np.int64) + (1 << (shape.widths.noise - 1)))
    mine, theirs = (to_planes(halves[half], shape.widths.noise) for half in (role, 1 - role))
    return mine, theirs


def _unpacked(packed: Bytes, like: Bytes) -> Bytes:
    return np.unpackbits(packed, count=like.size, bitorder="little").reshape(like.shape)
