"""The key that a server encrypts its store with, and how it is replaced.

The old key is put next to the new one before that takes its place. A server that starts and finds both seals its store
under the new one, then forgets the old one. Cut off anywhere, the same command or the next start goes on from there.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from sedml.errors import KitError
from sedml.files import flush
from sedml.service.kits.folder import locked, read_bytes, replace_private, take

__all__ = ["OLD_STORAGE_KEY", "STORAGE_KEY", "forget_old_storage_key", "new_storage_key", "read_storage_key"]

STORAGE_KEY = "storage.key"
OLD_STORAGE_KEY = "storage.key.old"


def read_storage_key(path: Path) -> bytes:
    """The key in a file."""
    text = read_bytes(path).decode("latin-1").strip()
    return bytes.fromhex(take({"key": text}, "key", r"[0-9a-f]{64}", path, "64 lower-case hexadecimal digits"))


def new_storage_key(folder: Path) -> None:
    """Give the kit of a server a new key, and keep the old one until the server has started with both."""
    current, old = folder / STORAGE_KEY, folder / OLD_STORAGE_KEY
    with locked(folder):
        key = read_storage_key(current)
        if old.exists() and read_storage_key(old) != key:
            raise KitError(
                f"The storage key of {folder} was replaced, and its server has not taken up the new one yet.",
                "Restart the server, when it is not in the middle of a job, before you replace the key again.",
            )
        replace_private(old, key.hex() + "\n")
        replace_private(current, secrets.token_hex(32) + "\n")


def forget_old_storage_key(folder: Path) -> None:
    """Remove the old key, once nothing is encrypted with it any more."""
    try:
        (folder / OLD_STORAGE_KEY).unlink(missing_ok=True)
        flush(folder)
    except OSError as error:
        raise KitError(
            f"{folder / OLD_STORAGE_KEY} cannot be removed ({error.strerror}).",
            "Remove it yourself: nothing is encrypted with it any more.",
        ) from None
