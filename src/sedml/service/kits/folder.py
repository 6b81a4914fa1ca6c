"""The files of a kit: readable by their owner only, and whole or not there."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from sedml.errors import InputError, KitError, printable
from sedml.files import replace_file

if sys.platform != "win32":
    import fcntl

Value: TypeAlias = str | int | float

_SMALL = 16 << 10
_PLAIN = r"[ !#-\[\]-~]*"  # printable ASCII without the quote and the backslash


def read_bytes(path: Path) -> bytes:
    """A file of a kit."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        problem = (
            f"{path} is missing.",
            "Check the path. A kit is a folder that `sedml provision` or `sedml enrol` made.",
        )
    except IsADirectoryError:
        problem = f"{path} cannot be read: it is a folder.", "Give the file in it that is needed here."
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror}).", "Check who may read it."
    raise KitError(*problem)


def read_small(path: Path) -> bytes:
    """A file of a kit that somebody else may have made: parsers can need the square of what a long one has."""
    content = read_bytes(path)
    if len(content) > _SMALL:
        raise KitError(f"{path} has {len(content):,} bytes, more than it should.", "Ask its maker for it again.")
    return content


def read_toml(path: Path) -> dict[str, Any]:
    """A table of a kit; what is said of a damaged one names the place, never what stands there."""
    content = read_small(path)
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        place = " (not UTF-8)"
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at [a-z0-9, ]+\)$", str(error))
        place = f" {found.group()}" if found else ""
    except (RecursionError, ValueError):  # tables within tables without an end, a number of thousands of digits
        place = ""
    raise KitError(f"{path} is not TOML{place}.", "Restore it from your copy of the kit.")


def take(table: Mapping[str, Any], key: str, pattern: str, path: Path, form: str) -> str:
    """A text of the table that has this form; the error never shows it, as it may be a secret."""
    value = table.get(key)
    if value is None:
        raise KitError(f"{path} has no {key!r}.", f"Put it back: {form}.")
    if not isinstance(value, str) or re.fullmatch(pattern, value) is None:
        raise KitError(f"{key!r} in {path} is malformed.", f"It must be {form}.")
    return value


def finding(error: ValidationError) -> tuple[str, str]:
    """Where a document is wrong, and how; never what stands there, as it may be a secret in the wrong place."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return printable(".".join(map(str, first["loc"]))) or "the document", first["msg"]


def allow_only(table: Mapping[str, Any], known: set[str], path: Path) -> None:
    """Refuse keys that mean nothing: one of them may be a key that was misspelt."""
    unknown = sorted(set(table) - known)
    if unknown:
        raise KitError(f"{path} has an unknown key {unknown[0]!r}.", f"Known here: {', '.join(sorted(known))}.")


def format_toml(top: Mapping[str, Value], tables: Mapping[str, Mapping[str, Value]]) -> str:
    """A TOML document of plain values."""
    blocks = [_lines(top)] if top else []
    blocks += [f"[{name}]\n{_lines(table)}" for name, table in tables.items()]
    return "\n".join(blocks)


def _lines(table: Mapping[str, Value]) -> str:
    return "".join(f"{key} = {_literal(key, value)}\n" for key, value in table.items())


def _literal(key: str, value: Value) -> str:
    if not isinstance(value, str):
        return repr(value)
    if re.fullmatch(_PLAIN, value) is None:
        raise InputError(f"{key!r} cannot be written to a kit.", "Use letters, digits and simple punctuation.")
    return f'"{value}"'


def write_private(path: Path, content: str | bytes) -> None:
    """A new file that only its owner may read."""
    data = content.encode() if isinstance(content, str) else content
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def replace_private(path: Path, content: str | bytes) -> None:
    """Put a file in the place of another; a crash leaves the old one or the new one."""
    try:
        replace_file(path, content.encode() if isinstance(content, str) else content, private=True)
    except OSError as error:
        raise KitError(
            f"{path} cannot be written ({error.strerror}).", "Check the disk and who may write there; then try again."
        ) from None


def inner_folder(folder: Path, name: str) -> Path:
    """A folder within a kit, for its owner alone; made if it is not there."""
    place = folder / name
    try:
        place.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise KitError(
            f"{place} cannot be created ({error.strerror}).", "The kit must be writable by its owner."
        ) from None
    return place


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes from changing the kit at the same time."""
    if sys.platform == "win32":
        yield
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise KitError(f"{folder} cannot be opened ({error.strerror}).", "Give the folder of a kit.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to fill, which becomes `out` when all went well, and is gone if not."""
    target = out.resolve()
    if not target.parent.is_dir():
        raise InputError(f"The folder of {out} does not exist.", "Create it, or choose another place.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{out} exists and is not an empty folder.", "Choose another place: kits are never replaced.")
    aside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        aside.mkdir(mode=0o700)
        yield aside
        aside.rename(target)
    except OSError as error:
        raise InputError(
            f"{out} cannot be written ({error.strerror}).",
            "Choose a place where you may write, with enough space; nothing was left there.",
        ) from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def exposed(folder: Path) -> list[Path]:
    """The folder of a kit and the files in it, as far as others than their owner may read or change them."""
    if os.name != "posix":
        return []
    paths = (folder, *sorted(folder.iterdir()))
    return [path for path in paths if path.exists() and path.stat().st_mode & 0o077]
