"""Answers as one record of TLS: nothing is lost, swapped or kept back, whatever is written when."""

import asyncio

from hypothesis import example, given
from hypothesis import strategies as st

from sedml.service.server.http.one_record import OneRecord


class Written:
    """A transport that notes what it is told."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data):
        assert not self.closed
        self.writes.append(data)

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


def test_a_head_leaves_with_the_body_that_follows_it():
    async def play():
        below = Written()
        transport = OneRecord(below, asyncio.get_running_loop())
        for data in (b"head", b"body", b""):
            transport.write(data)
        return below.writes

    assert [data for data in asyncio.run(play()) if data] == [b"headbody"]


def test_what_nothing_follows_leaves_by_itself():
    async def play():
        below = Written()
        OneRecord(below, asyncio.get_running_loop()).write(b"head")
        assert below.writes == []
        await asyncio.sleep(0)
        return below.writes

    assert asyncio.run(play()) == [b"head"]


def test_a_long_piece_is_not_held_so_that_whoever_writes_hears_that_nobody_reads():
    async def play():
        below = Written()
        transport = OneRecord(below, asyncio.get_running_loop())
        transport.write(bytes(100_000))
        return below.writes

    assert asyncio.run(play()) == [bytes(100_000)]


@given(st.lists(st.one_of(st.integers(0, 20_000), st.none()), max_size=12), st.booleans())
@example([5, 5, 5], True)
def test_everything_leaves_in_order_before_the_end(steps, closes):
    async def play():
        below = Written()
        transport = OneRecord(below, asyncio.get_running_loop())
        sent = b""
        for number, size in enumerate(steps):
            if size is None:
                await asyncio.sleep(0)
                continue
            transport.write(bytes([number]) * size)
            sent += bytes([number]) * size
        if closes:
            transport.close()
            assert transport.is_closing()
        await asyncio.sleep(0)
        assert b"".join(below.writes) == sent

    asyncio.run(play())
