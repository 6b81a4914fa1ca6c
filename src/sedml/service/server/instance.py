"""One server to a data folder: whoever holds its lock, until it lets go or its process is gone, however that ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from weakref import WeakSet

from sedml.errors import StoreError

if sys.platform != "win32":
    import fcntl

__all__ = ["Hold", "hold"]


class Hold:
    """The lock of a data folder, for as long as this process wants it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let others have the folder; calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_held: WeakSet[Hold] = WeakSet()


def hold(folder: Path) -> Hold:
    """Keep other servers off the folder; raises `StoreError` if there is one already."""
    try:
        descriptor = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(
            f"The data folder {folder} cannot be written ({error.strerror}).",
            "Check `data_dir` in server.toml, and that this user may write there.",
        ) from None
    held = Hold(descriptor)
    if sys.platform == "win32":
        return held
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.release()
        raise StoreError(
            f"Another server is running on the data folder {folder}.",
            "Stop that one first, or give this one a `data_dir` of its own in server.toml.",
        ) from None
    except OSError as error:
        held.release()
        raise StoreError(
            f"The data folder {folder} cannot be locked ({error.strerror}).",
            "Put `data_dir` in server.toml on a disk of this machine.",
        ) from None
    _held.add(held)
    return held


def _forget() -> None:
    """A lock is shared with a child that was forked, which would keep it after the server is gone."""
    for held in list(_held):
        held.release()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget)
