"""The ring Z_{2^w}: a width, the smallest NumPy type that holds it, and reduction.

Elements are unsigned; the sign tests of the protocol read them as two's complement. Reducing an additive share modulo
a smaller power of two needs no interaction, so every phase works in the narrowest ring that fits it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import RingError

Array: TypeAlias = npt.NDArray[Any]

MAX_WIDTH = 64

# By width; looked up many times a round, so worked out once.
_DTYPES: list[np.dtype[np.unsignedinteger[Any]]] = [
    np.dtype("u1" if width <= 8 else "u2" if width <= 16 else "u4" if width <= 32 else "u8")
    for width in range(MAX_WIDTH + 1)
]
_MASKS: list[np.unsignedinteger[Any]] = [dtype.type((1 << width) - 1) for width, dtype in enumerate(_DTYPES)]


@dataclass(frozen=True)
class Ring:
    """Z_{2^width}, 1 <= width <= 64."""

    width: int

    def __post_init__(self) -> None:
        if not 1 <= self.width <= MAX_WIDTH:
            raise RingError(f"A ring of {self.width} bits was asked for.", f"Use 1 to {MAX_WIDTH} bits.")

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """The smallest unsigned type of at least `width` bits."""
        return _DTYPES[self.width]

    @property
    def mask(self) -> np.unsignedinteger[Any]:
        """2^width - 1 in the ring's own type."""
        return _MASKS[self.width]

    def reduce(self, values: Array) -> Array:
        """Any integers, signed or not, modulo 2^width, in the ring's type."""
        reduced: Array = values.astype(self.dtype, copy=False) & self.mask
        return reduced
