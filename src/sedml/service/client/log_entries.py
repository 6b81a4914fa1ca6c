"""What an entry of a log may say: a server writes what it likes, and all of it is read by everybody."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from sedml.privacy.unit import UNIT_NAME
from sedml.service.log.entries import entry_text
from sedml.service.messages import Role, ServerName
from sedml.service.states import JobState
from sedml.service.terms import Digest, JobId, Name

ODD = "odd"
"""The kind of an entry that makes no sense."""
_LONGEST = 1 << 16  # one says as much of budgets as a server.toml can, whose size is bounded too

_NEEDED = {
    "job": {"job", "cohort"},
    "roster": {"job", "teachers"},
    "charge": {"job", "cohort", "unit", "epsilon", "delta", "rho"},
    "labels": {"job"},
    "end": {"job", "state", "charged"},
    "deleted": {"job"},
    "account": {"role", "change"},
    "software": {"version", "release", "kernel"},
    "settings": {"keep_labels", "keep_inputs"},
    "alarm": set[str](),
    "restored": {"log", "was", "kept", "now"},
}
_Count = Annotated[int, Field(ge=0, lt=2**62, strict=True)]
_Amount = Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
_Unit = Annotated[str, StringConstraints(pattern=UNIT_NAME)]
_Text = Annotated[str, StringConstraints(max_length=128, pattern=r"^[\w .+:-]*$")]


class _Head(BaseModel):
    model_config = ConfigDict(defer_build=True)

    size: _Count
    root: Digest


class _Promise(BaseModel):
    model_config = ConfigDict(defer_build=True)

    epsilon: _Amount
    delta: _Amount
    unit: _Unit


class _Said(BaseModel):
    model_config = ConfigDict(extra="ignore", defer_build=True)  # lists in lists would take twenty times their text

    kind: Literal[tuple(_NEEDED)]  # type: ignore[valid-type]
    at: Annotated[int, Field(ge=0, lt=2**36, strict=True)]
    job: JobId = ""
    cohort: Name = ""
    teachers: _Count = 0
    unit: _Unit = ""
    epsilon: _Amount = 0.0
    delta: _Amount = 0.0
    rho: _Amount = 0.0
    state: JobState = JobState.CREATED
    charged: Annotated[bool, Field(strict=True)] = True
    role: Role = "teacher"
    change: _Text = ""
    version: _Text = ""
    release: _Text = ""
    kernel: _Text | None = None
    keep_labels: _Amount = 0.0
    keep_inputs: _Amount = 0.0
    budgets: dict[Name, _Promise] = {}
    min_teachers: _Count = 0
    max_teachers: _Count = 0
    min_sigma: _Amount = 0.0
    grace: _Amount = 0.0
    log: ServerName = "s0"
    was: _Head | None = None
    kept: _Head | None = None
    now: _Head | None = None


def said(entry: str) -> dict[str, Any]:
    """What an entry says, every value of it of the kind that it should be; only that it is odd, if not.

    Nor is it anything else if another parser could read something else: of two values of one name, the other one.
    """
    if len(entry) > _LONGEST:
        return {"kind": ODD}
    try:
        found = _Said.model_validate_json(entry).model_dump(mode="json", exclude_unset=True)
        if entry_text(json.loads(entry)) != entry:
            found = {}
    except (ValueError, RecursionError):
        found = {}
    there = {name for name, value in found.items() if value is not None or name == "kernel"}
    return found if found and _NEEDED[found["kind"]] <= there else {"kind": ODD}
