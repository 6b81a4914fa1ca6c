"""A block as two servers run it: rounds, bytes, what is overwritten, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sedml.errors import CorrelationReusedError, InputError, SedmlError
from sedml.protocol.block import PROTOCOL_VERSION, answer
from sedml.protocol.block_shape import Shape
from sedml.protocol.labels import share_size, to_bytes
from sedml.protocol.preparation import prepare
from sedml.protocol.task import Block, Task
from support.labelling import Case, case, run, sessions, split_shares
from support.lockstep import play

PREPARATION = ["ot/extend", "leaky/g", "leaky/d", "leaky/commit", "leaky/open", "block/products", "block/tables"]
VOTES = ["block/masked", "block/inputs", "block/evaluated", "block/correct"]


@pytest.mark.parametrize("samples", [1, 2, 7])
def test_it_takes_seven_rounds_and_four_with_the_votes(samples):
    outcome = run(case(samples=samples))
    assert outcome.prepared.steps == PREPARATION
    assert outcome.answered.steps == VOTES
    assert PROTOCOL_VERSION == 5


def packed(bits: int) -> int:
    return -(-bits // 8)


def extended(count: int) -> int:
    """Bytes of transfers: 31 bits each, for 128 more in each batch of 2^18, and 48 for the proof."""
    n = -(-count // 128) * 128
    batches = -(-n // (1 << 18))
    return 31 * (n + 128 * batches) // 8 + 48 * batches


@pytest.mark.parametrize(
    ("classes", "teachers", "sigma", "samples"), [(3, 5, 1.0, 1), (2, 9, 3.0, 6), (4, 3, 0.5, 5), (10, 250, 40.0, 3)]
)
def test_the_bytes_of_every_message_follow_from_the_task(classes, teachers, sigma, samples):
    given = case(classes, samples, teachers, 2, sigma)
    outcome, task = run(given), given.task
    shape, widths = Shape(task, Block(0, 0, samples)), task.widths
    half, ands, leaky = -(-samples // 2), task.ands, shape.size * shape.ands
    assert shape.ands == 2 * half * ands
    index = (classes - 1).bit_length()
    outputs, shares, noise = 2 * half * (1 + index), classes * widths.counts * half, classes * widths.noise * half
    transfers = 3 * leaky + shape.ands + 128 + 2 * (shares + noise) + 128
    assert sum(shape.sections) == transfers
    assert outcome.prepared.sizes == [
        6144 + extended(transfers),
        8 * leaky + 6144 + extended(outputs + 64 + 128),
        packed(leaky),
        32,
        32 + 64,
        packed((shape.size - 1) * shape.ands) + 2 * packed(shape.ands) + packed(outputs + 128) + packed(2 * noise),
        32 * ands * half + packed(ands * half) + 64 + 16 + 32,
    ]
    assert outcome.answered.sizes == [
        packed(shares),
        packed(shares) + 16 * shares + 16 * widths.value,
        packed(ands * half) + 32,
        32,
    ]
    for share in outcome.shares:
        assert len(to_bytes(task, share)) == share_size(task, samples)


@pytest.mark.parametrize("votes", ["none", "all"])
def test_sizes_do_not_depend_on_the_answers(votes):
    task = Task(3, 5, 4, 2, 0.3, nonce="same")
    counts = np.full((3, 5), 0 if votes == "none" else 4)
    given = Case(task, split_shares(task, counts), (np.zeros((3, 5), int),) * 2)
    outcome = run(given)
    assert (outcome.labels == (-1 if votes == "none" else 0)).all()
    assert outcome.answered.sizes == run(case(3, 5, 4, 2, 0.3)).answered.sizes
    assert {len(to_bytes(task, share)) for share in outcome.shares} == {share_size(task, 5)}


def prepared_pair(given: Case, number: int = 0):
    ends = sessions(blocks=[number])
    block = Block(number, 0, given.task.samples)
    return play(*(prepare(ends[i], given.task, block, given.noises[i]) for i in (0, 1))).results


def test_a_preparation_needs_no_vote_and_says_nothing_that_depends_on_one():
    """The same coins, other votes: word for word the same, until shares are sent."""
    given = case(samples=3)
    other = given.with_share(0, given.shares[0] ^ 1).with_share(1, given.shares[1] ^ 3)
    one, two = (run(which, number=1, keys=(5, 6)) for which in (given, other))
    for (step, arrays), (same, others) in zip(one.said[0], two.said[0], strict=True):
        assert step == same
        alike = all((a == b).all() for a, b in zip(arrays, others, strict=True))
        assert alike == (step in PREPARATION)


def test_other_noise_changes_no_word_before_the_masks_are_opened():
    given = case(samples=3)
    other = given.with_noise(0, given.noises[0] + 1)
    one, two = (run(which, number=1, keys=(5, 6)) for which in (given, other))
    for (step, arrays), (_, others) in zip(one.said[0], two.said[0], strict=True):
        if step == "block/products":
            assert (arrays[0] == others[0]).all()  # e
            assert (arrays[4] != others[4]).any()  # the shifts
            break
        assert all((a == b).all() for a, b in zip(arrays, others, strict=True)), step


SECRETS = [
    lambda p: p.garbled.inputs.shares,
    lambda p: p.garbled.inputs.threshold,
    lambda p: p.garbled.masks,
    lambda p: p.garbled.labels,
    *(lambda p, i=i: p.garbled.words[i] for i in range(3)),
    lambda p: p.evaluated.r,
    lambda p: p.evaluated.tables,
    lambda p: p.evaluated.out,
    *(lambda p, i=i: p.evaluated.words[i] for i in range(3)),
    lambda p: p.second.bit,
    lambda p: p.second.mac,
    lambda p: p.second.key,
]


def assert_wiped(prepared) -> None:
    assert not any(secret(prepared).any() for secret in SECRETS)


@pytest.mark.parametrize("ending", ["finished", "hung up", "caught"])
def test_secrets_are_overwritten_whatever_the_end(ending):
    given = case()
    both = prepared_pair(given)
    assert all(secret(both[0]).any() for secret in SECRETS)
    counts = given.shares[0]
    if ending == "hung up":
        steps = answer(both[0], given.task, counts)
        next(steps)
        steps.close()
    else:
        lie = {"block/evaluated": lambda mine, _: mine[1].__ixor__(1)} if ending == "caught" else {}
        parts = (answer(both[i], given.task, given.shares[i]) for i in (0, 1))
        results = play(*parts, liar=1, lies=lie).results
        assert isinstance(results[0], SedmlError) == (ending == "caught")
        assert_wiped(both[1])
    assert_wiped(both[0])


def test_a_share_outlives_the_preparation():
    outcome = run(case())
    for share in outcome.shares:
        assert share.own.any()
        assert share.keys.any()


@pytest.mark.parametrize("ending", ["finished", "under way"])
def test_a_preparation_is_used_once(ending):
    """Its masks are zeros when it was used: the share would go out as it is."""
    given = case()
    both = prepared_pair(given)
    first = [answer(both[i], given.task, given.shares[i]) for i in (0, 1)]
    if ending == "finished":
        play(*first)
    else:
        next(first[0])
    with pytest.raises(CorrelationReusedError):
        next(answer(both[0], given.task, given.shares[0]))
    if ending == "under way":  # and the first goes on undisturbed
        next(first[1])
        assert both[0].evaluated.r.any()


@pytest.mark.parametrize("what", ["classes", "samples", "task"])
def test_counts_of_another_block_are_refused_before_a_word_is_said(what):
    given = case()
    prepared = prepared_pair(given)[0]
    counts = {"classes": given.shares[0][1:], "samples": given.shares[0][:, 1:]}.get(what, given.shares[0])
    task = replace(given.task, threshold=4) if what == "task" else given.task
    with pytest.raises(InputError, match="not those of the block"):
        next(answer(prepared, task, counts))
    next(answer(prepared, given.task, given.shares[0]))  # and nothing is used up


def test_nothing_shows_a_secret():
    given = case()
    outcome = run(given)
    both = prepared_pair(given, 1)
    for text in (repr(both[0]), repr(outcome.shares[0]), str(outcome.shares)):
        assert "array" not in text


@pytest.mark.parametrize("samples", [1, 2, 3, 8, 9])
def test_the_halves_are_as_large_as_each_other(samples):
    shape = Shape(Task(3, samples, 5, 3, 1.0), Block(0, 0, samples))
    values = np.arange(3 * samples).reshape(3, samples)
    one, other = shape.halves(values)
    assert one.shape == other.shape == (3, -(-samples // 2))
    assert (np.concatenate([one, other], axis=1)[:, :samples] == values).all()
    assert not np.concatenate([one, other], axis=1)[:, samples:].any()


def test_two_attempts_of_a_block_on_two_connections_have_nothing_in_common():
    given = case(samples=2)
    runs = [run(given, ends=sessions(key), number=0) for key in (1, 2)]
    for role in (0, 1):
        words = [{a.tobytes() for _, arrays in one.said[role] for a in arrays if a.nbytes >= 8} for one in runs]
        assert not words[0] & words[1]
