"""Calls of the core that are made together: whatever comes while one of them is under way waits for the next.

So a store that writes to disk once a call does so once for many requests, and the fewer the requests, the less each
waits for others. Nobody hears of success before the call that did its part has returned. A call that raises must have
done nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import thread_time
from typing import Generic, TypeAlias, TypeVar

from sedml.errors import SedmlError

A = TypeVar("A")
B = TypeVar("B")

_Waiter: TypeAlias = asyncio.Future[B]
_Call: TypeAlias = tuple[A, asyncio.AbstractEventLoop, _Waiter[B]]


class Gathering(Generic[A, B]):
    """Many callers of one function, which takes a list and gives for each item a result or an error.

    `weight` says how much an item is, and no call has more than `most` together, unless a single item is more.
    `charge` is told how many seconds of a processor an item took, by its weight.
    """

    def __init__(
        self,
        call: Callable[[list[A]], Sequence[B | Exception]],
        most: int,
        weight: Callable[[A], int] = lambda _: 1,
        charge: Callable[[A, float], None] = lambda _, __: None,
    ) -> None:
        self._call, self._most, self._weight, self._charge = call, most, weight, charge
        self._waiting: deque[_Call[A, B]] = deque()
        self._lock = threading.Lock()
        self._at_work = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sedml-gathering")

    async def __call__(self, item: A) -> B:
        """What the function gives for this item; raises its error."""
        loop = asyncio.get_running_loop()
        waiter: _Waiter[B] = loop.create_future()
        with self._lock:
            self._waiting.append((item, loop, waiter))
            begin, self._at_work = not self._at_work, True
        if begin:
            self._thread.submit(self._work)
        return await waiter

    def _work(self) -> None:
        while taken := self._next():
            start = thread_time()
            answers = self._answers([item for item, _, _ in taken])
            rate = (thread_time() - start) / sum(self._weight(item) for item, _, _ in taken)
            for item, _, _ in taken:
                self._charge(item, rate * self._weight(item))
            by_loop = defaultdict(list)
            for (_, loop, waiter), answer in zip(taken, answers, strict=True):
                by_loop[loop].append((waiter, answer))
            for loop, settled in by_loop.items():
                with suppress(RuntimeError):  # it is closed, and nobody waits there any more
                    loop.call_soon_threadsafe(_settle, settled)

    def _answers(self, items: list[A]) -> Sequence[B | Exception]:
        try:
            return self._call(items)
        except SedmlError as error:  # such as a store that is full, which is so for all of them
            return [error] * len(items)
        except Exception as error:  # a fault of ours, which one of them has found: the others must not suffer for it
            return [error] if len(items) == 1 else [answer for item in items for answer in self._answers([item])]

    def _next(self) -> list[_Call[A, B]]:
        taken: list[_Call[A, B]] = []
        weight = 0
        with self._lock:
            while self._waiting:
                weight += self._weight(self._waiting[0][0])
                if taken and weight > self._most:
                    break
                taken.append(self._waiting.popleft())
            self._at_work = bool(taken)
        return taken


def _settle(settled: Iterable[tuple[_Waiter[B], B | Exception]]) -> None:
    for waiter, answer in settled:
        if waiter.done():  # its client has left
            continue
        if isinstance(answer, Exception):
            waiter.set_exception(answer)
        else:
            waiter.set_result(answer)
