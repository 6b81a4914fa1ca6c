"""All-but-one OT of 16 seeds from 4 base OTs, 32 of them side by side: GGM trees of depth 4, and a check.

The owner of a tree knows all 16 leaves; the other side knows all but the one at a place that it alone knows, Delta_i.
(Goldreich, Goldwasser, Micali 1986; as in SoftSpokenOT, Roy, CRYPTO 2022, ePrint 2022/192, section 6.)

1. The owner draws a root and doubles it level by level. For level l it sends, under the two base keys of that level,
   the XOR of all left children and the XOR of all right children.
2. The other side's base OT of that level gave it one of the two keys: it learns that side's sum, and with all the nodes
   it knows already, the one sibling on the path to its place.
3. Check: a leaf is stretched to a seed and a 32-byte tag. The owner sends the XOR of all tags, and a hash of them in
   order. The other side works out the one tag that it lacks and compares. An owner that sent wrong sums is caught,
   unless it guessed at which side the other looked; then it has learned those bits of Delta, and no more.

One round after the base OTs, 4 KB + 2 KB each way.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sedml.errors import CheatingError
from sedml.mpc.prg import Seed, expand

DEPTH = 4
LEAVES = 1 << DEPTH
TREES = 32
KEY_BYTES = 16
_TAG = 32

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class BaseOts:
    """One server's side: keys of the transfers it sends, and choice bits and keys of those it receives."""

    sent: Bytes = field(repr=False)
    """uint8[TREES * DEPTH, 2, KEY_BYTES]."""
    choices: Bytes = field(repr=False)
    """0/1 uint8[TREES * DEPTH], uniform, but for the one that makes the lowest bit of Delta 1."""
    received: Bytes = field(repr=False)
    """uint8[TREES * DEPTH, KEY_BYTES]: sent[i, choices[i]] of the other server."""


@dataclass(frozen=True)
class Trees:
    """One server's side of all trees."""

    own: Bytes = field(repr=False)
    """uint8[TREES, LEAVES, 16]: the seeds of its own trees."""
    delta: Bytes = field(repr=False)
    """uint8[TREES]: the places in the other server's trees that it does not know."""
    known: Bytes = field(repr=False)
    """uint8[TREES, LEAVES, 16]: the seeds of the other server's trees at x ^ delta; those at x = 0 are zeros."""
    names: tuple[bytes, bytes] = (b"", b"")
    """Digests of what was told of its own trees, and of the other's: no two runs have the same."""


@dataclass(frozen=True)
class Grown:
    """One server's own trees, and what it tells of them; the other's are still to come."""

    base: BaseOts
    seeds: Bytes = field(repr=False)
    message: list[Bytes] = field(repr=False)

    @property
    def name(self) -> bytes:
        """A digest of what is told."""
        return _name(self.message)

    def take(self, theirs: list[Bytes]) -> Trees:
        """Both servers' trees, from what the other one tells; raises unless that fits together."""
        their_sums, their_total, their_digest = theirs
        delta, nodes = _puncture(self.base, their_sums)
        known, tags = _stretch(nodes)
        here = _where(delta, LEAVES)[..., np.newaxis]
        tags &= ~here
        tags ^= here & (their_total ^ np.bitwise_xor.reduce(tags, axis=1))[:, np.newaxis]
        if not np.array_equal(_digest(tags), their_digest):
            raise CheatingError("The other server's trees of seeds do not fit together.", "Tell both operators.")
        return Trees(self.seeds, delta, _moved(known & ~here, delta), (self.name, _name(theirs)))


def grow(base: BaseOts, coins: Seed | None = None) -> Grown:
    """Step 1, and what the check of step 3 takes."""
    nodes = expand(coins or Seed.random(), "ot/trees", TREES * KEY_BYTES).reshape(TREES, 1, KEY_BYTES)
    sums = np.empty((TREES, DEPTH, 2, KEY_BYTES), np.uint8)
    for level in range(DEPTH):
        children = _double(nodes)
        sums[:, level] = np.bitwise_xor.reduce(children, axis=1)
        nodes = children.reshape(TREES, -1, KEY_BYTES)
    seeds, tags = _stretch(nodes)
    masked = sums ^ base.sent.reshape(sums.shape)
    return Grown(base, seeds, [masked, np.bitwise_xor.reduce(tags, axis=1), _digest(tags)])


def _name(message: list[Bytes]) -> bytes:
    return hashlib.sha256(b"sedml trees" + b"".join(part.tobytes() for part in message)).digest()


def _puncture(base: BaseOts, their_sums: Bytes) -> tuple[Bytes, Bytes]:
    """All leaves of the other's trees but one each: where that is, uint8[TREES], and the leaves, garbage there."""
    sides = base.choices.reshape(TREES, DEPTH)
    nodes = np.zeros((TREES, 1, KEY_BYTES), np.uint8)
    path = np.zeros(TREES, np.uint8)
    for level in range(DEPTH):
        here = _where(path, 1 << level)[..., np.newaxis, np.newaxis]
        side = _where(sides[:, level], 2)[..., np.newaxis]
        children = _double(nodes) & ~here
        # The sum of that side's children, less those that are known: the sibling on the path.
        sums = their_sums[:, level] ^ np.bitwise_xor.reduce(children, axis=1)
        key = base.received.reshape(TREES, DEPTH, 1, KEY_BYTES)[:, level]
        children ^= here & (side & (sums ^ key))[:, np.newaxis]
        nodes = children.reshape(TREES, -1, KEY_BYTES)
        path = 2 * path + (1 - sides[:, level])
    return path, nodes


def _where(places: Bytes, count: int) -> Bytes:
    """places uint8[TREES] below `count` -> uint8[TREES, count]: all ones there, and zeros elsewhere.

    Places are secret, so nothing is looked up by one: everything is read, and masked.
    """
    there: Bytes = np.negative((np.arange(count, dtype=np.uint8) == places[:, np.newaxis]).astype(np.uint8))
    return there


def _moved(leaves: Bytes, delta: Bytes) -> Bytes:
    """uint8[TREES, LEAVES, 16] -> at x what was at x ^ delta: halves change places, or not, bit by bit of delta."""
    for level in range(DEPTH):
        swapped = -(delta >> np.uint8(level) & np.uint8(1))[:, np.newaxis, np.newaxis]
        leaves = leaves ^ (swapped & (leaves ^ leaves[:, np.arange(LEAVES) ^ (1 << level)]))
    return leaves


def _double(nodes: Bytes) -> Bytes:
    """uint8[..., 16] -> uint8[..., 2, 16]: pi_L(x) ^ x and pi_R(x) ^ x for two fixed permutations."""
    return np.stack([_permute(key, nodes) ^ nodes for key in (b"sedml tree left.", b"sedml tree right")], axis=-2)


def _permute(key: bytes, blocks: Bytes) -> Bytes:
    # AES under a public key, as a permutation; no secret is encrypted for anyone.
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    return np.frombuffer(encryptor.update(np.ascontiguousarray(blocks).tobytes()), np.uint8).reshape(blocks.shape)


def _stretch(nodes: Bytes) -> tuple[Bytes, Bytes]:
    """Leaves uint8[TREES, LEAVES, 16] -> seeds of the same shape and tags uint8[TREES, LEAVES, 32]."""
    size = KEY_BYTES + _TAG
    stretched = b"".join(
        hashlib.blake2b(node.tobytes(), digest_size=size, person=b"sedml-ot-leaf").digest()
        for node in nodes.reshape(-1, KEY_BYTES)
    )
    both = np.frombuffer(stretched, np.uint8).reshape(TREES, LEAVES, size)
    return both[..., :KEY_BYTES].copy(), both[..., KEY_BYTES:].copy()


def _digest(tags: Bytes) -> Bytes:
    """uint8[TREES, LEAVES, 32] -> uint8[TREES, 32]."""
    rows = [hashlib.blake2b(row.tobytes(), digest_size=_TAG, person=b"sedml-ot-tags").digest() for row in tags]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(TREES, _TAG)
