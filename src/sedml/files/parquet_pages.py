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
_FIELDS = 1 << 15
_LEFT_OUT = 100  # bytes that footers of old writers do not count


def unpacked_size(stream: IO[bytes], start: int, values: int, packed: int) -> int:
    """How many bytes the pages take from this place on that hold so many values; raises nearly anything if damaged.

    In the file they have about as many as `packed`, says its footer.
    """
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
        if stream.tell() > start + packed + _LEFT_OUT:
            raise ValueError
    return size


def _structure(stream: IO[bytes]) -> dict[int, Any]:
    """Each field once: of what can be read in two ways, whoever unpacks it would read the other one."""
    fields: dict[int, Any] = {}
    number = 0
    while head := stream.read(1)[0]:
        step, kind = divmod(head, 16)
        number = number + step if step else _signed(stream)
        if number in fields or not 0 < number < _FIELDS:
            raise ValueError
        fields[number] = _value(stream, kind)
    return fields


def _value(stream: IO[bytes], kind: int) -> object:
    if kind == 5:
        return _signed(stream)
    if kind in (4, 6):  # numbers of another size, of which none matters here
        _number(stream, 64)
    elif kind == 8:  # a text, which is passed over
        stream.seek(_number(stream), os.SEEK_CUR)
    elif kind == 12:
        return _structure(stream)
    elif kind not in (1, 2):  # true and false
        raise ValueError
    return None


def _signed(stream: IO[bytes]) -> int:
    number = _number(stream)
    return number >> 1 ^ -(number & 1)


def _number(stream: IO[bytes], bits: int = 32) -> int:
    number = 0
    for place in range(0, bits, 7):
        part = stream.read(1)[0]
        number |= (part & 0x7F) << place
        if part < 0x80:
            break
    if part >= 0x80 or number >> bits:
        raise ValueError
    return number
