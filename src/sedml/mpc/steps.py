"""A party's part of a protocol as steps that do no I/O themselves: a generator.

It yields what to send, with the name of the step, is given what came, and returns what it has in the end. Whoever runs
it decides over which channel, in which thread and beside what else. What came is a list of the part's own: it may take
arrays out of it, so that they are not kept longer than it needs them.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from sedml.mpc.channel import Channel
from sedml.mpc.ring import Array

T = TypeVar("T")

Message: TypeAlias = tuple[str, list[Array]]
"""The name of a step, and the arrays to send; what comes has the same shapes."""
Steps: TypeAlias = Generator[Message, list[Array], T]


def drive(channel: Channel, block: int, steps: Steps[T]) -> T:
    """Run a part over a channel, as messages of this block: a round for each step."""
    try:
        step, arrays = next(steps)
        while True:
            came = channel.exchange(block, step, arrays)
            # Only the part itself may hold on to what it said and heard: these can be tens of megabytes.
            arrays = []
            step, arrays = steps.send(came)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


def together(*parts: Steps[Any]) -> Steps[tuple[Any, ...]]:
    """Several parts in step: the messages of a round go as one, under the name of the first that has something to say.

    A part that is over has nothing more to say; the whole takes as many rounds as the longest.
    """
    results: list[Any] = [None] * len(parts)
    said: dict[int, Message] = {}

    def advance(number: int, came: list[Array] | None) -> None:
        said.pop(number, None)
        try:
            said[number] = next(parts[number]) if came is None else parts[number].send(came)
        except StopIteration as end:
            results[number] = end.value

    for number in range(len(parts)):
        advance(number, None)
    while said:
        under_way = sorted(said)
        came = yield said[under_way[0]][0], [array for number in under_way for array in said[number][1]]
        for number in under_way:
            advance(number, [came.pop(0) for _ in said[number][1]])
    return tuple(results)
