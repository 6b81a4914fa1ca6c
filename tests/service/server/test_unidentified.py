"""Who has to go when there are too many: the oldest, of the address that has most."""

from __future__ import annotations

from sedml.service.server.link.unidentified import Unidentified


def test_the_oldest_goes_for_the_newest():
    crowd = Unidentified[int](3, 3)
    assert [crowd.add(number, "a") for number in range(5)] == [None, None, None, 0, 1]
    assert len(crowd) == 3
    assert crowd.leave(2) == "a"
    assert crowd.leave(2) is None
    assert crowd.add(5, "a") is None


def test_a_crowd_from_one_address_pushes_out_its_own():
    crowd = Unidentified[int](4, 4)
    crowd.add(0, "quiet")
    assert [crowd.add(number, "loud") for number in range(1, 9)] == [None, None, None, 1, 2, 3, 4, 5]
    assert crowd.add(9, "new") == 6
    assert 0 in crowd


def test_one_address_has_a_limit_of_its_own():
    crowd = Unidentified[int](10, 2)
    assert [crowd.add(number, "a") for number in range(4)] == [None, None, 0, 1]
    assert crowd.add(4, "b") is None
