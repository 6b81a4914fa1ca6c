"""SoftSpokenOT: as many random OTs as wanted from 32 trees of 16 seeds (Roy, CRYPTO 2022, ePrint 2022/192), k = 4.

For tree i let r_x be the stretched seed of leaf x, n bits long. The receiver of the OTs owns the trees, the sender
knows all leaves but Delta_i:

1. The receiver has u_i = XOR_x r_x and v_i,b = XOR of the r_x whose x has bit b. The sender, from leaves in the order
   x ^ Delta_i, has w_i,b = v_i,b ^ Delta_i,b u_i: no leaf that it lacks takes part.
2. The receiver's choice bits are u = u_0. It sends the corrections u ^ u_i of the other 31 trees, and the sender
   adds Delta_i,b (u ^ u_i) to w_i,b. Now w = v ^ Delta u for one u, in 128 columns: 31 bits an OT. 1 round.
3. Row j of v and w: w_j = v_j ^ u_j Delta. The keys of OT j are H(w_j) and H(w_j ^ Delta); the receiver has that of its
   choice u_j (`hashing`).
4. Check, in the same message: a receiver that sends corrections for several u could learn Delta from what follows.
   So all columns are hashed by a GF(2)-linear universal hash L under a key that follows from the corrections (Fiat
   and Shamir), and the receiver sends L(u) and a digest of L(v_1), .., L(v_128); the sender compares with
   L(w_c) ^ Delta_c L(u). One block of 128 transfers is spent on hiding what L(u) would tell. A wrong correction in
   any tree passes only if the receiver guessed the bits of Delta that it touches: then it has learned those, no more.

L is GHASH of AES-GCM (NIST SP 800-38D), sum_i x_i h^(m-i), computed as the tag of a message that is all additional
data: tags under one key and nonce differ by GHASH of the difference. A try passes with probability n / 128 / 2^128
and can be repeated at home, so a batch of 2^18 transfers has about 117 bits of security; Delta has 128 bits, four to a
tree. The challenge is bound to what was told of the trees, so that a try is of use in one run alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sedml.errors import CheatingError
from sedml.mpc.kernel import kernel
from sedml.mpc.ot.transpose import to_rows
from sedml.mpc.ot.trees import DEPTH, LEAVES, TREES, BaseOts, Grown, Trees, grow
from sedml.mpc.ring import Array
from sedml.mpc.steps import Steps

SPENT = 128
"""Transfers of each batch that hide what the check sends."""
_CHUNK = 8192  # words stretched at once: many enough that calls cost little, few enough for the caches
_BATCH = 1 << 18
"""Transfers that are checked together."""
_NONCE = bytes(12)

# Leaves in the order of the Gray code: from one to the next a single bit of x changes, so the XOR of all leaves with
# bit b is an XOR of few running sums, those where bit b changes.
_GRAY = [x ^ (x >> 1) for x in range(LEAVES)]
_TURNS = [
    [j for j in range(LEAVES) if (_GRAY[j] ^ (_GRAY[j + 1] if j + 1 < LEAVES else 0)) >> b & 1] for b in range(DEPTH)
]

Words = npt.NDArray[np.uint64]
_Streams: TypeAlias = list[list[CipherContext]]


@dataclass(frozen=True)
class Transfers:
    """n random OTs each way."""

    first: int
    """How many there were before: the number of the first one, for its tweak."""
    choices: npt.NDArray[np.uint8] = field(repr=False)
    """0/1 uint8[n]: this server's choice bits, uniform."""
    received: Words = field(repr=False)
    """uint64[n, 2]: v_j, whose hash is the key of its choice."""
    sent: Words = field(repr=False)
    """uint64[n, 2]: w_j, whose hash is the key of choice 0."""
    delta: Words = field(repr=False)
    """uint64[2]: w_j ^ Delta hashes to the key of choice 1."""

    def part(self, start: int, count: int) -> Transfers:
        """Take so many of them, from number `start` on."""
        here = slice(start, start + count)
        return Transfers(self.first + start, self.choices[here], self.received[here], self.sent[here], self.delta)


@dataclass(frozen=True)
class _Offer:
    """What a server has of transfers that the other one has not answered yet."""

    sizes: list[int]
    first: int
    choices: npt.NDArray[np.uint8] = field(repr=False)
    received: Words = field(repr=False)
    message: list[Array] = field(repr=False)
    """The corrections of every batch, and all proofs."""


class Extension:
    """One server's end of an extension: two streams of transfers, in step with the other server's.

    `label` is the same at both ends, and of no other extension of the same trees. These would all have one Delta, so no
    two may have a tweak in common: `first` is the number of this one's first transfer.
    """

    def __init__(self, trees: Trees | Grown, label: bytes, first: int = 0) -> None:
        self._label, self._made = label, first
        # Of each stream that are used up, of the own trees and of the other's.
        self._words = [0, 0]
        self._streams: list[_Streams | None] = [None, None]
        self._keys: list[bytes | None] = [None, None]
        own, name = (trees.seeds, trees.name) if isinstance(trees, Grown) else (trees.own, trees.names[0])
        self._seeds, self._names = [own], [name]
        if isinstance(trees, Trees):
            self.learn(trees)

    def learn(self, trees: Trees) -> None:
        """The other server's trees have come."""
        bits = (trees.delta[:, np.newaxis] >> np.arange(DEPTH, dtype=np.uint8)) & np.uint8(1)
        # All ones or all zeros by the bits of Delta: no branch of the code, and so no time, hangs on them.
        self._masks = (-bits.astype(np.int64)).view(np.uint64)
        self.delta = np.packbits(bits.reshape(-1), bitorder="little").view(np.uint64)
        """uint64[2]."""
        self._seeds.append(trees.known)
        self._names.append(trees.names[1])

    def extend(self, count: int) -> Steps[Transfers]:
        """At least so many transfers each way, in one round; checked in batches."""
        offer = self.offer(count)
        theirs = yield "ot/extend", [*offer.message]
        offer.message.clear()
        return self.take(offer, theirs)

    def offer(self, count: int) -> _Offer:
        """This server's part of so many transfers, and what it tells: for that its own trees are enough."""
        sizes, first = _batches(count), self._made
        total, at = sum(sizes), 0
        choices, received = np.empty(total, np.uint8), np.empty((total, 2), np.uint64)
        corrections, proofs = [], []
        for n in sizes:
            corrected, chosen, v = self._own_side(n)
            proofs.append(np.concatenate(_proof(self._challenge(0, first + at, corrected), chosen, v)))
            here = slice(at, at + n)
            to_rows(v.reshape(TREES * DEPTH, -1), n // 64, received[here])
            choices[here] = np.unpackbits(chosen.view(np.uint8), count=n, bitorder="little")
            corrections.append(corrected)
            at += n
        self._made += total
        return _Offer(sizes, first, choices, received, [*corrections, np.stack(proofs)])

    def take(self, offer: _Offer, theirs: list[Array]) -> Transfers:
        """The transfers, from what the other server told; raises unless that fits. `theirs` is used up."""
        their_proofs = theirs.pop()
        sent, at = np.empty((offer.choices.size, 2), np.uint64), 0
        for n, proof in zip(offer.sizes, their_proofs, strict=True):
            corrected = theirs.pop(0)
            w = self._known_side(n, corrected)
            self._verify(self._challenge(1, offer.first + at, corrected), w, proof[:16], proof[16:])
            to_rows(w.reshape(TREES * DEPTH, -1), n // 64, sent[at : at + n])
            at += n
        return Transfers(offer.first, offer.choices, offer.received, sent, self.delta)

    def _own_side(self, n: int) -> tuple[Words, Words, Words]:
        """A batch as its receiver: the corrections, the choices, and v uint64[TREES, DEPTH, m]."""
        m = _words(n)
        v = np.empty((TREES, DEPTH, m), np.uint64)
        fast = kernel()
        if fast is None:
            corrections, choices = _own_columns(self._opened(0), v)
        else:
            sums = np.empty((TREES, m), np.uint64)
            fast.fold(self._schedule(0), 0, self._here(0), m, v, sums)
            choices, corrections = sums[0], sums[1:]
            corrections ^= choices
        self._words[0] += m
        return corrections, choices, v

    def _known_side(self, n: int, theirs: Words) -> Words:
        """A batch as its sender: w uint64[TREES, DEPTH, m], corrected."""
        m = _words(n)
        w = np.empty((TREES, DEPTH, m), np.uint64)
        fast = kernel()
        if fast is None:
            _known_columns(self._opened(1), w)
            for tree in range(1, TREES):
                w[tree] ^= theirs[tree - 1] & self._masks[tree, :, np.newaxis]
        else:
            fast.fold(self._schedule(1), 1, self._here(1), m, w, None)
            fast.correct(np.ascontiguousarray(theirs), self._masks, w)
        self._words[1] += m
        return w

    def _schedule(self, side: int) -> bytes:
        fast = kernel()
        assert fast is not None  # noqa: S101
        found = self._keys[side] = self._keys[side] or fast.schedule(self._seeds[side])
        return found

    def _opened(self, side: int) -> _Streams:
        found = self._streams[side] = self._streams[side] or _streams(self._seeds[side], self._here(side))
        return found

    def _here(self, side: int) -> bytes:
        """The counter at which all streams of a side are."""
        start = int.from_bytes(hashlib.blake2b(self._label, digest_size=16, person=b"sedml-ot-stream").digest(), "big")
        return ((start + self._words[side] // 2) % (1 << 128)).to_bytes(16, "big")

    def _challenge(self, side: int, first: int, corrections: Words) -> bytes:
        # SHA-256, for which processors have instructions: this is the only hash over so much.
        bound = hashlib.sha256(b"sedml-ot-check" + len(self._label).to_bytes(8, "little") + self._label)
        bound.update(self._names[side] + first.to_bytes(8, "little"))
        bound.update(corrections.data)
        return bound.digest()[:16]

    def _verify(self, key: bytes, w: Words, their_sum: npt.NDArray[np.uint8], digest: npt.NDArray[np.uint8]) -> None:
        tags = ghash_tags(key, w.reshape(TREES * DEPTH, -1))
        tags ^= their_sum & self._masks.astype(np.uint8).reshape(-1, 1)
        if not np.array_equal(_digest(tags), digest):
            raise CheatingError(
                "The other server cheated while both made their randomness, or its memory is damaged.",
                "Nothing of this block was opened. Tell both operators.",
            )


def begin_extension(base: BaseOts, label: bytes, count: int) -> Steps[Transfers]:
    """Trees and so many transfers of them, in one round: corrections follow from the own trees alone."""
    grown = grow(base)
    end = Extension(grown, label)
    offer = end.offer(count)
    told = [*grown.message, *offer.message]
    offer.message.clear()
    theirs = yield "ot/extend", told
    told.clear()
    end.learn(grown.take([theirs.pop(0) for _ in grown.message]))
    return end.take(offer, theirs)


def _batches(count: int) -> list[int]:
    """The sizes of the batches of so many transfers: multiples of 128."""
    whole, rest = divmod(-(-count // 128) * 128, _BATCH)
    return [_BATCH] * whole + [rest] * (rest > 0)


def _words(n: int) -> int:
    """Words of a stream that a batch takes, an even number of them."""
    return (n + SPENT) // 64


def _streams(seeds: npt.NDArray[np.uint8], start: bytes) -> _Streams:
    """AES-CTR for each leaf of each tree, in the order of the Gray code."""
    return [[Cipher(algorithms.AES(tree[x].tobytes()), modes.CTR(start)).encryptor() for x in _GRAY] for tree in seeds]


def _own_columns(streams: _Streams, v: Words) -> tuple[Words, Words]:
    """Fills v uint64[TREES, DEPTH, m]; the corrections uint64[TREES - 1, m], and the choices u uint64[m]."""
    m = v.shape[-1]
    corrections, u = np.empty((TREES - 1, m), np.uint64), np.empty(m, np.uint64)
    for start in range(0, m, _CHUNK):
        here = slice(start, min(start + _CHUNK, m))
        nothing = np.zeros(here.stop - here.start, np.uint64)
        u[here] = _fold(streams[0], nothing, v[0, :, here], 0)
        for tree in range(1, TREES):
            # CTR adds its stream to what it is given, so the correction comes out of the last sum by itself.
            corrections[tree - 1, here] = _fold(streams[tree], u[here], v[tree, :, here], 0)
    return corrections, u


def _known_columns(streams: _Streams, w: Words) -> None:
    """Fills w uint64[TREES, DEPTH, m], before the corrections."""
    m = w.shape[-1]
    for start in range(0, m, _CHUNK):
        here = slice(start, min(start + _CHUNK, m))
        nothing = np.zeros(here.stop - here.start, np.uint64)
        for tree in range(TREES):
            _fold(streams[tree], nothing, w[tree, :, here], 1)


def _fold(streams: list[CipherContext], given: Words, columns: Words, first: int) -> Words:
    """`given` ^ the sum of all leaves from `first` on, in the order of the Gray code; sums by bit into `columns`."""
    sums = [given] * first
    for stream in streams[first:]:
        total = np.empty_like(given)
        stream.update_into((sums[-1] if sums else given).view(np.uint8).data, total.view(np.uint8).data)
        sums.append(total)
    for column, (one, other, *rest) in zip(columns, _TURNS, strict=True):
        np.bitwise_xor(sums[one], sums[other], out=column)
        for turn in rest:
            column ^= sums[turn]
    return sums[-1]


def _proof(key: bytes, choices: Words, v: Words) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """L(u) uint8[16], and a digest uint8[32] of L(v) of all columns."""
    total, nothing = ghash_tags(key, np.stack([choices, np.zeros_like(choices)]))
    return total ^ nothing, _digest(ghash_tags(key, v.reshape(TREES * DEPTH, -1)))


def ghash_tags(key: bytes, columns: Words) -> npt.NDArray[np.uint8]:
    """columns: uint64[c, m] -> uint8[c, 16]: L of each, all with the same constant added."""
    fast = kernel()
    if fast is not None:
        found = np.empty((len(columns), 16), np.uint8)
        fast.tags(key, columns, columns.strides[0], found)
        return found
    gcm = AESGCM(key)
    return (
        np.frombuffer(b"".join(gcm.encrypt(_NONCE, b"", column) for column in columns.view(np.uint8)), np.uint8)
        .reshape(-1, 16)
        .copy()
    )


def _digest(tags: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return np.frombuffer(hashlib.blake2b(tags.tobytes(), digest_size=32, person=b"sedml-ot-tags").digest(), np.uint8)
