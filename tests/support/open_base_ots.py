"""Base transfers without public-key cryptography, which takes most of the time of a small meeting. They hide nothing.

Each server draws its keys and choices anew, as it does outside of tests, and so has another Delta at every connection.
Not for tests of the set-up itself.
"""

from __future__ import annotations

import numpy as np

from sedml.mpc.ot.base_ot import COUNT
from sedml.mpc.ot.trees import DEPTH, KEY_BYTES, BaseOts
from sedml.mpc.prg import Seed, expand
from sedml.mpc.steps import Steps

__all__ = ["open_base_ots"]


def open_base_ots(_role: int, coins: Seed | None = None) -> Steps[BaseOts]:
    """To put in the place of `fresh_deltas.base_ots`: the keys go over the link as they are."""
    coins = coins or Seed.random()
    keys = expand(coins, "keys", COUNT * 2 * KEY_BYTES).reshape(COUNT, 2, KEY_BYTES)
    choices = expand(coins, "choices", COUNT) & np.uint8(1)
    choices[DEPTH - 1] = 0  # as the real ones have it
    [theirs] = yield "ot/base", [keys]
    return BaseOts(keys, choices, theirs[np.arange(COUNT), choices])
