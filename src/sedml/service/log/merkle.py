"""Merkle trees as RFC 6962 has them: the root of a list of leaves, and proofs that need not show the list.

An inclusion proof shows that a leaf is in the tree of a root, a consistency proof that one tree is the beginning of
another. A tree keeps the hash of every complete subtree, 64 bytes a leaf, so that a proof takes as many look-ups as it
has hashes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from sedml.errors import LogError

EMPTY = hashlib.sha256(b"").digest()
"""The root of no leaves."""

MOST_HASHES = 64
"""A proof has no more, in a tree of fewer than 2^63 leaves."""

_SIZE = 32


def leaf_hash(leaf: bytes) -> bytes:
    """What stands for a leaf in the tree."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def _above(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Tree:
    """The hashes of leaves, of which there come only more. Whoever adds some keeps others from doing so."""

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self._levels = [bytearray()]
        for leaf in leaves:
            self.add(leaf)

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return len(self._levels[0]) // _SIZE

    def add(self, leaf: bytes) -> None:
        """The hash of one more leaf."""
        for height, level in enumerate(self._levels):
            level += leaf
            if len(level) // _SIZE % 2:
                return
            leaf = _above(bytes(level[-2 * _SIZE : -_SIZE]), leaf)
            if height + 1 == len(self._levels):
                self._levels.append(bytearray())

    def leaf(self, index: int) -> bytes:
        """The hash of a leaf."""
        return self._hash(index, index + 1)

    def root(self, size: int) -> bytes:
        """Of the first so many leaves."""
        if size > self.size:
            raise LogError(f"The tree has {self.size:,} entries, and not {size:,}.", "Ask for what it has.")
        return EMPTY if size == 0 else self._hash(0, size)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """That a leaf is among the first so many."""
        start, end, path = 0, size, []
        while end - start > 1:
            middle = start + _split(end - start)
            if index < middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(start, middle))
                start = middle
        return path[::-1]

    def consistency(self, old: int, new: int) -> list[bytes]:
        """That the first `old` leaves are the beginning of the first `new`."""
        if old in (0, new):
            return []
        start, end, path, whole = 0, new, [], True
        while end != old:
            middle = start + _split(end - start)
            if old <= middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(start, middle))
                start, whole = middle, False
        return [*([] if whole else [self._hash(start, end)]), *path[::-1]]

    def _hash(self, start: int, end: int) -> bytes:
        """Of the leaves from `start` on, which is a multiple of the power of two that the larger half has."""
        count = end - start
        if count & (count - 1) == 0:
            level, place = self._levels[count.bit_length() - 1], start // count * _SIZE
            return bytes(level[place : place + _SIZE])
        middle = start + _split(count)
        return _above(self._hash(start, middle), self._hash(middle, end))


def _split(count: int) -> int:
    """The largest power of two below it."""
    return 1 << ((count - 1).bit_length() - 1)


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Raise unless the path shows that the leaf of this hash has this place in the tree of this root."""
    if not 0 <= index < size:
        raise _wrong("an entry beyond the end of the log")
    inner = (index ^ (size - 1)).bit_length()
    if len(path) != inner + (index >> inner).bit_count():
        raise _wrong("a proof of another length")
    found = leaf
    for height, beside in enumerate(path):
        right = height < inner and not index >> height & 1
        found = _above(found, beside) if right else _above(beside, found)
    if found != root:
        raise _wrong("a proof that does not lead to the root")


def check_consistency(old: tuple[int, bytes], new: tuple[int, bytes], path: Sequence[bytes]) -> None:
    """Raise unless the path shows that the tree of one size and root is the beginning of that of the other."""
    (size, root), (later, target) = old, new
    if size > later:
        raise _wrong("fewer entries than before")
    if size == 0 and root != EMPTY:
        raise _wrong("a root of no entries that is none")
    if size in (0, later):
        if path or (size == later and target != root):
            raise _wrong("another root for the same entries")
        return
    # RFC 9162, 2.1.4.2: both roots are computed from one path.
    hashes = [root, *path] if size & (size - 1) == 0 else list(path)
    node, last = size - 1, later - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    if not hashes or len(hashes) > MOST_HASHES + 1:
        raise _wrong("a proof of another length")
    before = after = hashes[0]
    for one in hashes[1:]:
        if last == 0:
            raise _wrong("a proof of another length")
        if node & 1 or node == last:
            before, after = _above(one, before), _above(one, after)
            while node & 1 == 0 and node:
                node, last = node >> 1, last >> 1
        else:
            after = _above(after, one)
        node, last = node >> 1, last >> 1
    if last or before != root or after != target:
        raise _wrong("a proof that does not lead from the one root to the other")


def _wrong(what: str) -> LogError:
    return LogError(f"The log shows {what}.", "Keep what you have, and ask both operators.")
