"""Votes, replays, half-votes, lost answers, crashes at every step and cut links: every vote counts exactly once.

Two kinds of runs, on real stores with the real code of both servers: one in which a fault strikes at every kind of
point of a job's life in turn (with `SEDML_FAULT_POINTS=all` at *every* point), and random sequences from a seed that
is printed when one fails (`SEDML_FAULT_SEED` runs it alone, `SEDML_FAULT_RUNS` more of them). `make faults` runs all.
Whatever happens, afterwards:

- the roster is exactly the teachers that both servers have acknowledged under one name;
- the labels are those of the ideal functionality for these votes and the noise of the attempts that count;
- every server charged the job once, in full;
- every attempt at a block had the same shares of the votes, and nothing else of it was ever in another
  (`support.link_record`).
"""

import os
import random
from itertools import product

import pytest

from support.deployment import status
from support.fault_play import Play, random_life, saved_by_one_alone, whole_job
from support.tiers import ROLES, thorough

RUNS = int(os.environ.get("SEDML_FAULT_RUNS", "16"))
SEEDS = [int(os.environ["SEDML_FAULT_SEED"])] if "SEDML_FAULT_SEED" in os.environ else range(RUNS)
PER_TEST = 8
BATCHES = [0, *(pytest.param(first, marks=thorough) for first in range(PER_TEST, len(SEEDS), PER_TEST))]
KINDS = ("before", "after", "cut")
PARTS = 3
"""Into which the sweep over all points is divided; each has points of all kinds and from all of a job's life."""
ALL_POINTS = os.environ.get("SEDML_FAULT_POINTS") == "all"
SAMPLES = 9  # in two blocks
SET_UP = "ot/base"
"""The first step in which the servers make what all their randomness comes from."""


def struck_at(deployed, role, kind, point):
    """A job with this one fault; at which step it struck."""
    play = Play(deployed, random.Random(point), 2, SAMPLES)
    faults = deployed.sites[role].faults
    try:
        faults.arm(point, kind)
        whole_job(play)
        play.check()
    except BaseException:
        print(f"role {role}, {kind} point {point}: {faults.struck}")  # noqa: T201
        raise
    return faults.struck


def points_of_a_job(deployed, role):
    """The names of all points of a server at which something can happen to it, in order."""
    play = Play(deployed, random.Random(0), 2, SAMPLES)
    whole_job(play)
    names = list(deployed.sites[role].faults.names)
    play.check()  # which fetches the labels, and that is on record too
    return names


def differ(names, kind):
    """The points where a fault of this kind leaves behind what no other one does.

    Only a message can be cut, so at any other point it is the next message that is. And after a message which another
    one follows, nothing has been written or sent that was not before the next, where "before" strikes.
    """
    if kind == "before":
        return [*range(len(names))]
    messages = {point for point, name in enumerate(names) if name != "write"}
    if kind == "cut":
        return sorted(messages)
    return [point for point in range(len(names)) if point not in messages or point + 1 not in messages]


def of_each_kind(names, kind, role):
    """Of what comes again in every block, between the same neighbours, S0 takes the first and S1 the last.

    Before a point is nearly after the one before it, and whoever loses the link, the other does too: of these faults
    each role takes half, for their time.
    """
    points = differ(names, kind)
    if ALL_POINTS:
        return points
    first, last = names.index("progress"), len(names) - names[::-1].index("saved")
    alike = {}
    for point in points:
        what = names[point - 1 : point + 2] if first < point < last else [point]
        alike.setdefault(tuple(what), []).append(point)
    halved = [where for where in alike.values() if kind != "after"]
    left_out = halved[1 - role :: 2]
    return [where[-role] for where in alike.values() if where not in left_out]


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=thorough) for part in range(1, PARTS))])
@pytest.mark.parametrize("role", ROLES)
def test_a_fault_at_every_point(deployed, role, part):
    names = points_of_a_job(deployed, role)
    assert {"position", "verdict", "progress", "saved", "done", "write"} <= set(names)
    sweep = [(kind, point) for kind in KINDS for point in of_each_kind(names, kind, role)]
    for kind, point in sweep[part::PARTS]:
        assert struck_at(deployed, role, kind, point) == names[point]


def test_every_fault_is_tried_that_leaves_something_else_behind():
    # Two messages in a row, and one that is followed by a write.
    names = ["write", "progress", "prepare", "answer", "write", "saved"]
    assert differ(names, "before") == [0, 1, 2, 3, 4, 5]
    assert differ(names, "after") == [0, 3, 4, 5]
    assert differ(names, "cut") == [1, 2, 3, 5]


def test_every_kind_of_point_is_struck():
    block = ["write", "prepare", "answer", "write", "saved"]
    names = ["write", "write", "progress", *block, *block, "write", "done"]
    both = [of_each_kind(names, "before", role) for role in (0, 1)]
    assert {names[point] for points in both for point in points} == set(names)
    after = [of_each_kind(names, "after", role) for role in (0, 1)]
    for points in after:
        assert {0, 1, 13, 14} <= set(points), "what a server writes once is struck at both"
        assert {names[point] for point in points} >= {"write", "saved"}
    assert [6 in points for points in after] == [True, False], "each in a block of its own"
    assert [11 in points for points in after] == [False, True]


@pytest.mark.parametrize("kind", ["before", *(pytest.param(kind, marks=thorough) for kind in ("after", "cut"))])
@pytest.mark.parametrize("role", ROLES)
def test_a_fault_in_a_set_up_with_nothing_kept(newly_set_up, role, kind):
    names = points_of_a_job(newly_set_up, role)
    point = names.index(SET_UP)
    assert struck_at(newly_set_up, role, kind, point) == SET_UP


@thorough
@pytest.mark.parametrize("block", [0, 1])
def test_label_shares_of_one_attempt_are_put_together(deployed, block):
    """Whichever server kept its share in which attempt: what one of them alone has is worth nothing."""
    for savers in product((0, 1), repeat=3):
        play = Play(deployed, random.Random(0), 2, SAMPLES)
        saved_by_one_alone(play, block, savers)
        assert [status(deployed, role, play.job).extra_attempts for role in (0, 1)] == [3, 3]
        play.check()


@thorough
@pytest.mark.usefixtures("far_apart")
def test_label_shares_of_blocks_that_were_under_way_together_are_put_together(deployed):
    """Whatever was said in the others when one block broke off, they begin again too, unless both had saved them."""
    for block, savers in product((0, 2), [(0,), (1,), (0, 1), (1, 0, 0)]):
        play = Play(deployed, random.Random(0), 2, 4 * 8)
        saved_by_one_alone(play, block, savers)
        assert play.task().block_count == 4
        play.check()


def live_through(deployed, seed, samples):
    rng = random.Random(seed)
    play = Play(deployed, rng, rng.randrange(2, 6), rng.randrange(*samples))
    try:
        random_life(play)
        play.check()
    except BaseException:
        print(f"repeat with SEDML_FAULT_SEED={seed}")  # noqa: T201
        raise


@thorough
@pytest.mark.usefixtures("far_apart")
def test_random_sequences_with_several_blocks_under_way(deployed):
    for seed in SEEDS[: PER_TEST // 3]:
        live_through(deployed, seed, (9, 60))


@thorough
@pytest.mark.parametrize("batch", BATCHES)
def test_random_sequences(deployed, batch):
    for seed in SEEDS[batch : batch + PER_TEST]:
        live_through(deployed, seed, (1, 20))
