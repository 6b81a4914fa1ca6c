"""SEDML: organisations that may not share data teach one model together.

    import sedml
    result = sedml.aggregate(predictions, classes=10, threshold=0.6, sigma=40.0)
    result.labels      # int64, -1 where the teachers had no consensus
    result.stats       # seconds, bytes and rounds of each phase

In a deployment, with the kit of a party:

    sedml.Teacher("kits/teacher-007").vote(job, model=model)
    sedml.Requester("kits/requester-1").run(job).labels

An organisation that casts several votes, each of a part of its data that has no patient in common with the others:

    sedml.shard("patients.csv", by="patient_id", parts=31, out="parts")
    sedml.train_parts("parts", label="diagnosis", out="models")

The rooms, in the order they depend on each other: errors, extras, release, files, database; mpc (two-party
computation), privacy (noise, accounting, ledger), protocol (Algorithm 1), aggregation (both servers in one call), parts
(an organisation's data in parts, and a model for each), service (a deployment: servers and their clients), learn
(teachers and students), console (a page for whoever has a kit), lab (what measures and compares), cli (the commands).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sedml.aggregation import CohortBudget, Result, Stats, aggregate
    from sedml.errors import SedmlError, SedmlWarning
    from sedml.mpc.channel import PhaseCost
    from sedml.parts import Parts, check_parts, shard
    from sedml.parts.training import train_parts
    from sedml.privacy.ledger import fingerprint
    from sedml.protocol.task import Task
    from sedml.service.client import (
        AsyncRequester,
        AsyncTeacher,
        JobResult,
        JobView,
        Requester,
        Teacher,
        VoteReceipt,
    )

__all__ = [
    "AsyncRequester",
    "AsyncTeacher",
    "CohortBudget",
    "JobResult",
    "JobView",
    "Parts",
    "PhaseCost",
    "Progress",
    "Requester",
    "Result",
    "SedmlError",
    "SedmlWarning",
    "Stats",
    "Task",
    "Teacher",
    "VoteReceipt",
    "__version__",
    "aggregate",
    "check_parts",
    "fingerprint",
    "shard",
    "train_parts",
]

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""


def silent(what: str, done: int, total: int) -> None:
    """The progress that nobody watches."""


# Imported when first asked for, so that a machine that only trains networks needs no cryptography.
_OFFERED = {
    "sedml.aggregation": ("CohortBudget", "Result", "Stats", "aggregate"),
    "sedml.errors": ("SedmlError", "SedmlWarning"),
    "sedml.mpc.channel": ("PhaseCost",),
    "sedml.parts": ("Parts", "check_parts", "shard"),
    "sedml.parts.training": ("train_parts",),
    "sedml.privacy.ledger": ("fingerprint",),
    "sedml.protocol.task": ("Task",),
    "sedml.service.client": (
        "AsyncRequester",
        "AsyncTeacher",
        "JobResult",
        "JobView",
        "Requester",
        "Teacher",
        "VoteReceipt",
    ),
}
_HOMES = {name: module for module, names in _OFFERED.items() for name in names}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as diverse as the names
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("sedml-pate")
        return globals()[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'sedml' has no attribute {name!r}")
    from sedml.extras import explain_missing

    with explain_missing():
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
