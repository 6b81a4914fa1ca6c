"""Authenticated bits: server i has a part of b, of b Delta_i (`own`) and of b Delta_{1-i} (`peer`).

    own_i ^ peer_{1-i} = b Delta_i

A correlated transfer each way gives one of a random b = b_0 ^ b_1 that neither server knows: with u the own choice, v
what it received and w what it sent, own = w ^ u Delta and peer = v. XOR is local on all three parts; so is adding a
public bit c: S0 flips its part of b, and both add c Delta to `own`.

*Opening.* Both tell their part of b. Then each shows a fingerprint of its `peer` rows, which the other knows if what
was opened is right: own ^ b Delta. To make a wrong b pass takes the other's Delta, of which 63 bits or more are
unknown.

The fingerprint is GHASH under a key that follows from all that was opened (Fiat and Shamir): linear, so that it may be
made of any part of the rows, and several times as fast as a hash. Words stand in 16 columns, two to a block of GHASH:
wrong bits in the places S of a column shift its tag by low(Delta) sum_S h^i x^(64 p), a product in the field, p being
the half of the block; and no S can be chosen for which the sum vanishes but with 2^-128 n/32 for each try.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sedml.errors import CheatingError
from sedml.mpc.kernel import kernel
from sedml.mpc.ot.extension import Transfers, ghash_tags

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]

_AT_ONCE = 1 << 16
_COLUMNS = 16


@dataclass(frozen=True)
class Bits:
    """One server's part of authenticated bits."""

    bit: Bytes = field(repr=False)
    """0/1 uint8[...]."""
    own: Words = field(repr=False)
    """uint64[..., 2], under this server's Delta."""
    peer: Words = field(repr=False)
    """uint64[..., 2], under the other's."""

    def __getitem__(self, place: slice) -> Bits:
        return Bits(self.bit[place], self.own[place], self.peer[place])

    def reshape(self, *shape: int) -> Bits:
        """The same bits in another shape."""
        return Bits(self.bit.reshape(shape), self.own.reshape(*shape, 2), self.peer.reshape(*shape, 2))


def spread(bits: Bytes) -> Words:
    """0/1 uint8[...] -> uint64[...], all zeros or all ones: nothing branches on a bit."""
    return np.negative(bits.astype(np.uint64))


def times(bits: Bytes, row: Words) -> Words:
    """uint8[...] times uint64[..., 2] or uint64[2] -> uint64[..., 2]."""
    return spread(bits)[..., np.newaxis] & row


def bits_of(made: Transfers) -> Bits:
    """Authenticated bits of all these transfers, in their place: the transfers are used up."""
    fast = kernel()
    for start in range(0, made.choices.size, _AT_ONCE):
        here = slice(start, start + _AT_ONCE)
        if fast is None:
            made.sent[here] ^= times(made.choices[here], made.delta)
        else:
            fast.label(made.sent[here], made.choices[here], made.delta, made.sent[here])
    return Bits(made.choices, made.sent, made.received)


def opening_key(use: str, *said: Bytes) -> bytes:
    """The key of the fingerprints that follow what was opened: the same arrays in the same order at both servers.

    `use` says what for, so that no two fingerprints have a key in common.
    """
    whole = hashlib.sha256(f"opened bits of sedml: {use}\0".encode())
    for part in said:
        whole.update(part.nbytes.to_bytes(8, "little") + part.tobytes())
    return whole.digest()[:16]


def fingerprint(key: bytes, words: Words) -> Bytes:
    """uint64[...] -> uint8[32]: GHASH of the words as columns, hashed."""
    flat = np.ascontiguousarray(words).reshape(-1)
    if missing := -flat.size % (2 * _COLUMNS):
        flat = np.concatenate([flat, np.zeros(missing, np.uint64)])
    tags = ghash_tags(key, flat.reshape(_COLUMNS, -1))
    return np.frombuffer(hashlib.sha256(b"sedml fingerprint" + tags.tobytes()).digest(), np.uint8)


def wipe(*secrets: npt.NDArray[np.generic]) -> None:
    """Overwrite what nobody needs any more: memory that is given back is not cleared."""
    for secret in secrets:
        secret.fill(0)


def caught(what: str) -> CheatingError:
    """The other server did not follow the protocol; nothing that is said of it depends on a vote."""
    return CheatingError(
        f"The other server cheated ({what}), or its memory is damaged.",
        "The job is over, and no label of it leaves this server. Tell both operators.",
    )
