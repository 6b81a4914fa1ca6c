"""128 base OTs each way by public-key cryptography: the "endemic" OT of Masny and Rindal (CCS 2019, ePrint 2019/706).

On the prime-order subgroup of Ed25519, with libsodium's point arithmetic. For transfer i with choice bit b:

1. The sender draws a and sends A = a G, the same for all transfers. The receiver draws t and a random point R_{1-b},
   sets R_b = t G - H(i, b, R_{1-b}), and sends R_0, R_1. Neither message depends on the other: 1 round, 8 KB each way.
2. The sender's keys are k_j = KDF(i, j, a (R_j + H(i, j, R_{1-j}))) for j = 0, 1; the receiver's is KDF(i, b, t A).

The receiver knows the discrete logarithm of R_j + H(i, j, R_{1-j}) for one j at most, whatever it does, for H is a
random oracle into the group; the sender sees two uniform points. Secure against a malicious party on either side under
the gap CDH assumption (one A serves all transfers) in the random oracle model; about 126 bits of security on this
curve. Points that are not canonical, or not of prime order, are refused.

Choice bits are secret: they are hashed, and mask what changes places; nothing branches on one or is looked up by it.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
from nacl import bindings as sodium

from sedml.errors import CheatingError
from sedml.mpc.ot.trees import DEPTH, KEY_BYTES, TREES, BaseOts
from sedml.mpc.prg import Seed, expand
from sedml.mpc.steps import Steps

COUNT = DEPTH * TREES
_POINT = 32

Bytes = npt.NDArray[np.uint8]


def base_ots(role: int, coins: Seed | None = None) -> Steps[BaseOts]:
    """Both directions at once, in one round."""
    coins = coins or Seed.random()
    a, *drawn = _scalars(coins, 1 + 2 * COUNT)
    own_a = sodium.crypto_scalarmult_ed25519_base_noclamp(a)
    choices = expand(coins, "ot/base/choices", COUNT) & np.uint8(1)
    # The lowest bit of Delta is 1, so that labels that differ by Delta differ in theirs; 127 bits of it are secret.
    choices[DEPTH - 1] = 0
    exponents, others = drawn[:COUNT], drawn[COUNT:]
    # Which transfer a hash is for: who sends, its number, and the bit.
    chosen = np.stack([np.full(COUNT, 1 - role, np.uint8), np.arange(COUNT, dtype=np.uint8), choices], axis=1)
    names = [row.tobytes() for row in chosen]
    pairs = [_points(*drawn_for) for drawn_for in zip(names, exponents, others, strict=True)]
    points = np.frombuffer(b"".join(pairs), np.uint8).reshape(COUNT, 2, _POINT)
    swapped = -choices[:, np.newaxis, np.newaxis]
    points = points ^ (swapped & (points ^ points[:, ::-1]))
    theirs, their_points = yield "ot/base", [np.frombuffer(own_a, np.uint8), points]
    their_a = _checked(theirs.tobytes())
    received = [_key(name, _times(t, their_a), their_a) for name, t in zip(names, exponents, strict=True)]
    sent = []
    for i, pair in enumerate(their_points):
        both = [_checked(point.tobytes()) for point in pair]
        for j in (0, 1):
            name = bytes([role, i, j])
            # Whoever makes this sum the neutral element knows its logarithm, and no multiple of it is a key.
            base = _checked(sodium.crypto_core_ed25519_add(both[j], _hash_to_point(name, both[1 - j])))
            sent.append(_key(name, _times(a, base), own_a))
    return BaseOts(_rows(sent).reshape(COUNT, 2, KEY_BYTES), choices, _rows(received))


def _points(name: bytes, t: bytes, u: bytes) -> bytes:
    """R_b and R_{1-b} = u G, for the transfer and the choice bit b in `name`."""
    other = sodium.crypto_scalarmult_ed25519_base_noclamp(u)
    own = sodium.crypto_core_ed25519_sub(sodium.crypto_scalarmult_ed25519_base_noclamp(t), _hash_to_point(name, other))
    return own + other


def _scalars(coins: Seed, count: int) -> list[bytes]:
    drawn = expand(coins, "ot/base/scalars", 64 * count).reshape(count, 64)
    return [sodium.crypto_core_ed25519_scalar_reduce(row.tobytes()) for row in drawn]


def _times(scalar: bytes, point: bytes) -> bytes:
    return sodium.crypto_scalarmult_ed25519_noclamp(scalar, point)


def _hash_to_point(name: bytes, point: bytes) -> bytes:
    """A random oracle into the group: two Elligator maps added, for one reaches only half of it."""
    digest = hashlib.blake2b(name + point, digest_size=64, person=b"sedml-baseot-h").digest()
    first, second = (sodium.crypto_core_ed25519_from_uniform(digest[at : at + 32]) for at in (0, 32))
    return sodium.crypto_core_ed25519_add(first, second)


def _key(name: bytes, shared: bytes, a: bytes) -> bytes:
    return hashlib.blake2b(name + a + shared, digest_size=KEY_BYTES, person=b"sedml-baseot-k").digest()


def _checked(point: bytes) -> bytes:
    if not sodium.crypto_core_ed25519_is_valid_point(point):
        raise CheatingError("The other server sent a point that is not one of the group.", "Tell both operators.")
    return point


def _rows(keys: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(keys), np.uint8).reshape(-1, KEY_BYTES)
