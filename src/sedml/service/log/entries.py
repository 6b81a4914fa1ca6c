"""What a leaf of a log is made of: what everybody may know, and a commitment to what only some may.

The commitment is to a line: who did what to what, when, with which outcome. Behind a random salt it tells nothing to
whoever is not shown the line with its salt; who is shown them can check that they are what the log has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from sedml.service.log.merkle import leaf_hash

SALT = 16
"""Bytes."""


def entry_text(values: Mapping[str, object] | None) -> str:
    """What everybody may know of an entry, as one text; nothing, of an entry of which that is nothing."""
    return "" if values is None else json.dumps(values, separators=(",", ":"), sort_keys=True, allow_nan=False)


def commitment(salt: bytes, at: float, actor: str, action: str, subject: str, outcome: str) -> str:
    """64 hexadecimal digits that stand for a line."""
    line = json.dumps([at, actor, action, subject, outcome], separators=(",", ":"))
    return hashlib.sha256(salt + line.encode()).hexdigest()


def entry_hash(text: str, line: str) -> bytes:
    """The leaf of an entry, from its text and the commitment to its line."""
    return leaf_hash(f"sedml-log/1\n{text}\n{line}\n".encode())
