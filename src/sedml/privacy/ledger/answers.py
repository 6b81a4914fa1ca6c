"""The labels that were given, by fingerprint of the sample, so that no sample is ever drawn twice for free."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from sedml.errors import InputError
from sedml.privacy.ledger.schema import answers, blob, chunks, damaged

_LONGEST = 64


def fingerprint(sample: npt.ArrayLike, context: bytes = b"") -> bytes:
    """32 bytes that stand for a sample: its type, shape and contents, whatever the order of its bytes in memory.

    `context` is for what gives the same bytes another meaning, such as the list of classes. Do not put sigma or
    the threshold there, or else other terms would draw a new label for the same sample.
    """
    array = np.asarray(sample)
    if array.dtype.kind not in "biufcSU":
        raise InputError(
            f"A sample of type {array.dtype} cannot have a fingerprint.", "Pass numbers or text, as an array."
        )
    array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    head = f"{array.dtype.str} {array.shape} {len(context)} ".encode()
    return hashlib.sha256(b"sedml sample " + head + context + array.tobytes()).digest()


def check_fingerprints(fingerprints: Sequence[bytes]) -> None:
    """Raise unless each is 1 to 64 bytes."""
    for key in fingerprints:
        if not isinstance(key, bytes) or not 1 <= len(key) <= _LONGEST:
            raise InputError(f"A fingerprint is not 1 to {_LONGEST} bytes.", "Pass what fingerprint() returns.")


def find(connection: sa.Connection, cohort: int, fingerprints: Sequence[bytes]) -> dict[bytes, int]:
    """What is stored for these, in any order."""
    found: dict[bytes, int] = {}
    for part in chunks(list(dict.fromkeys(fingerprints))):
        query = sa.select(answers.c.fingerprint, answers.c.label)
        query = query.where(answers.c.cohort == cohort, answers.c.fingerprint.in_(part))
        found |= {blob(key): _decode(blob(label)) for key, label in connection.execute(query)}
    return found


def store(
    connection: sa.Connection, cohort: int, job: int, fingerprints: Sequence[bytes], labels: Sequence[int]
) -> list[int]:
    """Keep the labels of fingerprints that have none: the first label given stays, and is returned.

    The caller holds the cohort's lock, so nobody else adds to it in between.
    """
    known = find(connection, cohort, fingerprints)
    new = []
    for key, label in zip(fingerprints, labels, strict=True):
        if key not in known:
            stored = _encode(label)
            known[key] = int(label)
            new.append({"cohort": cohort, "fingerprint": key, "job": job, "label": stored})
    if new:
        new.sort(key=itemgetter("fingerprint"))  # the order of the index, which is then written page by page
        connection.execute(sa.insert(answers), new)
    return [known[key] for key in fingerprints]


def _encode(label: object) -> bytes:
    """A label as stored, with an "i" in front. Never shows the label in an error."""
    if isinstance(label, int | np.integer) and not isinstance(label, bool) and -(2**63) <= label < 2**63:
        return b"i" + int(label).to_bytes(8, "big", signed=True)
    raise InputError("A label is not a 64-bit whole number.", "Pass classes, or -1 for no consensus.")


def _decode(stored: bytes) -> int:
    if stored[:1] == b"i" and len(stored) == 9:
        return int.from_bytes(stored[1:], "big", signed=True)
    raise damaged("a stored label cannot be read")
