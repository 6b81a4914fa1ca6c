"""What each server has on record of the cohorts' budgets, in epsilon, which is what people were promised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import RootModel

from sedml.errors import SedmlError
from sedml.privacy.conversion import zcdp_epsilon
from sedml.service.client.connection import PATIENCE, connected
from sedml.service.kits import ClientKit
from sedml.service.messages import CohortStatus, ServerName

__all__ = ["Budgets", "CohortLine", "cohort_epsilon", "cohort_line", "read_budgets"]

_FOR_RHO = 63 / 64  # of delta; the rest is for samplers that are not exact (`sedml.privacy.ledger`)


@dataclass(frozen=True)
class CohortLine:
    """A cohort's budget at one server. Spent, reserved and left add up to the limit."""

    cohort: str
    server: ServerName
    delta: float
    limit: float
    spent: float
    """By jobs that are done."""
    reserved: float
    """What jobs that are not over add to it, at their worst case."""
    left: float
    """What all jobs to come may add."""


@dataclass(frozen=True)
class Budgets:
    """What the servers of a kit say, and why one of them does not."""

    lines: tuple[CohortLine, ...]
    problems: Mapping[ServerName, SedmlError] = field(default_factory=dict)


class _Cohorts(RootModel[tuple[CohortStatus, ...]]):
    pass


async def read_budgets(kit: ClientKit, patience: float = PATIENCE) -> Budgets:
    """All cohorts at every server of the kit; raises if none of them says."""
    lines: list[CohortLine] = []
    problems: dict[ServerName, SedmlError] = {}
    for name in kit.servers:
        async with connected(kit, name, patience) as server:
            try:
                lines += [cohort_line(name, one) for one in (await server.get("/v1/budget", _Cohorts)).root]
            except SedmlError as error:
                problems[name] = error
    if len(problems) == len(kit.servers):
        raise next(iter(problems.values()))
    return Budgets(tuple(sorted(lines, key=lambda line: (line.cohort, line.server))), problems)


def cohort_line(server: ServerName, status: CohortStatus) -> CohortLine:
    """A server's figures as epsilon; none is above the limit."""
    spent, used = (
        min(status.epsilon, cohort_epsilon(rho, status.delta))
        for rho in (status.rho_spent, status.rho_spent + status.rho_reserved)
    )
    left = status.epsilon - used
    return CohortLine(status.cohort, server, status.delta, status.epsilon, spent, used - spent, left)


def cohort_epsilon(rho: float, delta: float) -> float:
    """What jobs of that much rho cost a cohort together, converted as its ledger does it."""
    return zcdp_epsilon(rho, delta * _FOR_RHO)
