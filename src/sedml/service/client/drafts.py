"""What a requester keeps of the jobs it creates, in `jobs/` of its kit.

The terms of a job have a random part, so they are written down before the first server hears of them: a job whose
creation broke off is continued, never created twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from sedml.errors import KitError
from sedml.service.kits import ClientKit
from sedml.service.kits.folder import inner_folder, locked, read_bytes, replace_private
from sedml.service.terms import Terms

__all__ = ["Draft", "begin", "forget", "load", "record_folder", "save"]

_CONTINUED_FOR = timedelta(days=1)


class Draft(BaseModel):
    """A job that is being created, or was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    terms: Terms
    data: str
    """The file of samples."""
    own_data: bool = False
    """The file was made here from an array, and goes when both servers have it."""
    deadline: str
    """The deadline as it was asked for: "7d" is another moment every time it is said."""
    started: datetime
    complete: bool = False
    """Both servers have the terms and the data."""


def record_folder(kit: ClientKit) -> Path:
    """Where records are; made if it is not there."""
    return inner_folder(kit.folder, "jobs")


def begin(kit: ClientKit, wanted: Draft) -> Draft:
    """The record to go on with, on disk: one of the same request that broke off within a day, or this one."""
    with locked(record_folder(kit)):
        for earlier in _records(kit):
            if not earlier.complete and _same(earlier, wanted):
                # The same samples, but perhaps another file by now.
                return earlier.model_copy(update={"data": wanted.data, "own_data": wanted.own_data})
        save(kit, wanted)
        return wanted


def save(kit: ClientKit, record: Draft) -> None:
    """Put a record on disk."""
    replace_private(_path(kit, record.terms.id), record.model_dump_json(indent=1))


def load(kit: ClientKit, job_id: str) -> Draft:
    """The record of a job."""
    path = _path(kit, job_id)
    if not path.exists():
        raise KitError(
            f"The kit {kit.folder} has no record of job {job_id}.",
            "Only jobs that were begun with this kit can be continued.",
        )
    try:
        return Draft.model_validate_json(read_bytes(path))
    except ValidationError:
        raise KitError(f"{path} is damaged.", "Delete it and create another job.") from None


def forget(kit: ClientKit, job_id: str) -> None:
    """Delete a record, and a file of samples that was made for it."""
    with contextlib.suppress(KitError):
        record = load(kit, job_id)
        if record.own_data:
            Path(record.data).unlink(missing_ok=True)
    _path(kit, job_id).unlink(missing_ok=True)


def _path(kit: ClientKit, job_id: str) -> Path:
    return record_folder(kit) / f"{job_id}.json"


def _records(kit: ClientKit) -> Iterator[Draft]:
    for path in sorted(record_folder(kit).glob("*.json")):
        # A damaged record is no reason not to create another job.
        with contextlib.suppress(KitError):
            yield load(kit, path.stem)


def _same(earlier: Draft, wanted: Draft) -> bool:
    terms = earlier.terms
    anew = {"nonce": wanted.terms.nonce, "deadline": wanted.terms.deadline}
    return (
        terms.model_copy(update=anew) == wanted.terms
        and earlier.deadline == wanted.deadline
        and wanted.started - earlier.started < _CONTINUED_FOR
        and datetime.fromtimestamp(terms.deadline, UTC) > wanted.started
    )
