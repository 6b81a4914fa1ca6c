"""Everything a block needs is made together, from transfers of its own, and handed out once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.semi_honest.gadgets.bit_and import BitTriples
from sedml.lab.semi_honest.recipe import MadeRandomness, Recipe, make
from sedml.mpc.steps import drive
from support.made import both, extensions, taps
from support.semi_honest import TrustedExtension


@dataclass(frozen=True)
class Talk(Recipe):
    """Takes so many transfers, and sends one number in each of so many rounds."""

    count: int
    rounds: int
    number: int

    @property
    def transfers(self):
        return self.count

    def prepare(self, role, ots, coins):
        heard = []
        for turn in range(self.rounds):
            [came] = yield "make", [np.array([self.number, turn, role], np.uint8)]
            heard.append(came)
        return {"heard": np.array(heard), "numbers": np.arange(ots.first, ots.first + len(ots.choices))}


def made_of(recipes, links=None, ends=None):
    ends = ends or (TrustedExtension(0, 1), TrustedExtension(1, 1))
    return both(lambda role, link: drive(link, 4, make(role, ends[role], 4, recipes)), links=links)


def test_no_two_recipes_have_a_transfer_in_common():
    recipes = {name: Talk(count, 0, 0) for name, count in (("a", 5), ("b", 1), ("c", 200))}
    ends = TrustedExtension(0, 1), TrustedExtension(1, 1)
    blocks = [made_of(recipes, ends=ends) for _ in range(3)]
    for role in (0, 1):
        taken = np.concatenate([made[role].take(name)["numbers"] for made in blocks for name in recipes])
        assert len(taken) == 3 * 206
        assert len(np.unique(taken)) == len(taken)


def test_recipes_go_in_step_and_each_hears_its_own():
    recipes = {"a": Talk(1, 2, 10), "b": Talk(1, 0, 11), "c": Talk(1, 4, 12), "d": Talk(1, 1, 13)}
    links = taps()
    made = made_of(recipes, links)
    assert [step for _, step in links[0].steps] == ["make"] * 4
    assert [part.size for part in links[0].sent] == [9, 6, 3, 3]
    for role in (0, 1):
        for name, recipe in recipes.items():
            heard = made[role].take(name)["heard"]
            assert heard.tolist() == [[recipe.number, turn, 1 - role] for turn in range(recipe.rounds)]


def test_a_block_takes_one_round_more_than_its_longest_recipe():
    links = taps()
    made_of({"a": Talk(9, 3, 0), "b": BitTriples((7, 2))}, links, extensions())
    assert links[0].steps == [(4, "ot/extend"), *[(4, "make")] * 3]


def test_a_piece_is_handed_out_once():
    made = made_of({"a": Talk(1, 0, 0)})[0]
    assert made.take("a")["numbers"].tolist() == [0]
    with pytest.raises(CorrelationReusedError, match="block 4 was used before"):
        made.take("a")


def test_a_piece_that_was_not_made_is_not_handed_out():
    made = made_of({"a": Talk(1, 0, 0)})[0]
    with pytest.raises(CorrelationError, match="No randomness 'b' was made for block 4"):
        made.take("b")
    made.take("a")


def test_what_was_made_is_not_shown():
    made = MadeRandomness(0, {"a": {"key": np.arange(3)}})
    assert "array" not in repr(made)
    assert "key" not in repr(made)
