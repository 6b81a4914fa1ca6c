"""Sign test with a dealt mask: ⟦f < 0⟧ at w = 12 in 2 rounds and 16 bits, where SCMP takes 5 and 37.

The dealer knows the mask r, so the comparison with it can be looked up instead of computed:

1. Open c = f + r mod 2^w, r uniform. 1 round, w bits each way. Now f = c - r, c is public, r is the dealer's.
2. The low w-1 bits of r are cut into digits of at most 4 bits, and the dealer deals each as an XOR-shared
   one-hot word of at most 16 bits. For the public digit d of c, ⟦r_k = d⟧ is bit d of the word and
   ⟦r_k >= d⟧ the parity of the bits from d upwards: both local.
3. The subtraction c - r borrows at a digit where d < r_k and passes a borrow on where d = r_k, so
   `carry` with radix 4 gives the borrow into the top bit: 1 round up to 17 bits, 2 up to 65.
4. ⟦e⟧ = c_{w-1} ^ ⟦r_{w-1}⟧ ^ ⟦borrow⟧.

Dealt: 2^4 bits a digit, 1 for the top bit, and the products of the carry node: 46 bits for w = 12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sedml.lab.paper.correlations import Correlation
from sedml.lab.paper.fields import Bits, Words
from sedml.lab.paper.gadgets.carry import carry_out, plan_carry
from sedml.lab.semi_honest.party import Party, Pieces
from sedml.mpc.bits import Plane, plane_bytes, to_planes
from sedml.mpc.ring import Array
from sedml.mpc.sharing import Additive, Field

__all__ = ["SignTest", "plan_sign", "sign", "sign_of_masked"]

DIGIT = 4
RADIX = 4


def digit_sizes(width: int) -> list[int]:
    """How many bits each digit of the low width-1 bits has, lowest first."""
    low = width - 1
    return [min(DIGIT, low - start) for start in range(0, low, DIGIT)]


@dataclass(frozen=True)
class SignTest(Correlation):
    """The mask r in Z_{2^width}, its digits as one-hot words, and its top bit."""

    rows: int
    samples: int
    width: int

    @property
    def shape(self) -> tuple[int, int]:
        """One test a row and sample."""
        return self.rows, self.samples

    @property
    def masks(self) -> Mapping[str, Field]:
        """[r]."""
        return {"r": Additive(self.shape, self.width)}

    @property
    def derived(self) -> Mapping[str, Field]:
        """One-hot words of the digits of r, and its top bit."""
        words = {f"digit{k}": Words(self.shape, 1 << size) for k, size in enumerate(digit_sizes(self.width))}
        return {**words, "top": Bits(self.shape)}

    def derive(self, masks0: Pieces, masks1: Pieces) -> Pieces:
        """The digits of r in the clear."""
        r = self.masks["r"].combine(masks0["r"], masks1["r"])
        values: Pieces = {"top": to_planes((r >> r.dtype.type(self.width - 1)).astype(np.uint8))}
        for k, size in enumerate(digit_sizes(self.width)):
            values[f"digit{k}"] = np.uint16(1) << _digit(r, k, size).astype(np.uint16)
        return values


def plan_sign(name: str, rows: int, samples: int, width: int) -> dict[str, Correlation]:
    """What `sign` needs."""
    return {f"{name}/mask": SignTest(rows, samples, width), **plan_borrow(name, rows, samples, width)}


def plan_borrow(name: str, rows: int, samples: int, width: int) -> dict[str, Correlation]:
    """What `sign_of_masked` needs besides the mask."""
    return plan_carry(f"{name}/borrow", len(digit_sizes(width)), (rows, samples), RADIX)


def sign(party: Party, name: str, f: Array, width: int) -> Plane:
    """f: uint[rows, Q] in Z_{2^width} -> ⟦f < 0⟧: uint8[rows, B]."""
    pieces = party.take(f"{name}/mask")
    [c] = open_masked(party, f"{name}/mask", [(f, pieces["r"], width)])
    return sign_of_masked(party, name, c, pieces, width)


def open_masked(party: Party, step: str, parts: Sequence[tuple[Array, Array, int]]) -> list[Array]:
    """Open value + mask in Z_{2^width} for each (value, mask, width), all in one round."""
    shared: list[tuple[Field, Array]] = []
    for value, mask, width in parts:
        layout = Additive(value.shape, width)
        shared.append((layout, layout.combine(value, mask[..., : value.shape[-1]])))
    return party.open_(step, shared)


def sign_of_masked(party: Party, name: str, c: Array, pieces: Pieces, width: int) -> Plane:
    """Steps 2 to 4: the sign of c - r for an opened c."""
    samples = c.shape[-1]
    borrows, passes = [], []
    for k, size in enumerate(digit_sizes(width)):
        word = pieces[f"digit{k}"][..., :samples]
        word = word >> _digit(c, k, size).astype(word.dtype)
        equal = to_planes(word.astype(np.uint8) & np.uint8(1))
        at_least = to_planes(np.bitwise_count(word) & np.uint8(1))
        borrows.append(at_least ^ equal)
        passes.append(equal)
    borrow = carry_out(party, f"{name}/borrow", borrows, passes, samples, RADIX)
    top = pieces["top"][..., : plane_bytes(samples)] ^ borrow
    return top ^ to_planes((c >> c.dtype.type(width - 1)).astype(np.uint8)) if party.role == 0 else top


def _digit(values: Array, k: int, size: int) -> Array:
    digit: Array = (values >> values.dtype.type(DIGIT * k)) & values.dtype.type((1 << size) - 1)
    return digit
