"""What a requester keeps of the jobs it creates, in `jobs/` of its kit.

The terms of a job have a random part, so they are written down before the first server hears of them: a job whose
creation broke off is continued, never created twice.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from sedml.errors import KitError
from sedml.service.kits import ClientKit
from sedml.service.kits.folder import inner_folder, locked, read_bytes, replace_private
from sedml.service.terms import Terms

_CONTINUED_FOR = timedelta(days=1)
_IDS = TypeAdapter(list[str])


class Draft(BaseModel):
    """A job that is being created, or was."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

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
    for path in (_path(kit, job_id), _ids_path(kit, job_id)):
        path.unlink(missing_ok=True)


def keep_ids(kit: ClientKit, job_id: str, ids: Sequence[str] | None) -> None:
    """Keep what the samples of a job are called, for when it has labels."""
    if ids is not None:
        replace_private(_ids_path(kit, job_id), json.dumps(ids))


def load_ids(kit: ClientKit, job_id: str) -> list[str] | None:
    """What the samples are called; None if they are only numbered, or the job was created elsewhere."""
    path = _ids_path(kit, job_id)
    try:
        return _IDS.validate_json(read_bytes(path)) if path.exists() else None
    except ValidationError:
        raise KitError(f"{path} is damaged.", "Delete it: the samples are then numbered, in their order.") from None


def _ids_path(kit: ClientKit, job_id: str) -> Path:
    return record_folder(kit) / f"{job_id}.ids"


def _path(kit: ClientKit, job_id: str) -> Path:
    return record_folder(kit) / f"{job_id}.json"


def _records(kit: ClientKit) -> Iterator[Draft]:
    for path in sorted(record_folder(kit).glob("*.json")):
        # A damaged record is no reason not to create another job.
        with contextlib.suppress(KitError):
            yield load(kit, path.stem)


def _same(earlier: Draft, wanted: Draft) -> bool:
    terms = earlier.terms
    anew = {name: getattr(wanted.terms, name) for name in ("nonce", "deadline", "releases")}
    return (
        terms.model_copy(update=anew) == wanted.terms
        and earlier.deadline == wanted.deadline
        and wanted.started - earlier.started < _CONTINUED_FOR
        and datetime.fromtimestamp(terms.deadline, UTC) > wanted.started
    )
