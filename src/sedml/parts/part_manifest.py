"""What is known of a set of parts, in `manifest.json`: counts and hashes, never an id; and how a set is replaced whole.

Its digest is over all of it and the hash of the secret key, so that it may be published: whoever does not have the
manifest cannot guess a count or an id from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sedml.errors import FileFormatError, InputError
from sedml.files import flush
from sedml.files.formats import reason
from sedml.privacy.unit import MAX_VOTES, UNIT_NAME

KEY = "shard.key"
MANIFEST = "manifest.json"
_OURS = re.compile(r"part-\d{2}\.(csv|tsv|parquet|npz|joblib)|manifest\.json")

_Hash: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Count: TypeAlias = Annotated[int, Field(ge=0)]


class Sealed(BaseModel):
    """A document that is written with its own digest, so that a change by hand is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def digest(self) -> str:
        """SHA-256 of all that it says."""
        return hashlib.sha256(f"sedml {type(self).__name__}\n{self.model_dump_json()}".encode()).hexdigest()


D = TypeVar("D", bound=Sealed)


class PartFile(BaseModel):
    """One part: its file, and how many units and records it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[^/\\]+$")]
    units: _Count
    records: _Count
    sha256: _Hash


class Parts(Sealed):
    """An organisation's data in parts: how many units and records each has, and a `digest` that may be published."""

    by: str
    """The column that says which unit a record is of."""
    unit: Annotated[str, Field(pattern=UNIT_NAME)]
    """What a unit is: a patient, a customer."""
    units: _Count
    spread: Annotated[int, Field(ge=1, le=MAX_VOTES)]
    """In how many parts the same unit is, at most."""
    file_column: str | None = None
    """Where records name files, which are not copied: the column that does."""
    key_hash: _Hash
    files: Annotated[tuple[PartFile, ...], Field(min_length=1, max_length=MAX_VOTES)]

    @property
    def records(self) -> int:
        """How many there are in all."""
        return sum(part.records for part in self.files)

    def tag(self, job: str) -> str:
        """What these parts are called on a job: the same whoever votes with them, another on every job, and for nobody
        else to guess.
        """
        return hashlib.sha256(f"sedml: parts on a job\n{self.digest}\n{self.key_hash}\n{job}".encode()).hexdigest()


def part_name(number: int, suffix: str) -> str:
    """The file of a part, counting from 0; names count from 1."""
    return f"part-{number + 1:02d}{suffix}"


def read_manifest(folder: Path, kind: type[D]) -> D | None:
    """What the folder says of its files; None if it says nothing. Raises if it was changed by hand."""
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_bytes())
        digest = document.pop("digest")
        found = kind.model_validate(document)
        if secrets.compare_digest(str(digest), found.digest):
            return found
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({reason(error)}).", "Check the path.") from None
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError, ValidationError):
        pass
    raise FileFormatError(f"{path} was changed or is damaged.", "Delete it, and make the files of its folder again.")


def write_manifest(folder: Path, document: Sealed) -> None:
    """The last file of a set."""
    with write_private(folder / MANIFEST) as stream:
        content = {"digest": document.digest, **document.model_dump(mode="json")}
        stream.write(json.dumps(content, indent=2).encode() + b"\n")


@contextlib.contextmanager
def new_set(folder: Path) -> Iterator[Path]:
    """A folder to write files and their manifest to, which then take the places of all that were in `folder`.

    After a crash the old set is there, the new one, or none: a folder without its manifest.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in folder.glob(f".new-{'[0-9a-f]' * 16}"):  # after a crash
            shutil.rmtree(left)
        if any(folder.iterdir()) and not ((folder / KEY).exists() or (folder / MANIFEST).exists()):
            raise InputError(f"{folder} has other files in it.", "Give a new folder, or empty this one.")
        aside = folder / f".new-{secrets.token_hex(8)}"
        aside.mkdir(mode=0o700)
        try:
            yield aside
            _take_places(aside, folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        do = "Choose a place where you may write, with enough space."
        raise InputError(f"{folder} cannot be written ({reason(error)}).", do) from None


def write_private(path: Path) -> BinaryIO:
    """A stream to a new file that only its owner may read."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")


def _take_places(aside: Path, folder: Path) -> None:
    for path in aside.iterdir():
        flush(path)
    (folder / MANIFEST).unlink(missing_ok=True)
    flush(folder)
    for old in folder.iterdir():
        if _OURS.fullmatch(old.name) and not (aside / old.name).exists():
            old.unlink()
    for path in sorted(aside.iterdir(), key=lambda path: path.name == MANIFEST):  # the manifest last
        path.replace(folder / path.name)
    flush(folder)
