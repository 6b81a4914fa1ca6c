"""What each server has on record of the cohorts' budgets, and of a teacher's own account.

The guarantee is the budget, an epsilon. What is used of it is told as a share of what may be used: at the one order
that a ledger charges at, epsilon is far from proportional to that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import RootModel

from sedml.errors import SedmlError
from sedml.service.client.connection import PATIENCE, connected
from sedml.service.kits import ClientKit
from sedml.service.messages import CohortStatus, OwnBudget, OwnLimit, ServerName

_OWN = "/v1/budget/own"


@dataclass(frozen=True)
class CohortLine:
    """A cohort's budget at one server. The shares add up to 1."""

    cohort: str
    server: ServerName
    epsilon: float
    delta: float
    unit: str
    """Whom that protects."""
    rho_limit: float
    """What may be used, as jobs are charged."""
    spent_share: float
    """What jobs that were started cost."""
    reserved_share: float
    """What jobs that were not started yet will cost."""
    left_share: float

    @property
    def used_share(self) -> float:
        """Spent or reserved."""
        return 1.0 - self.left_share


@dataclass(frozen=True)
class Budgets:
    """What the servers of a kit say, and why one of them does not."""

    lines: tuple[CohortLine, ...]
    own: Mapping[ServerName, OwnBudget] = field(default_factory=dict)
    """A teacher's own account."""
    problems: Mapping[ServerName, SedmlError] = field(default_factory=dict)


class _Cohorts(RootModel[tuple[CohortStatus, ...]]):
    pass


async def read_budgets(kit: ClientKit, patience: float = PATIENCE) -> Budgets:
    """All cohorts at every server of the kit, and a teacher's own account; raises if none of them says."""
    lines: list[CohortLine] = []
    own: dict[ServerName, OwnBudget] = {}
    problems: dict[ServerName, SedmlError] = {}
    for name in kit.servers:
        async with connected(kit, name, patience) as server:
            try:
                lines += [cohort_line(name, one) for one in (await server.get("/v1/budget", _Cohorts)).root]
                if kit.role == "teacher":
                    own[name] = await server.get(_OWN, OwnBudget)
            except SedmlError as error:
                problems[name] = error
    if len(problems) == len(kit.servers):
        raise next(iter(problems.values()))
    return Budgets(tuple(sorted(lines, key=lambda line: (line.cohort, line.server))), own, problems)


async def set_limit(kit: ClientKit, epsilon: float | None, patience: float = PATIENCE) -> None:
    """Set a teacher's own limit at every server, or take it back; if one fails, the same call again goes on.

    A job counts nobody whom one of the servers leaves out: a limit holds as soon as one of them has it.
    """
    for name in kit.servers:
        async with connected(kit, name, patience) as server:
            await server.put(_OWN, OwnBudget, OwnLimit(limit=epsilon))


def cohort_line(server: ServerName, status: CohortStatus) -> CohortLine:
    """A server's figures as shares."""
    spent, reserved = status.rho_spent / status.rho_limit, status.rho_reserved / status.rho_limit
    left = max(0.0, 1.0 - spent - reserved)
    promise = status.epsilon, status.delta, status.unit, status.rho_limit
    return CohortLine(status.cohort, server, *promise, spent, reserved, left)
