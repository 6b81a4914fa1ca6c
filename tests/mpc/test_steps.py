"""Parts of a protocol as generators: driven over a channel, and several of them in step."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sedml.errors import PeerGoneError
from sedml.mpc.channel import memory_pair
from sedml.mpc.steps import Steps, drive, together
from support.lockstep import both


def counting(name: str, start: int, rounds: int, width: int = 1) -> Steps[list[int]]:
    """Says as many numbers as it is asked for, and keeps what came."""
    kept = []
    for turn in range(rounds):
        came = yield f"{name}/{turn}", [np.full(i + 1, start + turn) for i in range(width)]
        assert [len(array) for array in came] == [i + 1 for i in range(width)]
        kept.append(int(came[0][0]))
    return kept


def driven(*parts: Steps, block: int = 0) -> list:
    links = memory_pair(bytes(16), timeout=20)
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(lambda pair: drive(pair[0], block, pair[1]), zip(links, parts, strict=True))), links


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_a_part_is_driven_round_by_round(rounds):
    (one, other), links = driven(counting("a", 0, rounds), counting("a", 100, rounds), block=3)
    assert one == [100 + turn for turn in range(rounds)]
    assert other == list(range(rounds))
    assert links[0].traffic.rounds == rounds


def test_what_a_part_raises_comes_out_and_the_part_is_closed():
    closed = []

    def failing() -> Steps[None]:
        try:
            yield "first", [np.zeros(1)]
            raise RuntimeError("no further")
        finally:
            closed.append(True)

    with pytest.raises(RuntimeError, match="no further"):
        driven(failing(), failing())
    assert closed == [True, True]


def test_a_part_is_closed_when_the_link_breaks():
    closed = []

    def waiting() -> Steps[None]:
        try:
            yield "step", [np.zeros(1)]
        finally:
            closed.append(True)

    one, other = memory_pair(bytes(16), timeout=20)
    other.close()
    with pytest.raises(PeerGoneError):
        drive(one, 0, waiting())
    assert closed == [True]


@pytest.mark.parametrize("lengths", [(2, 2), (3, 1), (1, 4), (0, 2), (2, 0), (0, 0), (1, 2, 3)])
def test_parts_together_take_as_many_rounds_as_the_longest(lengths):
    def side(start: int) -> Steps[tuple]:
        return together(*(counting(f"part {i}", start + 10 * i, rounds, 1 + i) for i, rounds in enumerate(lengths)))

    one, other = both(side(0), side(1000))
    assert one == tuple([1000 + 10 * i + turn for turn in range(rounds)] for i, rounds in enumerate(lengths))
    assert other == tuple([10 * i + turn for turn in range(rounds)] for i, rounds in enumerate(lengths))
    rounds = 0
    steps = side(0)
    try:
        _, said = next(steps)
        while True:
            rounds += 1
            _, said = steps.send([array.copy() for array in said])
    except StopIteration:
        pass
    assert rounds == max(lengths, default=0)


def test_a_round_has_the_name_of_the_first_that_speaks_and_all_arrays_in_order():
    steps = together(counting("short", 0, 1, 2), counting("long", 50, 2, 1))
    step, said = next(steps)
    assert step == "short/0"
    assert [array.tolist() for array in said] == [[0], [0, 0], [50]]
    step, said = steps.send(said)
    assert step == "long/1"
    assert [array.tolist() for array in said] == [[51]]


def test_an_error_of_one_part_ends_all():
    def failing() -> Steps[None]:
        yield "step", []
        raise RuntimeError("cheated")

    steps = together(counting("a", 0, 3), failing())
    _, said = next(steps)
    with pytest.raises(RuntimeError, match="cheated"):
        steps.send(said)
