"""Both servers at once: the same question to each, and what comes of it when one of them does not answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import anyio

from sedml.errors import LogError, NotCosignedError, SedmlError, UnreachableError
from sedml.service.client.connection import Connection, connected
from sedml.service.kits import ClientKit

T = TypeVar("T")


@dataclass(frozen=True)
class Pair:
    """Connections to S0 and to S1."""

    s0: Connection
    s1: Connection


@asynccontextmanager
async def paired(kit: ClientKit, patience: float) -> AsyncIterator[Pair]:
    """Connections to both servers of a kit; made when they are needed."""
    async with connected(kit, "s0", patience) as s0, connected(kit, "s1", patience) as s1:
        yield Pair(s0, s1)


async def asked(pair: Pair, call: Callable[[Connection], Awaitable[T]]) -> tuple[T | SedmlError, T | SedmlError]:
    """What each server answers, or why it does not, asked at the same time."""
    answers: dict[str, T | SedmlError] = {}
    faults: list[Exception] = []

    async def one(connection: Connection) -> None:
        try:
            answers[connection.name] = await call(connection)
        except SedmlError as error:
            answers[connection.name] = error
        except Exception as error:  # raised again below: a task group would wrap it
            faults.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(one, pair.s0)
        group.start_soon(one, pair.s1)
    if faults:
        raise faults[0]
    return answers[pair.s0.name], answers[pair.s1.name]


async def from_both(pair: Pair, call: Callable[[Connection], Awaitable[T]]) -> tuple[T, T]:
    """What both servers answer; raises if one does not, after the other has."""
    first, second = await asked(pair, call)
    # A log that is not what it was says more than a refusal, and that more than a silence.
    errors = sorted((e for e in (first, second) if isinstance(e, SedmlError)), key=_weight)
    if errors:
        raise errors[0]
    return first, second  # type: ignore[return-value]


def _weight(error: SedmlError) -> int:
    if isinstance(error, LogError) and not isinstance(error, NotCosignedError):
        return 0
    return 2 if isinstance(error, UnreachableError) else 1
