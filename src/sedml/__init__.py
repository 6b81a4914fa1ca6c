"""SEDML: organisations that may not share data teach one model together.

    import sedml
    result = sedml.aggregate(predictions, classes=10, threshold=0.6, sigma1=40.0, sigma2=40.0)
    result.labels      # int64, -1 where the teachers had no consensus
    result.stats       # seconds, bytes and rounds of each phase

In a deployment, with the kit of a party:

    sedml.Teacher("kits/teacher-007").vote(job, model=model)
    sedml.Requester("kits/requester-1").run(job).labels

The modules, in the order they depend on each other: errors, ring, bits, prg, sharing (numbers and shares);
correlations, channel, party (one-use randomness, the link, one server); gadgets (one to a file); privacy (noise,
accounting, ledger); task (the terms); protocol (Algorithm 1); ballots, votes, ideal; local (both servers in one
process); spending, aggregation (a budget, and the call above); terms, messages, kits (what the parties of a deployment
agree on, send and hold); client (teachers, requesters, dealers), server (S0 and S1).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sedml.aggregation import Result, aggregate
    from sedml.client import AsyncDealer, AsyncRequester, AsyncTeacher, Dealer, Requester, Teacher
    from sedml.errors import SedmlError
    from sedml.local import Stats
    from sedml.party import PhaseCost
    from sedml.spending import CohortBudget
    from sedml.task import Task

__all__ = [
    "AsyncDealer",
    "AsyncRequester",
    "AsyncTeacher",
    "CohortBudget",
    "Dealer",
    "PhaseCost",
    "Requester",
    "Result",
    "SedmlError",
    "Stats",
    "Task",
    "Teacher",
    "__version__",
    "aggregate",
]

# Imported when first asked for, so that a machine that only trains networks needs no cryptography.
_HOMES = {
    "AsyncDealer": "sedml.client",
    "AsyncRequester": "sedml.client",
    "AsyncTeacher": "sedml.client",
    "CohortBudget": "sedml.spending",
    "Dealer": "sedml.client",
    "PhaseCost": "sedml.party",
    "Requester": "sedml.client",
    "Result": "sedml.aggregation",
    "SedmlError": "sedml.errors",
    "Stats": "sedml.local",
    "Task": "sedml.task",
    "Teacher": "sedml.client",
    "aggregate": "sedml.aggregation",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as diverse as the names
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("sedml-pate")
        return globals()[name]
    if name not in _HOMES:
        raise AttributeError(f"module 'sedml' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
