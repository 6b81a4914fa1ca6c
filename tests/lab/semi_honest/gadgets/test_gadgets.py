"""The gadgets against plain NumPy; rounds and bits are those of their docstrings.

Most run on transfers of a trusted party, which are quick to make; a few on those of a real extension.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sedml.errors import CorrelationError, CorrelationReusedError
from sedml.lab.semi_honest.gadgets.bit_and import BitTriples, bit_and
from sedml.lab.semi_honest.gadgets.choose import Choice, choose, plan_choice
from sedml.lab.semi_honest.gadgets.millionaires import negative, plan_negative
from sedml.lab.semi_honest.gadgets.none_of import Equalities, all_set
from sedml.lab.semi_honest.gadgets.tournament import levels, tournament
from sedml.mpc.bits import packed_size
from sedml.mpc.ring import Ring
from support.harness import join_ring, numbers, signed, split_ring
from support.made import extensions
from support.semi_honest import run_made

keys = st.integers(0, 2**32 - 1)
in_use = st.integers(1, 70)
spare = st.integers(0, 19)  # samples that randomness was made for but that are not used


def log_ceil(base: int, value: int) -> int:
    return next(k for k in range(65) if base**k >= value)


def split_coins(bits: np.ndarray, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Two XOR shares of 0/1 bits, one to a byte."""
    share0 = numbers(key).integers(0, 2, bits.shape, np.uint8)
    return share0, bits.astype(np.uint8) ^ share0


def signed_values(width: int, shape: tuple[int, ...], key: int) -> np.ndarray:
    """Numbers over the whole range, a third of them at its ends and around zero."""
    rng = numbers(key)
    low, high = -(1 << width - 1), (1 << width - 1) - 1
    values = rng.integers(low, high, shape, np.int64, endpoint=True)
    edges = np.clip(np.array([low, low + 1, -2, -1, 0, 1, high - 1, high]), low, high)
    return np.where(rng.random(shape) < 1 / 3, rng.choice(edges, shape), values)


def shares_with_edges(values: np.ndarray, width: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Shares of which some are zero or all ones, so that carries run over the whole width or not at all."""
    share0, _ = split_ring(values, width, key % 1000)
    ones, pick = share0.dtype.type((1 << width) - 1), numbers(key).integers(0, 6, values.shape)
    share0 = np.where(pick == 0, 0, np.where(pick == 1, ones, share0)).astype(share0.dtype)
    return share0, (values.astype(share0.dtype) - share0) & ones


# bit_and


@given(gates=st.integers(1, 4), rows=st.integers(1, 3), samples=in_use, extra=spare, key=keys)
@settings(max_examples=40)
def test_bit_and_is_the_product_in_one_round_of_two_bits(gates, rows, samples, extra, key):
    x, y = numbers(key).integers(0, 2, (2, gates, rows, samples), np.uint8)
    xs, ys = split_coins(x, key + 1), split_coins(y, key + 2)
    recipe = BitTriples((gates, rows, samples + extra))
    run = run_made({"and": recipe}, lambda p: bit_and(p, "and", xs[p.role], ys[p.role]), key=key % 1000)
    assert (run.shares[0] ^ run.shares[1] == x & y).all()
    assert run.rounds == 1
    assert run.payload == -(-2 * x.size // 8)
    assert recipe.transfers == gates * rows * (samples + extra)
    assert run.offline[0].rounds == 0


def test_triples_are_products_of_fair_coins():
    recipes = {"and": BitTriples((4000,))}
    run = run_made(recipes, lambda p: p.take("and"), ends=extensions())
    a, b, c = (run.shares[0][name] ^ run.shares[1][name] for name in ("a", "b", "c"))
    assert (c == a & b).all()
    for pieces in run.shares:
        for name in ("a", "b", "c"):
            assert abs(int(pieces[name].sum()) - 2000) < 5 * np.sqrt(4000) / 2
    for one, other in ((a, b), (a, run.shares[0]["a"]), (b, run.shares[1]["b"]), (c, run.shares[0]["c"])):
        assert abs(int((one ^ other).sum()) - 2000) < 5 * np.sqrt(4000) / 2


# millionaires


def digits_of(width: int) -> list[int]:
    """The lowest has 6 bits, the others 5, the last what is left."""
    low = width - 1
    return [low] if low <= 6 else [6, *[5] * ((low - 6) // 5), *([(low - 6) % 5] if (low - 6) % 5 else [])]


def bytes_of_a_sign(rows: int, samples: int, width: int) -> list[int]:
    """What each round of a sign test sends each way."""
    half, digits = -(-samples // 2), digits_of(width)
    tables = [max(1, (1 if k == 0 else 2) * (1 << size) // 8) for k, size in enumerate(digits)]
    sizes = [sum(packed_size(rows * half, size) for size in digits), rows * half * sum(tables)]
    left = len(digits)
    while left > 1:
        sizes.append(-(-2 * (2 * (left // 2) - 1) * rows * 2 * half // 8))
        left = -(-left // 2)
    return sizes


@pytest.mark.parametrize("width", range(2, 65))
@given(rows=st.integers(1, 3), samples=in_use, extra=spare, key=keys)
@settings(max_examples=4)
def test_negative_is_the_sign_at_every_width(width, rows, samples, extra, key):
    f = signed_values(width, (rows, samples), key)
    shares = shares_with_edges(f, width, key)
    recipes = plan_negative("sign", rows, samples + extra, width)
    run = run_made(recipes, lambda p: negative(p, "sign", shares[p.role], width)[0], key=key % 1000)
    assert (run.shares[0] ^ run.shares[1] == (f < 0)).all()
    assert run.rounds == 2 + log_ceil(2, len(digits_of(width)))
    assert [part.size for part in run.taps[0].sent] == bytes_of_a_sign(rows, samples, width)
    assert run.payload == sum(bytes_of_a_sign(rows, samples, width))


@pytest.mark.parametrize("width", [2, 3, 4, 5, 6])
def test_narrow_signs_are_right_for_every_number_under_every_pair_of_shares(width):
    size = 1 << width
    own = [part.reshape(1, -1) for part in np.indices((size, size)).astype(np.uint8)]
    recipes = plan_negative("s", 1, size * size, width)
    run = run_made(recipes, lambda p: negative(p, "s", own[p.role], width)[0])
    value = (own[0] + own[1]) & np.uint8(size - 1)
    assert (run.shares[0] ^ run.shares[1] == value >> np.uint8(width - 1)).all()


def test_a_sign_of_twelve_bits_takes_three_rounds_two_tables_and_one_and():
    recipes = plan_negative("s", 1, 64, 12)
    # 11 for half of the samples each way, and one AND for each.
    assert sum(recipe.transfers for recipe in recipes.values()) == 11 * 32 + 64
    f = split_ring(signed_values(12, (1, 64), 5), 12)
    run = run_made(recipes, lambda p: negative(p, "s", f[p.role], 12)[0])
    assert run.rounds == 3
    # A sample: 11 bits asked in one half, two tables of 64 bits answered in the other, 2 bits opened for the AND.
    assert [8 * part.size for part in run.taps[0].sent] == [11 * 32, 128 * 32, 2 * 64]


def test_negative_takes_others_along_in_its_first_round():
    f = split_ring(signed_values(9, (2, 5), 1), 9)

    def side(party):
        mine = [np.full(3, party.role, np.uint8), np.full(2, 7 + party.role, np.uint16)]
        return negative(party, "s", f[party.role], 9, mine)[1]

    run = run_made(plan_negative("s", 2, 5, 9), side)
    for role, (first, second) in enumerate(run.shares):
        assert first.tolist() == [1 - role] * 3
        assert second.tolist() == [8 - role] * 2
    assert run.taps[0].sent[0].size == bytes_of_a_sign(2, 5, 9)[0] + 3 + 4


def test_signs_are_right_on_transfers_of_a_real_extension():
    f = signed_values(23, (3, 41), 2)
    shares = shares_with_edges(f, 23, 3)
    recipes = plan_negative("s", 3, 50, 23)
    run = run_made(recipes, lambda p: negative(p, "s", shares[p.role], 23)[0], ends=extensions())
    assert (run.shares[0] ^ run.shares[1] == (f < 0)).all()


# none_of


@given(bits=st.integers(1, 250), samples=in_use, extra=spare, density=st.sampled_from([0.5, 0.99, 1.0]), key=keys)
@example(bits=10, samples=7, extra=0, density=0.9, key=1)
@example(bits=11, samples=7, extra=2, density=0.9, key=1)
@example(bits=100, samples=1, extra=0, density=1.0, key=1)
@example(bits=101, samples=3, extra=0, density=0.99, key=1)
@settings(max_examples=80)
def test_all_set_is_whether_all_are_set_and_both_servers_know(bits, samples, extra, density, key):
    samples, extra = (samples, extra) if bits < 60 else (min(samples, 9), min(extra, 4))
    x = (numbers(key).random((bits, samples)) < density).astype(np.uint8)
    x[:, 0] = 1
    if samples > 1:
        x[:, -1] = 1
        x[numbers(key).integers(bits), -1] = 0  # all but one
    shares = split_coins(x, key + 1)
    recipe = Equalities(bits, samples + extra)
    run = run_made({"all": recipe}, lambda p: all_set(p, "all", shares[p.role]), key=key % 1000)
    for share in run.shares:
        assert share.dtype == np.bool_
        assert (share == x.all(axis=0)).all()
    half = -(-samples // 2)
    assert [part.size for part in run.taps[0].sent] == [-(-bits * half // 8), 16 * half, -(-half // 8)]
    assert run.rounds == 3
    assert recipe.transfers == bits * -(-(samples + extra) // 2)
    assert run.offline[0].rounds == 0


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_all_set_is_right_for_all_bits_under_every_pair_of_shares(bits):
    every = np.arange(1 << 2 * bits)
    shares = [(every >> (bits * part + np.arange(bits)[:, np.newaxis]) & 1).astype(np.uint8) for part in (0, 1)]
    run = run_made({"all": Equalities(bits, every.size)}, lambda p: all_set(p, "all", shares[p.role]))
    assert (run.shares[0] == (shares[0] ^ shares[1]).all(axis=0)).all()
    assert (run.shares[0] == run.shares[1]).all()


# choose


@pytest.mark.parametrize("secret_index", [False, True], ids=["public index", "secret index"])
@pytest.mark.parametrize("value", [False, True], ids=["index alone", "with value"])
@given(
    width=st.integers(2, 64),
    index_bits=st.integers(2, 13),
    rows=st.integers(1, 3),
    samples=st.integers(1, 33),
    extra=spare,
    key=keys,
)
@settings(max_examples=40)
def test_the_larger_is_chosen_and_the_left_on_a_tie(value, secret_index, width, index_bits, rows, samples, extra, key):
    rng, shape, size = numbers(key), (rows, samples), 1 << index_bits
    difference = signed_values(width, shape, key)
    a = rng.integers(-(1 << 62), 1 << 62, shape) >> rng.integers(0, 62)
    b = a - difference
    ia = rng.integers(0, size - 1, shape)
    ib = rng.integers(0, size, shape) if secret_index else ia + 1
    spec = Choice(rows, samples + extra, width, index_bits, value=value, secret_index=secret_index)
    values = [split_ring(part, width, number) for number, part in enumerate((a, b))]
    indices = [split_ring(part, index_bits, number) for number, part in enumerate((ia, ib), 5)]

    def side(party):
        return choose(party, "c", spec, *(part[party.role] for part in (*values, *indices)))

    run = run_made(plan_choice("c", spec), side, key=key % 1000)
    right = difference < 0
    index = join_ring((run.shares[0][1], run.shares[1][1]), index_bits)
    assert (index == np.where(right, ib, ia)).all()
    if value:
        won = join_ring((run.shares[0][0], run.shares[1][0]), width)
        assert (won == Ring(width).reduce(np.where(right, b, a))).all()
    else:
        assert run.shares[0][0] is None
        assert run.shares[1][0] is None
    # The sign test's rounds, the masked differences in its first, and one more in which one bit a duel goes each way.
    sizes = bytes_of_a_sign(rows, samples, width)
    sizes[0] += packed_size(rows * samples, width) if value else 0
    sizes[0] += packed_size(rows * samples, index_bits) if secret_index else 0
    assert [part.size for part in run.taps[0].sent] == [*sizes, -(-rows * samples // 8)]
    # Made before: [rho], [rho r] and [rho u], of one transfer a duel, in one round.
    count = rows * (samples + extra)
    assert [part.size for part in run.offline[0].sent] == [packed_size(3 * count, max(width, index_bits))]
    assert spec.transfers == count


def test_what_a_choice_is_made_of_fits_together():
    spec = Choice(2, 51, 12, 4, value=True, secret_index=True)
    s0, s1 = run_made({"c": spec}, lambda p: p.take("c"), ends=extensions()).shares
    rho = s0["bit"] ^ s1["bit"]
    assert 0 < rho.sum() < rho.size
    for name, want in (("rho", rho), ("rho_r", rho * (s0["r"] + s1["r"])), ("rho_u", rho * (s0["u"] + s1["u"]))):
        assert (spec.ring.reduce(s0[name] + s1[name]) == spec.ring.reduce(want)).all()


@given(entries=st.integers(2, 33), samples=st.integers(1, 19), width=st.integers(4, 33), ties=st.booleans(), key=keys)
@settings(max_examples=40)
def test_a_tournament_of_choices_finds_the_first_of_the_highest(entries, samples, width, ties, key):
    limit, index_bits = 1 if ties else (1 << width - 2) - 1, entries.bit_length()  # no difference may leave the ring
    values = numbers(key).integers(-limit, limit, (entries, samples), endpoint=True)
    own = split_ring(values, width)
    specs = [
        Choice(rows, samples, width, index_bits, value=True, secret_index=level > 0)
        for level, rows in enumerate(levels(entries))
    ]
    recipes = {}
    for level, spec in enumerate(specs):
        recipes |= plan_choice(f"t/{level}", spec)

    def side(party):
        classes = np.arange(entries, dtype=np.uint8)[:, np.newaxis]
        indices = party.constant(np.repeat(classes, samples, axis=1))
        return tournament(
            own[party.role], indices, lambda level, *pair: choose(party, f"t/{level}", specs[level], *pair)
        )

    run = run_made(recipes, side, key=key % 1000)
    highest, first = (
        join_ring(shares, bits) for shares, bits in zip(zip(*run.shares, strict=True), (width, index_bits), strict=True)
    )
    assert (first == values.argmax(axis=0)).all()
    assert (signed(Ring(width), highest) == values.max(axis=0)).all()
    assert run.rounds == len(specs) * (3 + log_ceil(2, len(digits_of(width))))


# Pieces


def uses():
    """(name, recipes, gadget) of each gadget at a small size."""
    bits = np.zeros((1, 2, 3), np.uint8)
    ring = np.zeros((2, 3), np.uint8)
    spec = Choice(2, 3, 8, 2, value=True, secret_index=True)
    return [
        ("bit_and", {"g": BitTriples((1, 2, 3))}, lambda p: bit_and(p, "g", bits, bits)),
        ("negative", plan_negative("g", 2, 3, 8), lambda p: negative(p, "g", ring, 8)),
        ("all_set", {"g": Equalities(2, 3)}, lambda p: all_set(p, "g", ring)),
        ("choose", plan_choice("g", spec), lambda p: choose(p, "g", spec, ring, ring, ring, ring)),
    ]


@pytest.mark.parametrize(("recipes", "gadget"), [pytest.param(*use[1:], id=use[0]) for use in uses()])
def test_a_gadget_takes_all_that_was_made_for_it_and_takes_it_once(recipes, gadget):
    run = run_made(recipes, gadget)
    for party in run.parties:
        for name in recipes:
            with pytest.raises(CorrelationReusedError):
                party.take(name)

    def twice(party):
        gadget(party)
        return gadget(party)

    with pytest.raises(CorrelationReusedError):
        run_made(recipes, twice)


@pytest.mark.parametrize(("recipes", "gadget"), [pytest.param(*use[1:], id=use[0]) for use in uses()])
def test_a_gadget_under_another_name_finds_nothing(recipes, gadget):
    others = {f"other/{name}": recipe for name, recipe in recipes.items()}
    with pytest.raises(CorrelationError, match="No randomness"):
        run_made(others, gadget)
