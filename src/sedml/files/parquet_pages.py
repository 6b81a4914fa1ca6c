"""What the pages of a Parquet file say of themselves: its footer may say less, and it is the pages that are unpacked.

Each has a header in Thrift's compact protocol, of which only numbers and structures are looked at here.
"""

from __future__ import annotations

import os
from typing import IO, Any

_ITSELF, _PACKED = 2, 3
"""Fields of a header: how many bytes the page has, and how many in the file."""
_OF_VALUES = {0: 5, 3: 8}
"""By the kind of a page that has values, the field that says how many."""
_LONGEST = 10  # bytes of a number


def unpacked_size(stream: IO[bytes], start: int, values: int) -> int:
    """How many bytes the pages have from this place on that hold so many values; raises nearly anything if damaged."""
    stream.seek(start)
    size = 0
    while values > 0:
        header = _structure(stream)
        if min(header[_ITSELF], header[_PACKED]) < 0:
            raise ValueError
        size += header[_ITSELF]
        stream.seek(header[_PACKED], os.SEEK_CUR)
        if field := _OF_VALUES.get(header[1]):
            values -= header[field][1]
    return size


def _structure(stream: IO[bytes]) -> dict[int, Any]:
    fields: dict[int, Any] = {}
    number = 0
    while head := stream.read(1)[0]:
        step, kind = divmod(head, 16)
        number = number + step if step else _signed(stream)
        fields[number] = _value(stream, kind)
    return fields


def _value(stream: IO[bytes], kind: int) -> object:
    if kind in (4, 5, 6):
        return _signed(stream)
    if kind == 8:  # a text, which is passed over
        stream.seek(_number(stream), os.SEEK_CUR)
    elif kind == 12:
        return _structure(stream)
    elif kind not in (1, 2):  # true and false
        raise ValueError
    return None


def _signed(stream: IO[bytes]) -> int:
    number = _number(stream)
    return number >> 1 ^ -(number & 1)


def _number(stream: IO[bytes]) -> int:
    number = 0
    for place in range(_LONGEST):
        part = stream.read(1)[0]
        number |= (part & 0x7F) << 7 * place
        if part < 0x80:
            return number
    raise ValueError
