"""Fresh shares for the requester, so that they tell nothing but the label.

In the paper's model the requester deals, and knows every mask. A label share as the tournament leaves it is a function
of those masks and of what was opened, so its *two halves* would tell the requester more than their sum, for instance
which class came second (the paper sends them as they are). So that this does not hang on who made the masks, the
servers move the halves, before they leave, by randomness that only the two of them know:

1. Once a connection, each server sends 32 random bytes (`agree`); the XOR of both is their common seed.
2. z is expanded from it; S0 hands out [i*]_0 + z and S1 [i*]_1 - z. No further message.
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.channel import Channel
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array, Ring

__all__ = ["agree", "refresh", "refresh_bits"]


def agree(channel: Channel) -> Seed:
    """A seed known to the two servers and nobody else; one round, before any block."""
    own = np.frombuffer(Seed.random().key, np.uint8)
    [theirs] = channel.exchange(0, "agree", [own])
    return Seed((own ^ theirs).tobytes())


def refresh_bits(common: Seed, label: str, share: Array, width: int) -> Array:
    """The same for XOR shares uint[...] of so many bits."""
    stream = expand(common, label, share.nbytes).view(share.dtype).reshape(share.shape)
    refreshed: Array = share ^ (stream & share.dtype.type((1 << width) - 1))
    return refreshed


def refresh(role: int, common: Seed, label: str, share: Array, ring: Ring) -> Array:
    """The same value in new shares, uint[...] in `ring`."""
    stream = expand(common, label, share.size * ring.dtype.itemsize)
    z = stream.view(ring.dtype).reshape(share.shape)
    fresh: Array = (share + z if role == 0 else share - z) & ring.mask
    return fresh
