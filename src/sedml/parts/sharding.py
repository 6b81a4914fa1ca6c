"""`sedml.shard`: an organisation's records, split by unit into parts that have no unit in common."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import InputError, warn
from sedml.files.digest import size_and_sha256
from sedml.parts.part_files import open_records
from sedml.parts.part_manifest import (
    KEY,
    PartFile,
    Parts,
    new_set,
    part_name,
    read_manifest,
    write_manifest,
    write_private,
)
from sedml.parts.unit_ids import Units, key_hash, new_key, read_key, refuse_missing, unit_called
from sedml.privacy.unit import MAX_VOTES

_ENOUGH = 30
"""Units a part: with as many, hardly ever one of 31 parts has less than half of the mean."""


def shard(
    data: object,
    *,
    by: str,
    parts: int,
    out: str | os.PathLike[str],
    unit: str | None = None,
    files: str | os.PathLike[str] | None = None,
    file_column: str = "file",
    key: str | os.PathLike[str] | None = None,
    progress: Progress = silent,
) -> Parts:
    """Split records by unit into parts, so that all records of a unit (a patient, a customer) are in one part.

    `data` is a CSV, TSV, Parquet or npz file, a pandas frame, or a dict of arrays; `by` names the column or array that
    has the unit's id. Jobs that protect each `unit` take votes of these parts: by default it is what `by` is called,
    less "_id". The part is a keyed hash of the id and of nothing else. The key is made on first use and kept in
    `out`: run it again on a longer file, and whoever was there stays, whoever is new is in the part that was always
    theirs. Ids that differ in nothing but case, signs, spaces and leading zeros are one unit.

    With `files`, records are a list of files of that folder, named in `file_column`; parts are lists, and no file is
    copied. `key` is a key file of another folder, so that units of another table land in the same parts.

    What is written to `out` is for your eyes only; the `digest` of what is returned may be published.
    """
    out = Path(out)
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or not 1 <= parts <= MAX_VOTES:
        raise InputError(f"{parts} parts were asked for.", f"Use a whole number from 1 to {MAX_VOTES}.")
    where = str(data) if isinstance(data, str | os.PathLike) else "the data"
    called = unit_called(by, unit)
    records = open_records(data, by)
    column = None if files is None else file_column
    names = [part_name(k, records.suffix) for k in range(parts)]
    secret = _key(out, key, by, names, column)
    units = Units(secret, len(names))
    progress("reading", 0, 1)
    ids, *listed = records.columns(by, *([] if column is None else [column]))
    places = units.places(ids)
    progress("reading", 1, 1)
    if not len(places):
        raise InputError(f"{where} has no records.", "Give the file that has them.")
    refuse_missing(places, by, where)
    if files is not None:
        _check_listed(listed[0], places, Path(files), where)
    held, written = units.per_part().tolist(), np.bincount(places, minlength=len(names)).tolist()
    with new_set(out) as aside:
        if not (out / KEY).exists():
            with write_private(out / KEY) as stream:
                stream.write(secret.hex().encode() + b"\n")
        with contextlib.ExitStack() as opened:
            streams = [opened.enter_context(write_private(aside / name)) for name in names]
            records.split(places, streams, progress)
        found = zip(names, held, written, strict=True)
        made = Parts(
            by=by,
            unit=called,
            units=sum(held),
            spread=1,
            file_column=column,
            key_hash=key_hash(secret),
            files=tuple(
                PartFile(name=n, units=u, records=r, sha256=size_and_sha256(aside / n)[1]) for n, u, r in found
            ),
        )
        write_manifest(aside, made)
    _warn_of(made, len(units.respelt))
    return made


def _key(out: Path, given: str | os.PathLike[str] | None, by: str, names: list[str], file_column: str | None) -> bytes:
    """The key of the folder, or the given one, or a new one; refused if it would mix two splits in the folder.

    A unit may be in another part of another split, and would then be in two of what is there.
    """
    there = read_manifest(out, Parts)
    kept = read_key(out / KEY) if (out / KEY).exists() else None
    key = kept or new_key() if given is None else read_key(Path(given))
    if there is not None and (there.by, [part.name for part in there.files], there.file_column) != (
        by,
        names,
        file_column,
    ):
        was, kind = len(there.files), Path(there.files[0].name).suffix
        raise InputError(
            f"{out} has {was} parts by {there.by!r} ({kind}), not {len(names)} by {by!r} ({Path(names[0]).suffix}).",
            "Give a new folder, and train all models anew: a unit may be in another part there.",
        )
    if kept not in (None, key) or (there is not None and key_hash(key) != there.key_hash):
        raise InputError(
            f"The parts in {out} were made with another key.",
            f"Restore its {KEY}, or give a new folder and train all models anew.",
        )
    return key


def _check_listed(listed: Sequence[Any], places: npt.NDArray[np.int64], files: Path, where: str) -> None:
    """Raise unless every file that is listed is there, and none of them is listed for units of two parts."""
    owners: dict[str, int] = {}
    missing = shared = 0
    for name, place in zip(listed, places.tolist(), strict=True):
        path = os.path.realpath(files / str(name).strip())
        if path not in owners and not Path(path).is_file():
            missing += 1
        elif owners.setdefault(path, place) != place:
            shared += 1
    if missing:
        do = "Name files as they are called within that folder, or leave those records out."
        raise InputError(f"Files that {where} lists and that are not in {files}: {missing:,}.", do)
    if shared:
        do = "A file belongs to one unit: give its records one id, or leave it out."
        raise InputError(f"Records of {where} that list a file of another unit: {shared:,}.", do)


def _warn_of(made: Parts, respelt: int) -> None:
    held = [part.units for part in made.files]
    small = sum(2 * count * len(held) < made.units for count in held)
    if small:
        fewer = max(1, made.units // _ENOUGH)
        do = f"Use fewer parts, so that each has about {_ENOUGH} units" + (f": {fewer}." if fewer < len(held) else ".")
        empty = f", {held.count(0)} of them empty" if 0 in held else ""
        warn(f"Parts with less than half of the mean of {made.units / len(held):.3g} units: {small}{empty}.", do)
    if respelt:
        warn(
            f"Units whose id is spelt in several ways (case, spaces, zeros): {respelt:,}.",
            "Each counts as one unit and is in one part, which is safe; if they are different people, change the ids.",
        )
