"""`sedml.check_parts`: whether any unit is in more parts than it may be, whoever made the parts.

Found are units in several parts, records without an id, files that changed or are gone, units that the key puts
elsewhere. Said are counts and numbers of parts, never an id.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from sedml import Progress, silent
from sedml.errors import FileFormatError, InputError, PartsError
from sedml.files.digest import size_and_sha256
from sedml.parts.part_files import SUFFIXES, open_records
from sedml.parts.part_manifest import KEY, PartFile, Parts, read_manifest
from sedml.parts.unit_ids import key_hash, new_key, part_of, read_key, unit_called, unit_of
from sedml.privacy.unit import MAX_VOTES

_PAIRS_SHOWN = 5


@dataclass(frozen=True)
class Examined:
    """What is in a folder of parts."""

    parts: Parts
    """As they were found; the digest is that of the manifest if nothing changed."""
    overlaps: dict[int, int]
    """How many units are in 2, 3, ... parts."""
    pairs: dict[tuple[int, int], int]
    """How many units two parts have in common; parts count from 1."""
    problems: tuple[str, ...]


def check_parts(
    folder: str | os.PathLike[str],
    *,
    by: str | None = None,
    unit: str | None = None,
    spread: int = 1,
    progress: Progress = silent,
) -> Parts:
    """Raise `PartsError` unless no unit is in more than `spread` parts, and the parts are as they were made.

    Parts that `sedml.shard` did not make need `by`, the column that has the unit's id: all CSV, TSV, Parquet or npz
    files of the folder are parts; `unit` is as in `sedml.shard`. What is returned says in how many parts a unit is.
    """
    found = examine(folder, by=by, unit=unit, spread=spread, progress=progress)
    if found.problems:
        raise PartsError(" ".join(found.problems), "Split the data again with `sedml shard`.")
    return found.parts


def examine(
    folder: str | os.PathLike[str],
    *,
    by: str | None = None,
    unit: str | None = None,
    spread: int = 1,
    progress: Progress = silent,
) -> Examined:
    """All that `check_parts` looks at; raises only if there is nothing to look at."""
    folder = Path(folder)
    if not isinstance(spread, int) or not 1 <= spread <= MAX_VOTES:
        raise InputError(f"A spread of {spread} was given.", f"Use a whole number from 1 to {MAX_VOTES}.")
    made = read_manifest(folder, Parts)
    names, unknown = _names(folder, made)
    by = by or (made.by if made else None)
    if by is None:
        raise InputError(f"{folder} has no manifest.", "Say with `--by` which column has the unit's id.")
    if made and by != made.by:
        raise InputError(f"{folder} was split by {made.by!r}, not by {by!r}.", "Leave it out.")
    called = made.unit if made else unit_called(by, unit)
    key = read_key(folder / KEY) if made and (folder / KEY).exists() else None
    problems = [f"Files of {folder} that are not in its manifest: {unknown}."] if unknown else []
    if key is not None and made is not None and key_hash(key) != made.key_hash:
        problems.append(f"{KEY} is not the key that these parts were made with.")
        key = None
    # The parts that each unit, and each file that is listed, is in: a bit for each.
    units: dict[str, int] = {}
    listed: dict[str, int] = {}
    files: list[PartFile] = []
    misplaced = 0
    for k, name in enumerate(names):
        progress("checking", k, len(names))
        try:
            records = open_records(folder / name, by)
            ids, *paths = records.columns(by, *([made.file_column] if made and made.file_column else []))
            sha256 = size_and_sha256(folder / name)[1]
        except FileFormatError as error:
            problems.append(error.what)
            continue
        spelt = {value: unit_of(value) for value in set(ids)}
        here = {unit for unit in spelt.values() if unit is not None}
        if len(here) < len(set(spelt.values())):
            problems.append(f"Records of {name} without an id: {sum(spelt[value] is None for value in ids):,}.")
        for unit in here:
            units[unit] = units.get(unit, 0) | 1 << k
            if key is not None and part_of(unit, key, len(names)) != k:
                misplaced += 1
        for path in {os.path.normpath(str(path).strip()) for column in paths for path in column}:
            listed[path] = listed.get(path, 0) | 1 << k
        files.append(PartFile(name=name, units=len(here), records=len(ids), sha256=sha256))
        if made and files[-1] != made.files[k]:
            problems.append(f"{name} is not as it was made.")
    progress("checking", len(names), len(names))
    overlaps, pairs = _overlaps(units)
    problems += _told(overlaps, pairs, spread, "Units")
    problems += _told(*_overlaps(listed), 1, "Files")
    if misplaced and not overlaps:
        problems.append(f"Units in another part than their key says: {misplaced:,}.")
    if not files:
        raise PartsError(" ".join(problems), "Split the data again with `sedml shard`.")
    return Examined(
        _as_found(made, by, called, files, len(units), max(overlaps, default=1)), overlaps, pairs, tuple(problems)
    )


def _names(folder: Path, made: Parts | None) -> tuple[list[str], int]:
    """The files of the parts, and how many others there are."""
    try:
        there = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    except OSError:
        there = []
    names = [part.name for part in made.files] if made else there
    if not 1 <= len(names) <= MAX_VOTES:
        what = f"{folder} is not a folder of 1 to {MAX_VOTES} parts."
        raise InputError(what, f"Give a folder that `sedml shard` made, or one of {', '.join(SUFFIXES)} files.")
    return names, len(set(there) - set(names))


def _as_found(made: Parts | None, by: str, unit: str, files: list[PartFile], units: int, spread: int) -> Parts:
    return Parts(
        by=by,
        unit=unit,
        units=units,
        spread=spread,
        file_column=made.file_column if made else None,
        # Parts of other makers have no key: a new one keeps their digest from being guessed all the same.
        key_hash=made.key_hash if made else key_hash(new_key()),
        files=tuple(files),
    )


def _overlaps(seen: dict[str, int]) -> tuple[dict[int, int], dict[tuple[int, int], int]]:
    several = Counter(places for places in seen.values() if places & (places - 1))
    overlaps: Counter[int] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for places, count in several.items():
        numbers = [k + 1 for k in range(places.bit_length()) if places >> k & 1]
        overlaps[len(numbers)] += count
        for pair in itertools.combinations(numbers, 2):
            pairs[pair] += count
    return dict(sorted(overlaps.items())), dict(pairs.most_common())


def _told(overlaps: dict[int, int], pairs: dict[tuple[int, int], int], spread: int, what: str) -> list[str]:
    over = {number: count for number, count in overlaps.items() if number > spread}
    if not over:
        return []
    each = ", ".join(f"{count:,} in {number} parts" for number, count in over.items())
    most = "; ".join(f"{a} and {b}: {count:,}" for (a, b), count in itertools.islice(pairs.items(), _PAIRS_SHOWN))
    more = "; ..." if len(pairs) > _PAIRS_SHOWN else ""
    allowed = "one part" if spread == 1 else f"{spread} parts"
    return [f"{what} in more than {allowed}: {sum(over.values()):,} ({each}; between parts {most}{more})."]
