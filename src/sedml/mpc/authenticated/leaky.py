"""Leaky ANDs: [x], [y], [z] with z = x y, of which a cheat may have guessed the other's part of x (KRRW, section 4).

"Low" is the lower 64 bits of a row; of rows under S1's Delta the lowest bit is cleared, so that W = low(Delta_0) ^
low(Delta_1) has a lowest bit of 1: both Deltas have one. `key` is own[x] ^ x_i Delta_i, what the other's peer[x] is for
a part of 0.

1. c_i = low(own[y] ^ peer[y]), so that c_0 ^ c_1 = y W. Server i sends g_i = low(H(key) ^ H(key ^ Delta_i)) ^ c_i: with
   it the other gets a share of x_{1-i} c_i, as low H(peer[x]) is H(key) or H(key ^ Delta_i). Adding up, and with
   low(own[z] ^ peer[z]), the servers have s_0 ^ s_1 = (x y ^ z) W. 1 round, 8 bytes each way.
2. The lowest bits of s_0 and s_1 are opened: d = x y ^ z. It is added to z, and d W to s: now s_0 = s_1. 1 round, 1
   bit.
3. Both commit to SHA-256 of all s and to 32 bytes of coins, then both open. 2 rounds. Were the hashes just exchanged,
   the second to speak could try both values of a bit it guessed at.

A server that sends a wrong g moves the other's s by x_{1-i} e: it is caught, or knows that bit of x, half and half. All
of s hashes to one value, so it must have guessed every such bit. y and z stay hidden. A wrong d moves s by the other's
low(Delta), 63 unknown bits.

H is TMMO (`ot.hashing`); its tweak is the number of the AND. A cheat that sends a wrong d and hangs up after the other
has opened its digest can try all 2^63 values of the other's low(Delta) at home, where no statistics protect it: so a
Delta is of these ANDs alone, and dies with them if they do not pass (`protocol.server_session`).
"""

from __future__ import annotations

import hashlib

import numpy as np

from sedml.mpc.authenticated.authenticated_bits import Bits, Words, caught, spread, times
from sedml.mpc.kernel import kernel
from sedml.mpc.ot.hashing import hash_rows, round_keys
from sedml.mpc.prg import SEED_BYTES, Seed, expand
from sedml.mpc.steps import Steps

_AT_ONCE = 1 << 14
_ALL, _NOT_LOWEST = np.uint64(2**64 - 1), np.uint64(2**64 - 2)
_LOWEST = np.uint64(1)


def leaky_ands(role: int, delta: Words, made: Bits, first: int) -> Steps[Seed]:
    """Turn random bits [n, 3] into leaky ANDs, in their place; the coins of both that assign them to buckets.

    `first` is the number of the first one, under this Delta.
    """
    c, s, g = (np.empty(len(made.bit), np.uint64) for _ in range(3))
    _offer(role, delta, made, first, c, s, g)
    theirs = (yield "leaky/g", [g]).pop()
    del g
    _take(role, made, first, c, theirs, s)
    del c, theirs
    mine = np.packbits((s & _LOWEST).astype(np.uint8), bitorder="little")
    [came] = yield "leaky/d", [mine]
    _correct(role, delta, made, np.unpackbits(mine ^ came, count=s.size, bitorder="little"), s)

    digest = np.frombuffer(hashlib.sha256(s.data).digest(), np.uint8)
    drawn = expand(Seed.random(), "coins", 2 * SEED_BYTES)  # the coins, and what hides the commitment
    [committed] = yield "leaky/commit", [_commitment(role, digest, drawn)]
    their_digest, their_drawn = yield "leaky/open", [digest, drawn]
    if not np.array_equal(_commitment(1 - role, their_digest, their_drawn), committed):
        raise caught("coins")
    if not np.array_equal(digest, their_digest):
        raise caught("leaky ANDs")
    both = (drawn, their_drawn) if role == 0 else (their_drawn, drawn)
    return Seed(hashlib.sha256(b"sedml buckets" + b"".join(part[:SEED_BYTES].tobytes() for part in both)).digest())


def _commitment(role: int, digest: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    content = b"sedml leaky ANDs" + bytes([role]) + digest.tobytes() + drawn.tobytes()
    return np.frombuffer(hashlib.sha256(content).digest(), np.uint8)


def _kept(role: int) -> tuple[np.uint64, np.uint64]:
    """What is kept of words under the own Delta, and under the other's."""
    return (_ALL, _NOT_LOWEST) if role == 0 else (_NOT_LOWEST, _ALL)


def _offer(role: int, delta: Words, made: Bits, first: int, c: Words, h: Words, g: Words) -> None:
    """Step 1: c, h = low H(key), g."""
    own, peer = _kept(role)
    fast = kernel()
    if fast is not None:
        fast.leaky_offer(round_keys(fast), first, delta, int(own), int(peer), made.bit, made.own, made.peer, c, h, g)
        return
    for start in range(0, c.size, _AT_ONCE):
        here = slice(start, start + _AT_ONCE)
        c[here] = made.own[here, 1, 0] & own ^ made.peer[here, 1, 0] & peer
        key = made.own[here, 0] ^ times(made.bit[here, 0], delta)
        h[here] = hash_rows(key, first + start)[:, 0]
        g[here] = h[here] ^ hash_rows(key ^ delta, first + start)[:, 0] ^ c[here]


def _take(role: int, made: Bits, first: int, c: Words, theirs: Words, s: Words) -> None:
    """The end of step 1: s, of which h is there."""
    own, peer = _kept(role)
    fast = kernel()
    if fast is not None:
        fast.leaky_take(round_keys(fast), first, int(own), int(peer), made.bit, made.own, made.peer, c, theirs, s)
        return
    for start in range(0, c.size, _AT_ONCE):
        here = slice(start, start + _AT_ONCE)
        s[here] ^= spread(made.bit[here, 0]) & (c[here] ^ theirs[here])
        s[here] ^= hash_rows(np.ascontiguousarray(made.peer[here, 0]), first + start)[:, 0]
        s[here] ^= made.own[here, 2, 0] & own ^ made.peer[here, 2, 0] & peer


def _correct(role: int, delta: Words, made: Bits, d: np.ndarray, s: Words) -> None:
    """Step 2: add d to z and to s."""
    own, _ = _kept(role)
    fast = kernel()
    if fast is not None:
        fast.leaky_correct(d, delta, int(own), made.own, s)
    else:
        made.own[:, 2] ^= times(d, delta)
        s ^= spread(d) & (delta[0] & own)
    if role == 0:
        made.bit[:, 2] ^= d
