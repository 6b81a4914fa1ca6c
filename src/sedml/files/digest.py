"""What a file is known by: its size and its SHA-256."""

from __future__ import annotations

import hashlib
from pathlib import Path

from sedml import Progress, silent

CHUNK = 1 << 20
"""Bytes read or sent together."""


def size_and_sha256(path: Path, progress: Progress = silent) -> tuple[int, str]:
    """How many bytes a file has, and their SHA-256; raises `OSError` if it cannot be read."""
    digest, done = hashlib.sha256(), 0
    total = path.stat().st_size
    with path.open("rb") as stream:
        while part := stream.read(CHUNK):
            digest.update(part)
            done += len(part)
            progress("reading", done, total)
    return done, digest.hexdigest()
