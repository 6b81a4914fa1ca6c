"""An answer as one record of TLS: its head waits for what follows it at once.

uvicorn writes head and body one after the other, and each write would be a record, a call of the operating system and
a wake-up of the client of its own.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["OneRecord"]

_MOST = 8 << 10  # bytes that wait


class OneRecord:
    """A transport that holds back a small write until the next one, or until the event loop gets round to it."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""

    def write(self, data: bytes) -> None:
        """Send it, now or very soon."""
        if self._held:
            data = self._held + data
            self._held = b""
        elif 0 < len(data) <= _MOST:
            self._held = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send what is held, then close."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else a transport has
        return getattr(self._transport, name)
