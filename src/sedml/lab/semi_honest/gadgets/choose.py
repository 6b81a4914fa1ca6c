"""Oblivious selection: the larger of two shared values, and its index, without learning which it is.

A *duel* of [a] and [b], which is SCMP and lines 10, 29 and 30 of Algorithm 1 in one gadget. Let f = a - b and
e = [f < 0]; the winner is a - e f, and ties go to a.

1. Open c = f + r under a mask r, and the index difference g = ia - ib under a mask u; test the sign of f, which yields
   ⟦e⟧.
2. Open eps = e ^ rho for a random bit rho.
3. With [rho] and [rho r] the servers hold [X] = c [rho] - [rho r] = [rho f], and the winner is a - X where eps = 0 and
   b + X where eps = 1: if eps = 0 then e = rho, so e f = X; if eps = 1 then e = 1 - rho, so
   a - e f = a - f + X = b + X. The index goes the same way with [rho u] and the same eps.

rho is the choice bit of one transfer each way, and the servers make [rho], [rho r] and [rho u] of it beforehand
(`bit_times`), each with a share of r and u of its own.

Rounds: those of the sign test (`millionaires`), the masked differences going along with its first, + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sedml.lab.semi_honest.bit_times import scale
from sedml.lab.semi_honest.gadgets.millionaires import negative, plan_negative
from sedml.lab.semi_honest.party import Party, Pieces
from sedml.lab.semi_honest.recipe import Recipe
from sedml.mpc.ot.extension import Transfers
from sedml.mpc.prg import Seed, expand
from sedml.mpc.ring import Array, Ring
from sedml.mpc.sharing import Additive, Field
from sedml.mpc.steps import Steps

__all__ = ["Choice", "choose", "plan_choice"]


@dataclass(frozen=True)
class Choice(Recipe):
    """rho and its products, for rows x samples duels."""

    rows: int
    samples: int
    width: int
    index_width: int
    value: bool
    """Whether the winner's value is wanted, not only its index."""
    secret_index: bool
    """Whether the indices are shared values; at the first level they are public."""

    @property
    def shape(self) -> tuple[int, int]:
        """One duel a row and sample."""
        return self.rows, self.samples

    @property
    def transfers(self) -> int:
        """One each way a duel."""
        return self.rows * self.samples

    @property
    def ring(self) -> Ring:
        """Wide enough for values and indices; a share reduces to either."""
        return Ring(max(self.width, self.index_width))

    def prepare(self, role: int, ots: Transfers, coins: Seed) -> Steps[Pieces]:
        """rho: 0/1 uint8; r, u, [rho], [rho r] and [rho u] in `ring`; all of `shape`."""
        ring = self.ring
        drawn = expand(coins, "masks", 2 * self.transfers * ring.dtype.itemsize).view(ring.dtype)
        r, u = drawn.reshape(2, -1)
        # A public 1 is S0's share for the first half of the samples and S1's for the second: both do the same work.
        ones = np.zeros(self.shape, ring.dtype)
        half = -(-self.samples // 2)
        ones[:, :half] = 1 - role
        ones[:, half:] = role
        product = scale(ots, np.stack([ones.reshape(-1), r, u]), ring)
        layout = Additive(product.tau.shape, ring.width)
        [came] = yield "make", [layout.to_wire(product.tau & ring.mask)]
        rho, rho_r, rho_u = product.finish(layout.from_wire(came))
        pieces = {"r": r, "u": u, "rho": rho, "rho_r": rho_r, "rho_u": rho_u, "bit": ots.choices}
        return {name: piece.reshape(self.shape) for name, piece in pieces.items()}


def plan_choice(name: str, spec: Choice) -> dict[str, Recipe]:
    """What `choose` needs."""
    return {f"{name}/rho": spec, **plan_negative(name, spec.rows, spec.samples, spec.width)}


def choose(
    party: Party, name: str, spec: Choice, a: Array, b: Array, ia: Array, ib: Array
) -> tuple[Array | None, Array]:
    """a, b: uint[rows, A] in Z_{2^width}; ia, ib in Z_{2^index_width} -> the winner's value and index."""
    samples = a.shape[-1]
    pieces = {key: value[:, :samples] for key, value in party.take(f"{name}/rho").items()}
    ring, index_ring = Ring(spec.width), Ring(spec.index_width)
    f = (a - b) & ring.mask
    masked: list[tuple[Field, Array]] = []
    if spec.value:
        masked.append((Additive(f.shape, spec.width), (f + ring.reduce(pieces["r"])) & ring.mask))
    if spec.secret_index:
        g = (ia - ib) & index_ring.mask
        masked.append((Additive(g.shape, spec.index_width), (g + index_ring.reduce(pieces["u"])) & index_ring.mask))
    e, came = negative(party, name, f, spec.width, [layout.to_wire(mine) for layout, mine in masked])
    opened = [
        layout.combine(mine, layout.from_wire(packed)) for (layout, mine), packed in zip(masked, came, strict=True)
    ]
    flip = np.packbits(e ^ pieces["bit"], bitorder="little")
    [theirs] = party.swap(f"{name}/flip", [flip])
    eps = np.unpackbits(flip ^ theirs, count=e.size, bitorder="little").reshape(e.shape).view(np.bool_)

    index_x = -index_ring.reduce(pieces["rho"])
    if spec.secret_index:
        index_x = opened[-1] * index_ring.reduce(pieces["rho"]) - index_ring.reduce(pieces["rho_u"])
    index: Array = np.where(eps, ib + index_x, ia - index_x) & index_ring.mask
    if not spec.value:
        return None, index
    x = opened[0] * ring.reduce(pieces["rho"]) - ring.reduce(pieces["rho_r"])
    winner: Array = np.where(eps, b + x, a - x) & ring.mask
    return winner, index
