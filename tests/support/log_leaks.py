"""Finding secrets in a text, however they were written there."""

from __future__ import annotations

import base64
from collections.abc import Iterator

__all__ = ["WINDOW", "Secrets"]

WINDOW = 16
"""Bytes in a row that are not there by chance."""
_LONGEST = 256


class Secrets:
    """Things that nobody may read in a log, each with a name to say which it was."""

    def __init__(self) -> None:
        self._windows: dict[bytes, str] = {}
        self._names: set[str] = set()

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def add(self, name: str, secret: bytes) -> None:
        """At least 16 bytes; of a long one its beginning is enough."""
        assert len(secret) >= WINDOW, name
        if name in self._names:
            return
        self._names.add(name)
        for written in _forms(secret[:_LONGEST]):
            # Whatever shows two windows' length of a secret shows one window of these.
            for start in range(0, len(written) - WINDOW + 1, WINDOW):
                self._windows[written[start : start + WINDOW]] = name

    def found_in(self, text: bytes) -> list[str]:
        """The names of the secrets of which a part is in the text."""
        parts = {text[start : start + WINDOW] for start in range(len(text) - WINDOW + 1)}
        return sorted({self._windows[part] for part in parts & self._windows.keys()})


def _forms(secret: bytes) -> Iterator[bytes]:
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    yield repr(secret)[2:-1].encode()
    yield ", ".join(map(str, secret)).encode()
    yield str(int.from_bytes(secret, "big")).encode()
    yield str(int.from_bytes(secret, "little")).encode()
    # Three ways to begin, depending on what stands before it.
    for skipped in range(3):
        yield base64.b64encode(secret[skipped:]).rstrip(b"=")
        yield base64.urlsafe_b64encode(secret[skipped:]).rstrip(b"=")
