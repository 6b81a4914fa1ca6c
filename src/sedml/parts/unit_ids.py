"""Ids of units (patients, customers): in one spelling, and by a secret key in one part.

Which part a unit lands in depends on its id and the key, and on nothing else: no other unit can move it, and a unit
that comes later lands where it would always have been. **Ids are secret: no error and no file of ours has one.**
"""

from __future__ import annotations

import hashlib
import re
import secrets
import unicodedata
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, InputError
from sedml.files.formats import reason

__all__ = [
    "KEY_BYTES",
    "Units",
    "key_hash",
    "new_key",
    "part_of",
    "read_key",
    "refuse_missing",
    "unit_of",
]

KEY_BYTES = 32

_NO_ID = frozenset({"", "nan", "none", "null", "na", "n/a", "<na>", "nat", "#n/a"})
_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?0*\d{1,3})?")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_EXACT = 2.0**53
_ROWS_SHOWN = 5


def unit_of(value: Any) -> str | None:  # noqa: ANN401 - whatever a file has as an id
    """The one spelling of an id; None if there is none, or only a float too large to be exact.

    Case, white space, invisible characters, leading zeros and a fraction of zero do not count: 7, 7.0 and " 007 " are
    one unit, so are "P7" and "p07 ". Two units that are taken for one share a part, which harms nobody; one unit that
    is taken for two could be in two parts, which must not be.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        value = int(value)
    if value is None or (isinstance(value, float) and not abs(value) < _EXACT):
        return None
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
    plain = text.isascii() and text.isprintable()
    text = "".join(text.split()).lower() if plain else _folded(text)
    if text in _NO_ID:
        return None
    if _NUMBER.fullmatch(text):
        number = Decimal(text)
        whole = number.to_integral_value()
        return format(whole if whole == number else number.normalize(), "f") if number else "0"
    return _ZEROS.sub("", text)


def _folded(text: str) -> str:
    """Without case, white space and what cannot be seen, and with one form for each character."""
    before = None
    while text != before:  # one step may make room for another, as a space that goes does for an accent
        before = text
        seen = "".join(one for one in text if unicodedata.category(one) not in ("Cc", "Cf"))
        text = unicodedata.normalize("NFKC", "".join(seen.split()).casefold())
    return text


def part_of(unit: str, key: bytes, parts: int) -> int:
    """Which part, from 0, a unit belongs to: 128 bits of keyed BLAKE2b modulo `parts`, even to one in 2^120."""
    keyed = hashlib.blake2b(unit.encode("utf-8", "surrogatepass"), key=key, digest_size=16, person=b"sedml part")
    return int.from_bytes(keyed.digest()) % parts


class Units:
    """The units met so far and the parts they belong to; each value is looked at once, however often it comes."""

    def __init__(self, key: bytes, parts: int) -> None:
        self._key, self._parts = key, parts
        self._known: dict[Any, int] = {}
        self._spelt: dict[str, str] = {}
        self.respelt: set[str] = set()
        """Units whose id is written in more than one way."""

    def places(self, values: Iterable[Any]) -> npt.NDArray[np.int64]:
        """The part of each value's unit, -1 where there is no id."""
        return np.fromiter((self._place(value) for value in values), np.int64)

    def per_part(self) -> npt.NDArray[np.int64]:
        """How many units each part has."""
        return np.bincount([part_of(unit, self._key, self._parts) for unit in self._spelt], minlength=self._parts)

    def _place(self, value: Any) -> int:  # noqa: ANN401
        told = (type(value), value)  # Python takes 1, 1.0 and True for the same
        place = self._known.get(told)
        if place is None:
            unit = unit_of(value)
            if unit is None:  # not remembered: every NaN is a new one
                return -1
            if self._spelt.setdefault(unit, str(value)) != str(value):
                self.respelt.add(unit)
            place = self._known[told] = part_of(unit, self._key, self._parts)
        return place


def refuse_missing(places: npt.NDArray[np.int64], by: str, where: str) -> None:
    """Raise if there are records without an id, which could be anybody's."""
    rows = np.flatnonzero(places < 0)
    if rows.size:
        shown = ", ".join(str(row + 1) for row in rows[:_ROWS_SHOWN]) + (", ..." if rows.size > _ROWS_SHOWN else "")
        raise InputError(
            f"Records of {where} without an id in {by!r}: {rows.size:,} of {len(places):,} (number {shown}, from 1).",
            "Give every record its unit's id, long numbers as text, or leave those records out.",
        )


def new_key() -> bytes:
    """A key that nobody knows."""
    return secrets.token_bytes(KEY_BYTES)


def key_hash(key: bytes) -> str:
    """What a key is known by; as long as the key is secret, nothing that is hashed with it can be guessed."""
    return hashlib.sha256(b"sedml key of parts" + key).hexdigest()


def read_key(path: Path) -> bytes:
    """The key in a file; no error shows any of it."""
    try:
        key = bytes.fromhex(path.read_text("ascii"))
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({reason(error)}).", "Check the path.") from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise FileFormatError(f"{path} is not a key of parts.", "Restore it from a copy, or use another folder.")
    return key
