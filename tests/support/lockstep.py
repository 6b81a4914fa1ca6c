"""Two parts of a protocol in step, in one thread: what each said, what each came to, and one of them may lie.

A liar is the honest part with what it sends changed, at steps of the test's choice; it hears what the other says in a
round before it speaks itself. Its own checks always pass, so it goes on as long as the other does. What else it does
differently is patched while it is its turn.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from sedml.mpc.prg import Seed, expand
from sedml.mpc.steps import Message, Steps
from support.harness import fixed_seed

__all__ = ["Lie", "Lies", "Patch", "Played", "both", "coins", "first_coins", "lying", "play"]

Lie = Callable[[list[np.ndarray], list[np.ndarray]], None]
"""Changes, in place, what the liar is about to send; it is given what the other says as well."""
Lies = Mapping[str, Lie]
"""By the name of the step."""
Patch = tuple[Any, str, Any]
"""A module or an object, a name in it, and what stands there while it is somebody's turn."""


@dataclass
class Played:
    """What both came to."""

    results: list[Any] = field(default_factory=lambda: [None, None])
    """What each part returned, or the error that it raised."""
    said: tuple[list[Message], list[Message]] = field(default_factory=lambda: ([], []))
    """What each part sent, copied, in order."""

    @property
    def steps(self) -> list[str]:
        return [step for step, _ in self.said[0]]

    @property
    def sizes(self) -> list[int]:
        """Bytes each way, step by step."""
        return [sum(array.nbytes for array in arrays) for _, arrays in self.said[0]]

    def sent(self, role: int, step: str) -> list[np.ndarray]:
        """What a server said at a step."""
        [arrays] = [arrays for name, arrays in self.said[role] if name == step]
        return arrays


def coins(key: int) -> Callable[[int], bytes]:
    """Stands for the operating system: the same bytes, in the same order, for the same key."""
    drawn = 0

    def draw(size: int) -> bytes:
        nonlocal drawn
        drawn += size
        return expand(fixed_seed(key), "coins", size, offset=drawn - size).tobytes()

    return draw


def first_coins(key: int) -> Seed:
    """The seed that a server with these coins draws first."""
    return Seed(coins(key)(32))


def lying(liar: int, lies: Lies) -> dict[str, Any]:
    """Options of `play` for one that lies."""
    return {"liar": liar, "lies": lies}


def play(
    *parts: Steps[Any],
    keys: Sequence[int] | None = None,
    liar: int | None = None,
    lies: Lies | None = None,
    patches: Mapping[int, Sequence[Patch]] | None = None,
) -> Played:
    """Run S0's and S1's part until one of them is over. With `keys` nothing is random."""
    patches = dict(patches or {})
    draws = [coins(key) for key in keys] if keys is not None else None
    played, turns = Played(), [_Turn(part) for part in parts]

    @contextmanager
    def at(role: int) -> Iterator[None]:
        with ExitStack() as stack:
            if draws is not None:
                stack.enter_context(mock.patch.object(secrets, "token_bytes", draws[role]))
            if role == liar:
                stack.enter_context(mock.patch.object(np, "array_equal", lambda *_: True))
            for where, name, value in patches.get(role, ()):
                stack.enter_context(mock.patch.object(where, name, value))
            yield

    came: list[list[np.ndarray] | None] = [None, None]
    while True:
        for role, turn in enumerate(turns):
            with at(role):
                turn.go_on(came[role])
        if any(turn.over for turn in turns):
            break
        assert turns[0].step == turns[1].step
        if liar is not None and lies and (lie := lies.get(turns[liar].step)):
            with at(liar):
                lie(turns[liar].arrays, [array.copy() for array in turns[1 - liar].arrays])
        for role, turn in enumerate(turns):
            played.said[role].append((turn.step, [array.copy() for array in turn.arrays]))
        came = [[array.copy() for array in turn.arrays] for turn in turns[::-1]]
    for turn in turns:
        turn.part.close()
    played.results = [turn.result for turn in turns]
    return played


class _Turn:
    """A part, and where it is."""

    def __init__(self, part: Steps[Any]) -> None:
        self.part, self.over, self.result = part, False, None
        self.step, self.arrays = "", []

    def go_on(self, came: list[np.ndarray] | None) -> None:
        try:
            self.step, arrays = next(self.part) if came is None else self.part.send(came)
            self.arrays = [np.array(array) for array in arrays]
        except StopIteration as end:
            self.over, self.result = True, end.value
        except Exception as error:  # noqa: BLE001 - a test says which one it expects
            self.over, self.result = True, error


def both(*parts: Steps[Any], **options: Any) -> list[Any]:
    """What both came to; raises the first error."""
    results = play(*parts, **options).results
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
