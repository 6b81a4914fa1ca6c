"""A server that says anything else than the protocol has it say is caught before a label leaves, or has no effect.

Both roles, every step and every array of it. The only thing that a server can choose is what it puts in: another share
of the counts, or other noise, which docs/explanation/privacy.md accounts for. The liar's own checks always pass, so it
goes on as long as the other server does; what it sends after its lie follows from what it believes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import CheatingError
from sedml.mpc.authenticated.gates import garble
from sedml.mpc.authenticated.outputs import PADDING, mac_digest
from sedml.mpc.ot.trees import DEPTH
from sedml.protocol import block, preparation
from sedml.protocol.block_shape import Shape
from sedml.protocol.inputs import from_planes
from sedml.protocol.labels import LabelShare, reveal
from sedml.protocol.preparation import Prepared
from sedml.protocol.server_session import Session, open_session
from sedml.protocol.task import Block
from support.harness import numbers
from support.labelling import Case, Outcome, case, quick, quick_patches, run, trusted_bases
from support.lockstep import Lie, play
from support.tiers import thorough

SMALL = case(classes=3, samples=6, teachers=5, threshold=3, sigma=1.0)
KEYS = (501, 502)
roles = pytest.mark.parametrize("liar", [0, 1], ids=["S0 lies", "S1 lies"])


def quickly(given: Case, number: int = 3, **options) -> Outcome:
    """A run on transfers of a trusted party: what it is about comes after them. The same every time."""
    patches = quick_patches(number)
    for role, more in options.pop("patches", {}).items():
        patches[role] = [*patches[role], *more]
    keys = options.pop("keys", KEYS)
    return run(given, ends=quick(), number=number, keys=keys, patches=patches, **options)


def flip(which: int, place: int | slice = 0, value: int = 1) -> Lie:
    """Change one of the arrays at a place."""

    def lie(mine, _theirs):
        flat = mine[which].reshape(-1)
        flat[place] ^= flat.dtype.type(value)

    return lie


def bits(which: int, *places: int) -> Lie:
    """Flip bits of an array that is packed."""

    def lie(mine, _theirs):
        for place in places:
            mine[which][place // 8] ^= np.uint8(1 << place % 8)

    return lie


def made_up(which: int) -> Lie:
    def lie(mine, _theirs):
        flat = mine[which].reshape(-1).view(np.uint8)
        flat[:] = numbers(9).integers(0, 256, flat.size, np.uint8)

    return lie


def zeros(which: int) -> Lie:
    def lie(mine, _theirs):
        mine[which][...] = 0

    return lie


def echo(which: int) -> Lie:
    """What the other has just said."""

    def lie(mine, theirs):
        mine[which][...] = theirs[which]

    return lie


def wrong_rows(*rows: int) -> Lie:
    """Of the tables of the first AND, in all samples: wrong where the masked value of an operand is 1."""

    def lie(mine, _theirs):
        for row in rows:
            mine[0][row, 0] ^= np.uint64(3)

    return lie


def swapped(mine, _theirs):
    """The last two: the first ones are of noise, whose masked values are 0, and no row of theirs is ever used."""
    mine[0][:, [-2, -1]] = mine[0][:, [-1, -2]]


OFFLINE: dict[str, tuple[str, Lie]] = {
    "64 wrong g of leaky ANDs": ("leaky/g", flip(0, slice(0, 64))),
    "all g shifted by a bit": ("leaky/g", flip(0, slice(None), 1 << 40)),
    "g made up": ("leaky/g", made_up(0)),
    "g sent back": ("leaky/g", echo(0)),
    "a wrong d": ("leaky/d", bits(0, 28)),
    "every d wrong": ("leaky/d", flip(0, slice(None), 255)),
    "d sent back": ("leaky/d", echo(0)),
    "another commitment": ("leaky/commit", flip(0)),
    "the other's commitment": ("leaky/commit", echo(0)),
    "a wrong digest of leaky ANDs": ("leaky/open", flip(0)),
    "coins chosen after the commitment": ("leaky/open", flip(1, 3)),
    "another hiding of the coins": ("leaky/open", flip(1, -1)),
    "the other's coins": ("leaky/open", echo(1)),
    "a wrong e": ("block/products", bits(0, 11)),
    "a wrong e, the last": ("block/products", flip(0, -1, 1)),
    "a wrong bit for a left operand": ("block/products", bits(1, 2)),
    "a wrong bit for a right operand": ("block/products", bits(2, 2)),
    "e made up": ("block/products", made_up(0)),
    "f made up": ("block/products", made_up(1)),
    "g made up, of products": ("block/products", made_up(2)),
    "e, f and g sent back": ("block/products", lambda mine, theirs: [echo(i)(mine, theirs) for i in range(3)]),
    "a wrong sigma": ("block/products", bits(3, 3)),
    "a wrong sigma of a blind": ("block/products", flip(3, -1, 128)),
    "sigma made up": ("block/products", made_up(3)),
    "other noise told than put in": ("block/products", bits(4, 0)),
    "all noise told wrong": ("block/products", flip(4, slice(None), 255)),
    "both rows of an AND wrong": ("block/tables", wrong_rows(0, 1)),
    "two ANDs swapped": ("block/tables", swapped),
    "tables made up": ("block/tables", made_up(0)),
    "no tables": ("block/tables", zeros(0)),
    "the other's tables": ("block/tables", echo(0)),
    "a wrong colour": ("block/tables", bits(1, 9)),
    "the first colour wrong": ("block/tables", bits(1, 0)),
    "colours made up": ("block/tables", made_up(1)),
    "a wrong fingerprint of the first half": ("block/tables", flip(2, 0)),
    "a wrong fingerprint of the second half": ("block/tables", flip(2, -1)),
    "the other's fingerprints": ("block/tables", echo(2)),
    "a wrong sum of masks": ("block/tables", bits(3, 5)),
    "sums made up": ("block/tables", made_up(3)),
    "a wrong digest of sums": ("block/tables", flip(4)),
    "the other's sums and digest": ("block/tables", lambda mine, theirs: [echo(i)(mine, theirs) for i in (3, 4)]),
}
ONLINE: dict[str, tuple[str, Lie]] = {
    "a masked bit without its label": ("block/inputs", bits(0, 5)),
    "all masked bits without their labels": ("block/inputs", flip(0, slice(None), 255)),
    "a label that is none": ("block/inputs", flip(1, slice(0, 2), 77)),
    "labels made up": ("block/inputs", made_up(1)),
    "labels of 0": ("block/inputs", zeros(1)),
    "the other's labels": ("block/inputs", echo(1)),
    "a wrong label of T": ("block/inputs", flip(2, slice(0, 2), 5)),
    "labels of T of 0": ("block/inputs", zeros(2)),
    "a wrong masked value": ("block/evaluated", bits(0, 6)),
    "every masked value wrong": ("block/evaluated", flip(0, slice(None), 255)),
    "the other's masked values": ("block/evaluated", lambda mine, theirs: [echo(i)(mine, theirs) for i in (0, 1)]),
    "a wrong fingerprint of labels": ("block/evaluated", flip(1)),
    "a wrong fingerprint of the proof": ("block/correct", flip(0, 31)),
    "a proof made up": ("block/correct", made_up(0)),
    "the other's proof": ("block/correct", echo(0)),
}
ALL = OFFLINE | ONLINE
STEPS_OF_A_BLOCK = {"ot/extend", "leaky/g", "leaky/d", "leaky/commit", "leaky/open"} | {
    f"block/{step}" for step in ("products", "tables", "masked", "inputs", "evaluated", "correct")
}


def test_without_a_lie_the_labels_are_right():
    outcome = quickly(SMALL)
    assert not outcome.caught
    assert (outcome.labels == SMALL.labels).all()
    assert set(SMALL.labels) >= {-1, 0}
    assert {step for step, _ in run(SMALL).said[0]} == STEPS_OF_A_BLOCK


@roles
@pytest.mark.parametrize("name", ALL)
def test_a_lie_is_caught_by_the_other_server(name, liar):
    step, lie = ALL[name]
    outcome = quickly(SMALL, liar=liar, lies={step: lie})
    assert outcome.by == f"S{1 - liar}", outcome
    assert "The other server cheated" in outcome.why
    # A lie in the preparation ends it before anything that depends on a vote, but for tables, which are used later.
    if name in OFFLINE and step != "block/tables":
        assert outcome.answered is None


@roles
@pytest.mark.parametrize("array", range(5), ids=["sums of trees", "tags", "hashes", "corrections", "proof"])
def test_a_lie_about_transfers_is_caught(array, liar):
    outcome = run(SMALL, keys=KEYS, liar=liar, lies={"ot/extend": flip(array, slice(5, 45), 4)})
    assert outcome.by == f"S{1 - liar}"
    assert len(outcome.prepared.said[0]) == 1


SECOND = {
    "a sum of the trees": ("leaky/g", flip(1, slice(0, 64), 4)),
    "a sum of tags": ("leaky/g", flip(2, 5)),
    "a hash of tags": ("leaky/g", flip(3, 5)),
    "a correction": ("leaky/g", flip(4, 9, 4)),
    "the proof of the transfers": ("leaky/g", flip(5, 9, 4)),
}


@roles
@pytest.mark.parametrize("name", SECOND)
def test_a_lie_about_the_transfers_of_the_second_delta_is_caught(name, liar):
    step, lie = SECOND[name]
    outcome = run(SMALL, keys=KEYS, number=77, liar=liar, lies={step: lie})
    assert outcome.by == f"S{1 - liar}"
    assert outcome.answered is None


@roles
@pytest.mark.parametrize(
    ("step", "lie"),
    [
        ("ot/base", zeros(0)),
        ("ot/base", flip(1, slice(0, 64), 9)),
        ("ot/base", echo(0)),
        ("ot/renewal", made_up(0)),
        ("ot/renewal", flip(1, 3)),
        ("ot/renewal", flip(2, 3)),
        ("ot/renewal", flip(3, 3)),
        ("ot/renewal", flip(4, 3)),
        ("ot/renewal", lambda mine, theirs: [echo(i)(mine, theirs) for i in range(5)]),
    ],
)
def test_a_lie_in_the_set_up_is_caught(step, lie, liar):
    played = play(open_session(0, [0]), open_session(1, [0]), keys=KEYS, liar=liar, lies={step: lie})
    assert isinstance(played.results[1 - liar], CheatingError)


@roles
def test_points_that_nobody_knows_the_logarithm_of_are_of_no_use(liar):
    """A receiver of base transfers whose points are the other's has no keys, and nothing that follows fits."""
    played = play(open_session(0, [0]), open_session(1, [0]), keys=KEYS, liar=liar, lies={"ot/base": echo(1)})
    honest = played.results[1 - liar]
    assert isinstance(honest, Session)
    ends = tuple(played.results)
    assert run(SMALL, ends=ends, number=0, keys=KEYS, liar=liar).by == f"S{1 - liar}"


# Lies that go deeper than one message


@roles
def test_a_delta_whose_lowest_bit_is_0_is_caught(liar):
    for key in range(4):
        pair = trusted_bases(key, 0)
        pair[liar].choices[DEPTH - 1] = 1
        pair[liar].received[DEPTH - 1] = pair[1 - liar].sent[DEPTH - 1, 1]
        ends = Session(0, {0: pair[0]}), Session(1, {0: pair[1]})
        outcome = run(SMALL, ends=ends, number=0, keys=KEYS, liar=liar)
        assert outcome.by == f"S{1 - liar}"
        # S0's opens bits that tell the other's x, and fails with every second AND; S1's shows as garbler.
        assert ("leaky ANDs" if liar == 0 else "tables") in outcome.why


@roles
def test_the_set_up_lets_a_cheat_choose_such_a_delta_and_gain_it_nothing(liar):
    """It says that the choice that is its lowest bit is the other one."""

    def lie(mine, _theirs):
        mine[5][0] ^= 1

    played = play(open_session(0, [0]), open_session(1, [0]), keys=KEYS, liar=liar, lies={"ot/renewal": lie})
    base = played.results[liar]._bases[0]
    base.choices[DEPTH - 1] = 1  # that is what it has the key of
    assert run(SMALL, ends=tuple(played.results), number=0, keys=KEYS, liar=liar).by == f"S{1 - liar}"


def garbling_a_nand(which: int) -> Callable:
    """Masks and tables of an AND fit together, but its result is the other one."""

    def garbled(plan, inputs, a, b, out, delta, number):
        out = out.copy()
        out[which] ^= delta
        return garble(plan, inputs, a, b, out, delta, number)

    return garbled


@roles
@pytest.mark.parametrize("which", [0, 17, -1])
def test_a_nand_in_the_place_of_an_and_is_caught(which, liar):
    outcome = quickly(SMALL, liar=liar, patches={liar: [(preparation, "garble", garbling_a_nand(which))]})
    assert outcome.by == f"S{1 - liar}"
    assert "tables" in outcome.why


@roles
@pytest.mark.parametrize("threshold", [1, 2, 6])
def test_another_threshold_is_caught(threshold, liar):
    """Where the garbler's label of a bit of T is that of the other bit."""
    right = block._threshold_bits

    def other(shape: Shape) -> np.ndarray:
        return right(Shape(replace(shape.task, threshold=threshold), shape.block))

    assert not (other(Shape(SMALL.task, Block(0, 0, 6))) == right(Shape(SMALL.task, Block(0, 0, 6)))).all()
    outcome = quickly(SMALL, liar=liar, patches={liar: [(block, "_threshold_bits", other)]})
    assert outcome.by == f"S{1 - liar}"


@roles
def test_an_evaluator_that_learned_the_garblers_masks_could_change_nothing(liar):
    """It says an output the other way round and makes up the fingerprint: it has no label for it."""
    shape = Shape(SMALL.task, Block(0, 0, SMALL.task.samples))
    outputs = [
        int(np.flatnonzero(shape.plan.out == wire)[0]) for wire in shape.plan.circuit.outputs if wire in shape.plan.out
    ]
    assert outputs
    for place in outputs:
        lie = bits(0, place * shape.half)
        assert quickly(SMALL, liar=liar, lies={"block/evaluated": lie}).by == f"S{1 - liar}"


# One guess


@roles
def test_one_guess_at_a_leaky_and_is_caught_half_of_the_time_and_changes_nothing_otherwise(liar):
    """It passes just where the other's part of x is 0: then that is what the liar has learned."""
    tiny, outcomes, guessed = case(classes=2, samples=1, teachers=2, threshold=1, sigma=0.3), [], []
    for number in range(60):
        outcome = quickly(tiny, number, liar=liar, lies={"leaky/g": flip(0, 17, 1 << 30)})
        made = _finished(quick()[1 - liar].begin(number).extend(sum(Shape(tiny.task, Block(0, 0, 1)).sections)))
        outcomes.append(outcome.by)
        guessed.append(int(made.choices[3 * 17]))
        if not outcome.caught:
            assert (outcome.labels == tiny.labels).all()
        else:
            assert "leaky ANDs" in outcome.why
    assert [bool(by) for by in outcomes] == [bool(bit) for bit in guessed]
    assert 12 <= sum(guessed) <= 48


def _finished(steps):
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise AssertionError


# What is not a lie: another input


@roles
@given(key=st.integers(0, 2**20), places=st.lists(st.integers(0, 35), min_size=1, max_size=12, unique=True))
@settings(max_examples=8)
def test_other_masked_shares_are_another_input(liar, key, places):
    """As evaluator: worth no more than adding numbers of one's choice to the own share."""
    width = SMALL.task.widths.counts
    moved = {}

    def lie(mine, _theirs):
        planes = [np.unpackbits(mine[0], count=3 * 3 * width, bitorder="little").reshape(-1, 3)]
        bits(0, *places)(mine, _theirs)
        planes.append(np.unpackbits(mine[0], count=3 * 3 * width, bitorder="little").reshape(-1, 3))
        before, after = (from_planes(one, width).astype(np.int64) for one in planes)
        moved["by"] = after - before

    outcome = quickly(SMALL, key % 1000, liar=liar, lies={"block/masked": lie})
    shift = np.zeros((3, 6), np.int64)
    shift[:, 3:] = moved["by"] if liar == 0 else 0
    shift[:, :3] = moved["by"] if liar == 1 else 0
    other = SMALL.with_share(liar, (SMALL.shares[liar] + shift) % (1 << width))
    assert not outcome.caught
    assert (outcome.labels == other.labels).all()


@roles
@pytest.mark.parametrize("place", [0, 4, 13, 35])
def test_labels_of_other_bits_with_their_masked_values_are_another_input(place, liar):
    """As garbler, of what it puts in: the sum of its share and of the other's masked one."""
    found = {}

    def other_bit(both: list[Prepared]) -> None:
        both[liar].garbled.masks.reshape(-1)[place] ^= 1
        found["r"] = from_planes(both[1 - liar].evaluated.r, width).astype(np.int64)

    width = SMALL.task.widths.counts
    outcome = quickly(SMALL, liar=liar, prepared=other_bit)
    assert not outcome.caught
    here = slice(0, 3) if liar == 0 else slice(3, 6)
    sent = (SMALL.shares[0] + SMALL.shares[1])[:, here] - found["r"]
    bit, at = divmod(place, 9)
    moved = (sent % (1 << width)).reshape(-1)
    moved[at] ^= 1 << bit
    shares = np.zeros((2, 3, 6), np.int64)
    shares[0, :, here], shares[1, :, here] = moved.reshape(3, 3), found["r"]
    assert (outcome.labels[here] == replace(SMALL, shares=tuple(shares)).labels[here]).all()
    rest = slice(3, 6) if liar == 0 else slice(0, 3)
    assert (outcome.labels[rest] == SMALL.labels[rest]).all()


@roles
@given(key=st.integers(0, 2**32 - 1))
@settings(max_examples=6)
def test_other_shares_and_other_noise_are_taken_as_they_are(liar, key):
    rng, task = numbers(key), SMALL.task
    half = 1 << (task.widths.noise - 1)
    other = SMALL.with_share(liar, rng.integers(0, 1 << task.widths.counts, (3, 6)))
    other = other.with_noise(liar, rng.integers(-half, half, (3, 6)))
    outcome = quickly(other, liar=liar)
    assert not outcome.caught
    assert (outcome.labels == other.labels).all()


# Anything else


@roles
@given(data=st.data())
@settings(max_examples=60)
def test_whatever_is_changed_it_is_caught_or_has_no_effect(liar, data):
    """Any step, any array, any place: but for shares, which are another input, no label is ever another one."""
    steps = STEPS_OF_A_BLOCK - {"ot/extend", "block/masked"}
    step = data.draw(st.sampled_from(sorted(steps)))
    picked = data.draw(st.tuples(st.integers(0, 10), st.floats(0, 1, exclude_max=True), st.integers(1, 255)))

    def lie(mine, _theirs):
        which, place, value = picked
        flat = mine[which % len(mine)].reshape(-1).view(np.uint8)
        flat[int(place * flat.size)] ^= np.uint8(value)

    outcome = quickly(SMALL, liar=liar, lies={step: lie})
    assert outcome.by in ("", f"S{1 - liar}")
    if not outcome.caught:
        assert (outcome.labels == SMALL.labels).all()


@thorough
@roles
@given(data=st.data())
@settings(max_examples=100)
def test_whatever_is_changed_at_several_steps_it_is_caught_or_has_no_effect(liar, data):
    steps = sorted(STEPS_OF_A_BLOCK - {"block/masked"})
    lies = {}
    for step in data.draw(st.lists(st.sampled_from(steps), min_size=1, max_size=4, unique=True)):
        kind = data.draw(st.sampled_from([made_up, zeros, echo, flip]))
        which = data.draw(st.integers(0, 4))
        lies[step] = lambda mine, theirs, kind=kind, which=which: kind(which % len(mine))(mine, theirs)
    outcome = run(SMALL, keys=KEYS, number=5, liar=liar, lies=lies)
    assert outcome.by in ("", f"S{1 - liar}")
    if not outcome.caught:
        assert (outcome.labels == SMALL.labels).all()


# To the requester


def changed(**parts) -> Callable[[LabelShare], LabelShare]:
    def change(share: LabelShare) -> LabelShare:
        return replace(share, **{name: how(getattr(share, name).copy()) for name, how in parts.items()})

    return change


def one_more(place):
    def how(values):
        values[place] ^= values.dtype.type(1)
        return values

    return how


SHARES = {
    "a public bit": changed(public=one_more(2)),
    "every public bit": changed(public=one_more(slice(None))),
    "an own bit": changed(own=one_more(0)),
    "every own bit": changed(own=one_more(slice(None))),
    "a bit that is only there to hide": changed(own=one_more(-1)),
    "the digest": changed(digest=one_more(4)),
    "a key": changed(keys=one_more(4)),
    "the last key": changed(keys=one_more(-1)),
    "every key": changed(keys=one_more(slice(None))),
    "the second Delta": changed(delta=lambda delta: np.uint64(delta ^ np.uint64(8))),
    "a public bit and its own": changed(public=one_more(2), own=one_more(2)),
    "keys as if the other's bit were another": lambda share: replace(
        share, keys=np.where(np.arange(share.keys.size) == 1, share.keys ^ share.delta, share.keys)
    ),
    "nothing": lambda share: replace(share, own=share.own * 0, keys=share.keys * 0, delta=np.uint64(0)),
}


@roles
@pytest.mark.parametrize("name", SHARES)
def test_a_changed_share_is_refused_by_the_requester(name, liar):
    outcome = quickly(SMALL, liar=liar, shared=SHARES[name])
    assert outcome.by == "requester"
    assert not any(word in outcome.why for word in ("S0", "S1"))


@roles
@pytest.mark.parametrize("name", ["a key", "the second Delta", "a public bit", "an own bit"])
def test_a_refusal_tells_nothing_of_the_other_share_even_for_one_sample(name, liar):
    """Refused whatever the other server's bits are: 64 of them are there for that alone."""
    one = case(classes=2, samples=1, teachers=2, threshold=1, sigma=0.3)
    for number in range(8):
        outcome = quickly(one, number, liar=liar, shared=SHARES[name])
        assert outcome.by == "requester"
        assert outcome.shares[1 - liar].own[-PADDING:].any()


def test_only_a_server_whose_bits_are_all_zero_would_not_show_a_wrong_delta():
    """What the 64 more bits are for: the planted fault is that there are none but zeros."""
    outcome = quickly(SMALL)
    shares = outcome.shares
    bare = replace(shares[1], own=shares[1].own * 0, public=shares[1].public ^ shares[1].own[:-PADDING])
    keys = shares[0].keys
    bare = replace(bare, digest=mac_digest("share", keys))
    liar = replace(shares[0], public=bare.public)
    assert (reveal(SMALL.task, 6, liar, bare) == SMALL.labels).all()
    assert (reveal(SMALL.task, 6, replace(liar, delta=np.uint64(5)), bare) == SMALL.labels).all()
    with pytest.raises(CheatingError):
        reveal(SMALL.task, 6, replace(shares[0], delta=np.uint64(5)), shares[1])


@roles
def test_a_share_of_another_attempt_is_refused(liar):
    first, again = (quickly(SMALL, number, liar=liar).shares for number in (1, 2))
    mixed = [again[0], again[1]]
    mixed[liar] = first[liar]
    with pytest.raises(CheatingError):
        reveal(SMALL.task, SMALL.task.samples, *mixed)


def test_shares_that_were_swapped_or_are_twice_the_same_are_refused():
    one, other = quickly(SMALL).shares
    for pair in ((one, one), (other, other)):
        with pytest.raises(CheatingError):
            reveal(SMALL.task, SMALL.task.samples, *pair)


@roles
def test_the_message_for_the_requester_is_the_same_whatever_was_changed(liar):
    said = {quickly(SMALL, liar=liar, shared=change).why for change in SHARES.values()}
    assert len(said) == 1
