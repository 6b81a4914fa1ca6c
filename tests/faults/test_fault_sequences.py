"""Votes, replays, half-votes, lost answers, crashes at every step and cut links: every vote counts exactly once.

Two kinds of runs, on real stores with the real code of both servers: one in which a fault strikes at every kind of
point of a job's life in turn (with `SEDML_FAULT_POINTS=all` at *every* point), and random sequences from a seed that
is printed when one fails (`SEDML_FAULT_SEED` runs it alone, `SEDML_FAULT_RUNS` more of them). `make faults` runs all.
Whatever happens, afterwards:

- the roster is exactly the teachers that both servers have acknowledged under one name;
- the labels are those of the ideal functionality for these votes and the noise on record;
- every server charged the job once, and settled it to what was answered;
- every run of a block had the same inputs and said the same, and no mask was used at two places
  (`support.link_record`).
"""

import os
import random
from itertools import product

import numpy as np
import pytest

from sedml.protocol.drawn_noise import DrawnNoise
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
SET_UP = {"ot/base", "ot/trees"}
"""Steps in which the servers make what all their randomness comes from."""
INSIDE = {"write", "record"}
"""Points of one server alone; all others are messages."""


@pytest.fixture
def all_pass(monkeypatch):
    """Noise that lets every sample pass, so that all jobs have the same steps."""
    draw = DrawnNoise.threshold
    monkeypatch.setattr(DrawnNoise, "threshold", lambda *which: np.abs(draw(*which)) + 1)


def struck_at(deployed, role, kind, point, protocol="fused"):
    """A job with this one fault; at which step it struck."""
    play = Play(deployed, random.Random(point), 2, SAMPLES, protocol)
    faults = deployed.sites[role].faults
    try:
        faults.arm(point, kind)
        whole_job(play)
        play.check()
    except BaseException:
        print(f"role {role}, {kind} point {point}: {faults.struck}")  # noqa: T201
        raise
    return faults.struck


def points_of_a_job(deployed, role, protocol="fused"):
    """The names of all points of a server at which something can happen to it, in order."""
    play = Play(deployed, random.Random(0), 2, SAMPLES, protocol)
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
    messages = [point for point, name in enumerate(names) if name not in INSIDE]
    if kind == "cut":
        return messages
    ends = [point + 1 + (names[point + 1 : point + 2] == ["record"]) for point in messages]
    followed = {point for point, end in zip(messages, ends, strict=True) if end in messages}
    return [point for point in range(len(names)) if point not in followed]


def of_each_kind(names, kind, role):
    """Of what comes again in every block, between the same neighbours, S0 takes the first and S1 the last.

    Before a point is nearly after the one before it, and whoever loses the link, the other does too: of these faults
    each role takes half, for their time. So it does of those after entries in the record, which both make alike.
    """
    points = differ(names, kind)
    if ALL_POINTS:
        return points
    first, last = names.index("ot/extend"), len(names) - names[::-1].index("saved")
    alike = {}
    for point in points:
        what = names[point - 1 : point + 2] if first < point < last else [point]
        alike.setdefault(tuple(what), []).append(point)
    halved = [where for where in alike.values() if kind != "after" or names[where[0]] == "record"]
    left_out = halved[1 - role :: 2]
    return [where[-role] for where in alike.values() if where not in left_out]


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=thorough) for part in range(1, PARTS))])
@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.usefixtures("all_pass")
def test_a_fault_at_every_point(deployed, role, part):
    names = points_of_a_job(deployed, role)
    steps = {*SET_UP, "agree", "ot/extend", "make/0", "label/0/flip"}
    assert steps | INSIDE <= set(names)
    sweep = [(kind, point) for kind in KINDS for point in of_each_kind(names, kind, role)]
    for kind, point in sweep[part::PARTS]:
        assert struck_at(deployed, role, kind, point) == names[point]


@pytest.mark.parametrize(
    ("role", "kind"), [pytest.param(0, "after", marks=thorough), (1, "before"), pytest.param(1, "cut", marks=thorough)]
)
@pytest.mark.usefixtures("all_pass")
def test_a_fault_at_every_point_of_garbled_circuits(deployed, role, kind):
    """Of one block: what comes before and after is the same for every protocol."""
    names = points_of_a_job(deployed, role, "garbled")
    first, last = names.index("ot/extend"), names.index("saved") + 1
    inside = names[first:last]
    assert {"ot/extend", "make/0", "garbled/masked", "garbled/labels", "garbled/t"} <= set(inside)
    for point in of_each_kind(names, kind, role):
        if first <= point <= last:
            assert struck_at(deployed, role, kind, point, "garbled") == names[point]


def test_every_fault_is_tried_that_leaves_something_else_behind():
    # A message with its entry in the record, one that is followed by a write, and one without an entry.
    names = ["write", "agree", "record", "threshold/ask", "record", "record", "write", "saved"]
    assert differ(names, "before") == [0, 1, 2, 3, 4, 5, 6, 7]
    assert differ(names, "after") == [0, 2, 3, 4, 5, 6, 7]
    assert differ(names, "cut") == [1, 3, 7]


def test_every_kind_of_point_is_struck():
    block = ["ot/extend", "record", "threshold/ask", "record", "write", "saved"]
    names = ["write", "write", "agree", "record", *block, *block, "record", "write", "done"]
    both = [of_each_kind(names, "before", role) for role in (0, 1)]
    assert {names[point] for points in both for point in points} == set(names)
    assert not set(both[0]) & set(both[1])
    after = [of_each_kind(names, "after", role) for role in (0, 1)]
    for points in after:
        assert {0, 1, 17, 18} <= set(points), "what a server writes once is struck at both"
        assert {names[point] for point in points} >= {"write", "record", "saved"}
    assert {3, 16} <= set(after[0]) | set(after[1])
    assert [8 in points for points in after] == [True, False], "each in a block of its own"
    assert [14 in points for points in after] == [False, True]


@pytest.mark.parametrize("kind", ["before", *(pytest.param(kind, marks=thorough) for kind in ("after", "cut"))])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.usefixtures("all_pass")
def test_a_fault_in_a_set_up_with_nothing_kept(newly_set_up, role, kind):
    names = points_of_a_job(newly_set_up, role)
    points = [point for point, name in enumerate(names) if name in SET_UP]
    assert [struck_at(newly_set_up, role, kind, point) for point in points] == [names[point] for point in points]
    assert {names[point] for point in points} == SET_UP


@pytest.mark.parametrize(
    ("block", "protocol"),
    [pytest.param(0, "fused", marks=thorough), (1, "fused"), pytest.param(1, "garbled", marks=thorough)],
)
@pytest.mark.usefixtures("all_pass")
def test_label_shares_of_one_run_are_put_together(deployed, block, protocol):
    """Whichever server kept its share in which run: what one of them alone has is worth nothing."""
    for savers in product((0, 1), repeat=3):
        play = Play(deployed, random.Random(0), 2, SAMPLES, protocol)
        saved_by_one_alone(play, block, savers)
        play.check()


@thorough
@pytest.mark.parametrize("protocol", ["fused", "garbled"])
@pytest.mark.usefixtures("all_pass", "far_apart")
def test_label_shares_of_blocks_that_were_under_way_together_are_put_together(deployed, protocol):
    """Whatever was said in the others when one block broke off, they say it again."""
    for block, savers in product((0, 2), [(0,), (1,), (0, 1), (1, 0, 0)]):
        play = Play(deployed, random.Random(0), 2, 4 * 8, protocol)
        saved_by_one_alone(play, block, savers)
        assert play.task().block_count == 4
        play.check()


def live_through(deployed, seed, samples, protocol):
    rng = random.Random(seed)
    play = Play(deployed, rng, rng.randrange(2, 6), rng.randrange(*samples), protocol)
    try:
        random_life(play)
        play.check()
    except BaseException:
        print(f"repeat with SEDML_FAULT_SEED={seed}")  # noqa: T201
        raise


@pytest.mark.usefixtures("far_apart")
def test_random_sequences_with_several_blocks_under_way(deployed):
    for seed in SEEDS[: PER_TEST // 3]:
        live_through(deployed, seed, (9, 60), "garbled" if seed % 2 else "fused")


@pytest.mark.parametrize("batch", BATCHES)
def test_random_sequences(deployed, batch):
    for seed in SEEDS[batch : batch + PER_TEST]:
        live_through(deployed, seed, (1, 20), "garbled" if seed % 3 == 2 else "fused")
