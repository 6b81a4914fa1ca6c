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
and can be repeated at home, so a batch of 2^20 transfers has about 115 bits of security; Delta has 128 bits, four to a
tree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sedml.errors import CheatingError
from sedml.mpc.channel import Channel
from sedml.mpc.kernel import kernel
from sedml.mpc.ot.base_ot import base_ots
from sedml.mpc.ot.transpose import to_rows
from sedml.mpc.ot.trees import DEPTH, LEAVES, TREES, Trees, share_trees
from sedml.mpc.prg import Seed

__all__ = ["SPENT", "Extension", "Transfers", "set_up"]

SPENT = 128
"""Transfers of each batch that hide what the check sends."""
_CHUNK = 8192  # words stretched at once: many enough that calls cost little, few enough for the caches
_NONCE = bytes(12)

# Leaves in the order of the Gray code: from one to the next a single bit of x changes, so the XOR of all leaves with
# bit b is an XOR of few running sums, those where bit b changes.
_GRAY = [x ^ (x >> 1) for x in range(LEAVES)]
_TURNS = [
    [j for j in range(LEAVES) if (_GRAY[j] ^ (_GRAY[j + 1] if j + 1 < LEAVES else 0)) >> b & 1] for b in range(DEPTH)
]

Words = npt.NDArray[np.uint64]
_Streams: TypeAlias = list[list[CipherContext]]
_BothStreams: TypeAlias = tuple[_Streams, _Streams]


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


class Extension:
    """One server's end of an extension: two streams of transfers, in step with the other server's.

    `label` is the same at both ends. The streams follow from the trees and the label alone, so whoever has these again
    can go on where it was: it skips the batches that it made before.
    """

    def __init__(self, trees: Trees, label: bytes) -> None:
        self._trees = trees
        self._streams: _BothStreams | None = None
        self._keys: tuple[bytes, bytes] | None = None
        bits = (trees.delta[:, np.newaxis] >> np.arange(DEPTH, dtype=np.uint8)) & np.uint8(1)
        # All ones or all zeros by the bits of Delta: no branch of the code, and so no time, hangs on them.
        self._masks = (-bits.astype(np.int64)).view(np.uint64)
        self._delta = np.packbits(bits.reshape(-1), bitorder="little").view(np.uint64)
        self._label = label
        self._made = 0
        self._words = 0  # of each stream that are used up
        self._space = np.empty((2, TREES, DEPTH, 0), np.uint64)  # kept from batch to batch: fresh memory is slow

    def branch(self) -> Extension:
        """Another end, at the same place of the same streams: whoever has both must make every batch only once."""
        other = Extension(self._trees, self._label)
        other._count(self._made, self._words)
        other._keys = self._keys
        return other

    def __reduce__(self) -> tuple[Callable[..., Extension], tuple[Trees, bytes, int, int]]:
        # For another process of the same server; streams are opened anew there.
        return _resume, (self._trees, self._label, self._made, self._words)

    def skip(self, count: int) -> None:
        """Go past a batch of so many transfers."""
        self._streams = None
        self._count(*_sizes(count))

    def extend(self, channel: Channel, block: int, count: int) -> Transfers:
        """At least so many transfers each way, in one round."""
        n, m = _sizes(count)
        if self._space.shape[-1] != m:
            self._space = np.empty((2, TREES, DEPTH, m), np.uint64)
        v, w = self._space
        fast = kernel()
        if fast is None:
            own, known = self._streams = self._streams or self._begin()
            corrections, choices = _own_columns(own, v)
            _known_columns(known, w)
        else:
            self._keys = self._keys or (fast.schedule(self._trees.own), fast.schedule(self._trees.known))
            sums = np.empty((TREES, m), np.uint64)
            fast.fold(self._keys[0], 0, self._here(), m, v, sums)
            fast.fold(self._keys[1], 1, self._here(), m, w, None)
            choices, corrections = sums[0], sums[1:]
            corrections ^= choices
        total, digest = _proof(self._challenge(corrections), choices, v)
        theirs, their_sum, their_digest = channel.exchange(block, "ot/extend", [corrections, total, digest])
        if fast is None:
            for tree in range(1, TREES):
                w[tree] ^= theirs[tree - 1] & self._masks[tree, :, np.newaxis]
        else:
            fast.correct(theirs, self._masks, w)
        self._verify(self._challenge(theirs), w, their_sum, their_digest)
        first = self._made
        self._count(n, m)
        rows_v, rows_w = (to_rows(columns.reshape(TREES * DEPTH, m), n // 64) for columns in (v, w))
        bits = np.unpackbits(choices.view(np.uint8), count=n, bitorder="little")
        return Transfers(first, bits, rows_v, rows_w, self._delta)

    def _count(self, n: int, m: int) -> None:
        self._made += n
        self._words += m

    def _begin(self) -> _BothStreams:
        return _streams(self._trees.own, self._here()), _streams(self._trees.known, self._here())

    def _here(self) -> bytes:
        """The counter at which all streams are."""
        start = int.from_bytes(hashlib.blake2b(self._label, digest_size=16, person=b"sedml-ot-stream").digest(), "big")
        return ((start + self._words // 2) % (1 << 128)).to_bytes(16, "big")

    def _challenge(self, corrections: Words) -> bytes:
        # SHA-256, for which processors have instructions: this is the only hash over so much.
        bound = hashlib.sha256(b"sedml-ot-check" + len(self._label).to_bytes(8, "little") + self._label)
        bound.update(self._made.to_bytes(8, "little"))
        bound.update(corrections.data)
        return bound.digest()[:16]

    def _verify(self, key: bytes, w: Words, their_sum: npt.NDArray[np.uint8], digest: npt.NDArray[np.uint8]) -> None:
        tags = _tags(key, w.reshape(TREES * DEPTH, -1))
        tags ^= their_sum & self._masks.astype(np.uint8).reshape(-1, 1)
        if not np.array_equal(_digest(tags), digest):
            raise CheatingError(
                "The other server cheated while both made their randomness, or its memory is damaged.",
                "Nothing of this block was opened. Tell both operators.",
            )


def _resume(trees: Trees, label: bytes, made: int, words: int) -> Extension:
    end = Extension(trees, label)
    end._count(made, words)
    return end


def set_up(role: int, channel: Channel, coins: Seed | None = None) -> Trees:
    """Base OTs and trees, both ways, in two rounds. They serve one extension: its tweaks begin at 0.

    All that the server draws for them follows from its `coins`, which nobody else may ever know.
    """
    coins = coins or Seed.random()
    return share_trees(base_ots(role, channel, coins), channel, coins)


def _sizes(count: int) -> tuple[int, int]:
    """Transfers of a batch, and words of a stream that it takes, an even number of them."""
    n = -(-count // 128) * 128
    return n, (n + SPENT) // 64


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
    total, nothing = _tags(key, np.stack([choices, np.zeros_like(choices)]))
    return total ^ nothing, _digest(_tags(key, v.reshape(TREES * DEPTH, -1)))


def _tags(key: bytes, columns: Words) -> npt.NDArray[np.uint8]:
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
