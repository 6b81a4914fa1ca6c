"""One server to a data folder, or the replicas of one: whoever holds its lock, until its process is gone.

However that ended. Replicas hold it together, and who comes first knows that it is alone.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from weakref import WeakSet

from sedml.errors import StoreError

_MOMENT = 0.05
_MOMENTS = 600


class Hold:
    """The lock of a data folder, for as long as this process wants it."""

    alone = True
    """Nobody else held it when this process got it."""

    def __init__(self, descriptor: int, shared: bool = False) -> None:
        self._descriptor: int | None = descriptor
        self._shared = shared

    def share(self) -> None:
        """Let other replicas in."""
        if self._shared and self._descriptor is not None:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def release(self) -> None:
        """Let others have the folder; calling it again does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


_held: WeakSet[Hold] = WeakSet()


def hold(folder: Path, *, shared: bool = False) -> Hold:
    """Keep other servers off the folder, or all but replicas of this one once it is `share`d.

    Raises `StoreError` if there is one already.
    """
    try:
        descriptor = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StoreError(
            f"The data folder {folder} cannot be written ({error.strerror}).",
            "Check `data_dir` in server.toml, and that this user may write there.",
        ) from None
    held = Hold(descriptor, shared)
    try:
        held.alone = _lock(descriptor, shared)
    except BlockingIOError:
        held.release()
        raise StoreError(
            f"Another server is running on the data folder {folder}.",
            "Stop that one first, or give this one a `data_dir` of its own in server.toml. Replicas of one server each "
            "need `replicated = true` there.",
        ) from None
    except OSError as error:
        held.release()
        raise StoreError(
            f"The data folder {folder} cannot be locked ({error.strerror}).",
            "Put `data_dir` in server.toml on a disk of this machine.",
        ) from None
    _held.add(held)
    return held


def _lock(descriptor: int, shared: bool) -> bool:
    """Lock it; whether nobody else has. A replica that is starting lets others in in a moment."""
    for wait in (*([_MOMENT] * _MOMENTS if shared else []), 0.0):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not shared:
                raise
        else:
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if not wait:
                raise
            time.sleep(wait)
        else:
            return False
    raise AssertionError


def _forget() -> None:
    """A lock is shared with a child that was forked, which would keep it after the server is gone."""
    for held in list(_held):
        held.release()


os.register_at_fork(after_in_child=_forget)
