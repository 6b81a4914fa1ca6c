"""SEDML: organisations that may not share data teach one model together.

    import sedml
    result = sedml.aggregate(predictions, classes=10, threshold=0.6, sigma=40.0)
    result.labels      # int64, -1 where the teachers had no consensus
    result.stats       # seconds, bytes and rounds of each phase

In a deployment, with the kit of a party:

    sedml.Teacher("kits/teacher-007").vote(job, model=model)
    sedml.Requester("kits/requester-1").run(job).labels

The rooms, in the order they depend on each other: errors, files, database; mpc (two-party computation), privacy (noise,
accounting, ledger), protocol (Algorithm 1), aggregation (both servers in one call), service (a deployment: servers and
their clients), learn (teachers and students), lab (what measures and compares), cli (the commands).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from sedml.aggregation import CohortBudget, Result, Stats, aggregate
    from sedml.errors import SedmlError, SedmlWarning
    from sedml.mpc.channel import PhaseCost
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
    "fingerprint",
]

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is in all."""


def silent(what: str, done: int, total: int) -> None:
    """The progress that nobody watches."""


# Imported when first asked for, so that a machine that only trains networks needs no cryptography.
_HOMES = {
    "AsyncRequester": "sedml.service.client",
    "AsyncTeacher": "sedml.service.client",
    "CohortBudget": "sedml.aggregation",
    "JobResult": "sedml.service.client",
    "JobView": "sedml.service.client",
    "PhaseCost": "sedml.mpc.channel",
    "Requester": "sedml.service.client",
    "Result": "sedml.aggregation",
    "SedmlError": "sedml.errors",
    "SedmlWarning": "sedml.errors",
    "Stats": "sedml.aggregation",
    "Task": "sedml.protocol.task",
    "Teacher": "sedml.service.client",
    "VoteReceipt": "sedml.service.client",
    "aggregate": "sedml.aggregation",
    "fingerprint": "sedml.privacy.ledger",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as diverse as the names
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("sedml-pate")
        return globals()[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'sedml' has no attribute {name!r}")
    from sedml.errors import explain_missing

    with explain_missing():
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
