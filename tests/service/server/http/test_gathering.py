"""Calls that are made together: who waits for whom, and what each of them hears."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import StoreError
from sedml.service.server.http.gathering import Gathering


class Held:
    """A function that waits until it is let go, and notes what it was called with."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.begun, self.go_on = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, items: list[int]) -> list[int | Exception]:
        self.calls.append(items)
        self.begun.release()
        assert self.go_on.acquire(timeout=60)
        return [ValueError(str(item)) if item < 0 else item * 10 for item in items]


async def begun(held: Held) -> None:
    await asyncio.to_thread(held.begun.acquire)


async def started(gathering: Gathering[int, int], *items: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(gathering(item)) for item in items]
    await asyncio.sleep(0)
    return tasks


def test_what_comes_while_a_call_is_under_way_waits_for_the_next_and_each_gets_its_own():
    async def play():
        held = Held()
        gathering = Gathering(held, 100)
        first = await started(gathering, 1)
        await begun(held)
        others = await started(gathering, 2, -3, 4)
        assert not any(task.done() for task in (*first, *others))
        held.go_on.release()
        assert await first[0] == 10
        await begun(held)
        await asyncio.sleep(0)
        assert not any(task.done() for task in others), "answered before its call has returned"
        held.go_on.release()
        found = await asyncio.gather(*others, return_exceptions=True)
        assert (found[0], str(found[1]), found[2]) == (20, "-3", 40)
        assert held.calls == [[1], [2, -3, 4]]

    asyncio.run(play())


def test_no_call_is_heavier_than_it_may_be_unless_one_item_is():
    async def play():
        held = Held()
        gathering = Gathering(held, 10, lambda item: item)
        first = await started(gathering, 1)
        await begun(held)
        rest = await started(gathering, 4, 6, 1, 99, 2)
        for _ in range(5):
            held.go_on.release()
        await asyncio.gather(*first, *rest)
        assert held.calls == [[1], [4, 6], [1], [99], [2]]

    asyncio.run(play())


def test_an_error_of_the_whole_call_is_everybodys_and_the_next_call_goes_on():
    answers = iter([OSError("full"), None])

    def call(items):
        if (error := next(answers)) is not None:
            raise error
        return items

    async def play():
        gathering = Gathering(call, 10)
        with pytest.raises(OSError, match="full"):
            await gathering(1)
        assert await gathering(2) == 2

    asyncio.run(play())


def test_an_item_that_breaks_the_call_breaks_it_for_itself_alone():
    """Or whoever finds such an item could keep everybody's ballot out."""
    calls = []

    def call(items):
        calls.append(items)
        if 0 in items:
            raise ZeroDivisionError
        return items

    async def play():
        gathering = Gathering(call, 10)
        found = await asyncio.gather(*map(gathering, [1, 0, 2, 3]), return_exceptions=True)
        assert [found[0], *found[2:]] == [1, 2, 3]
        assert isinstance(found[1], ZeroDivisionError)

    asyncio.run(play())
    assert all(calls.count([item]) <= 1 for item in range(4)), "each is tried alone once at most"


def test_what_is_wrong_with_the_store_is_tried_once_for_all():
    calls = []

    def call(items):
        calls.append(items)
        raise StoreError("The store is full.", "Make room.")

    async def play():
        gathering = Gathering(call, 10)
        found = await asyncio.gather(*map(gathering, range(6)), return_exceptions=True)
        assert all(isinstance(error, StoreError) for error in found)

    asyncio.run(play())
    assert sum(map(len, calls)) == 6


def test_who_leaves_holds_up_nobody():
    async def play():
        held = Held()
        gathering = Gathering(held, 10)
        tasks = await started(gathering, 1)
        await begun(held)
        tasks += await started(gathering, 2, 3)
        for task in tasks[:2]:
            task.cancel()
        held.go_on.release(2)
        assert await tasks[2] == 30
        assert all(isinstance(found, asyncio.CancelledError) for found in await _ends(tasks[:2]))

    asyncio.run(play())


async def _ends(tasks):
    return await asyncio.gather(*tasks, return_exceptions=True)


@given(st.lists(st.integers(0, 1000), max_size=50), st.integers(1, 9))
def test_each_gets_what_is_its_own_however_many_there_are(items, most):
    async def play():
        gathering = Gathering(lambda taken: [item + 1 for item in taken], most)
        assert await asyncio.gather(*map(gathering, items)) == [item + 1 for item in items]

    asyncio.run(play())


def test_callers_of_several_loops_share_it():
    gathering = Gathering(lambda taken: taken, 10)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda number=number: found.append(asyncio.run(_ask(gathering, number))))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(8))


async def _ask(gathering, number):
    return await gathering(number)


def test_each_pays_by_its_weight(monkeypatch):
    times = iter((10.0, 16.0))
    monkeypatch.setattr("sedml.service.server.http.gathering.thread_time", lambda: next(times))
    paid = []
    gathering = Gathering(lambda items: items, 10, len, lambda item, seconds: paid.append((item, seconds)))

    async def all_of_them():
        return await asyncio.gather(gathering("a"), gathering("bb"))

    with gathering._lock:
        gathering._at_work = True

    async def together():
        waiting = asyncio.ensure_future(all_of_them())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gathering._thread.submit(gathering._work)
        return await waiting

    assert asyncio.run(together()) == ["a", "bb"]
    assert paid == [("a", 2.0), ("bb", 4.0)]
