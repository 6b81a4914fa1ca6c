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

from sedml.errors import FileFormatError, InputError, TaskError
from sedml.files.formats import reason
from sedml.privacy.unit import Unit

KEY_BYTES = 32

_NO_ID = frozenset({"", "nan", "none", "null", "na", "nat"})
_FRACTION = re.compile(r"\W*(\d*)[.,](\d*?)0*\W*")
_ROUNDED = re.compile(r"\W*\d+([.,]\d*)?e[+-]\d+\W*|\W*\d+[.,]\d*e\d+\W*")
_THOUSANDS = re.compile(r"\W*[1-9]\d{0,2}[.,]000\W*")  # 7.000 may be seven, or seven thousand
_SHORTENED = re.compile(r"(\d+)e(\d{1,2})")
_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")
_EXACT = 2.0**53
_EXACT_DIGITS = 16
_ROWS_SHOWN = 5


def unit_of(value: Any) -> str | None:  # noqa: ANN401 - whatever a file has as an id
    """The one spelling of an id; None if there is none, or only one that was rounded or can be read in two ways.

    Only letters and digits count, without case, leading zeros and a fraction of zero: 7, 7.0 and " 007 " are one unit,
    so are "P-7", "p07" and '="P7"'. Two units that are taken for one share a part, which harms nobody; one unit that is
    taken for two could be in two parts, which must not be.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool):
        value = int(value)
    if value is None or (isinstance(value, float) and not abs(value) < _EXACT):
        return None
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else _text(value)
    text = text.lower() if text.isascii() else _folded(text)
    if _ROUNDED.fullmatch(text) or _THOUSANDS.fullmatch(text):
        return None
    if found := _FRACTION.fullmatch(text):
        if len(found[1].lstrip("0")) >= _EXACT_DIGITS:  # it went through a float
            return None
        text = found[1] + found[2]
    text = _ZEROS.sub("", "".join(one for one in text if one.isalnum()))
    if found := _SHORTENED.fullmatch(text):
        text = f"{found[1]}{'0' * int(found[2])}"  # which may be somebody else's id too: they share a part
    return None if text in _NO_ID else text


def _text(value: object) -> str:
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _folded(text: str) -> str:
    """One form for each character, digits of any script as 0 to 9."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(str(unicodedata.digit(one)) if unicodedata.category(one) == "Nd" else one for one in text)


def unit_called(by: str, unit: str | None) -> str:
    """What a unit is called in the terms of a job: as is said, or as the column is, patient for patient_id."""
    if unit is not None:
        return Unit(unit).name
    words = re.sub(r"[^a-z]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", by).lower()).split()
    while len(words) > 1 and words[-1] in ("id", "ids", "no", "nr", "number", "key", "code"):
        words.pop()
    try:
        return Unit(" ".join(words)).name
    except TaskError:
        raise InputError(
            f"{by!r} does not say what a unit is.", "Say it in a word, such as patient: that is what a job protects."
        ) from None


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
