"""Which format a file has by its name, and why it cannot be read, in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sedml.errors import FileFormatError, MissingExtraError

__all__ = ["by_suffix", "read_explained", "reason"]

T = TypeVar("T")


def by_suffix(path: Path, table: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
    """The entry of a table of formats that a file's suffix chooses."""
    known = table.get(path.suffix.lower())
    if known is None:
        raise FileFormatError(
            f"{path} is not a file of a known kind ({path.suffix or 'no suffix'}).", f"Use one of {', '.join(table)}."
        )
    return known


def read_explained(path: Path, read: Callable[[], T], again: str) -> T:
    """What `read` returns, or an error that says why the file cannot be read and quotes nothing of it."""
    try:
        return read()
    except (FileFormatError, MissingExtraError):
        raise
    except FileNotFoundError:
        problem = f"{path} does not exist.", "Check the path."
    except MemoryError:
        problem = f"{path} does not fit in memory, or is damaged.", f"{again} Use small numbers."
    except OSError as error:
        problem = f"{path} cannot be read ({reason(error)}).", "Check that it is a whole file you may read."
    except Exception:  # a damaged file makes the parsers raise nearly anything
        problem = f"{path} is damaged, truncated or not a {path.suffix} file.", again
    # Raised out here so that the parser's error, which may quote a value, is not chained to ours.
    raise FileFormatError(*problem)


def reason(error: OSError) -> str:
    """The system's own words for what went wrong."""
    return error.strerror or type(error).__name__
