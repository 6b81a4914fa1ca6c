"""Whole jobs: ids, blocks, costs, and what happens to a server that cheats."""

from __future__ import annotations

import numpy as np
import pytest

from sedml.errors import CheatingError
from sedml.lab.paper.lab_run import run_counts
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.semi_honest import semi_honest_servers
from sedml.lab.semi_honest import two_noise_task as task_module
from sedml.lab.semi_honest.check_and_label_noise import fresh_noise
from sedml.lab.semi_honest.semi_honest_block import recipes
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.bits import packed_size
from sedml.mpc.channel import memory_pair
from sedml.mpc.channel.frame import HEADER_SIZE
from sedml.mpc.ot.extension import SPENT, Extension
from sedml.protocol.votes import histogram
from support.harness import Tap, numbers
from support.made import Liar, shared_trees
from support.semi_honest import loaders_of, run_whole_job, secure, zero_parts

TERMS = {"classes": 10, "samples": 100, "teachers": 20, "threshold": 12, "sigma1": 4.0, "sigma2": 2.0}


@pytest.fixture
def quick_set_up(monkeypatch):
    """The two servers have met before."""

    def met(role):
        yield from ()
        return shared_trees()[role]

    monkeypatch.setattr(semi_honest_servers, "set_up", met)


def mixed_votes(task: Task, key: int = 1) -> np.ndarray:
    rng = numbers(key)
    votes = rng.integers(-1, task.classes, (task.teachers, task.samples))
    return np.where(rng.random(votes.shape) < 0.6, rng.integers(0, task.classes, task.samples), votes)


# Blocks


@pytest.mark.parametrize(("classes", "teachers"), [(2, 1), (10, 250), (100, 50), (1000, 3)])
def test_a_block_takes_no_more_transfers_than_it_may(classes, teachers):
    terms = TERMS | {"classes": classes, "teachers": teachers, "samples": 10**6}
    task = Task(**terms)
    transfers = sum(recipe.transfers for recipe in recipes(task, task.block_samples).values())
    assert 0.2 < transfers / task_module._BLOCK_TRANSFERS <= 1 or task.block_samples == 4096
    assert transfers <= task_module._BLOCK_TRANSFERS


@pytest.mark.parametrize(("classes", "teachers"), [(2, 1), (10, 250), (100, 50), (1000, 3)])
def test_a_block_of_circuits_takes_no_more_room_than_one_of_transfers_may(classes, teachers):
    terms = TERMS | {"classes": classes, "teachers": teachers, "samples": 10**6}
    task = Task(**terms, protocol="garbled")
    assert task.block_samples % 8 == 0
    needs = recipes(task, task.block_samples)
    # Two rows of 16 bytes a transfer; the tables that come and those that go, and the garbler's own labels.
    room = sum(32 * recipe.transfers for recipe in needs.values())
    spec = needs["garbled"]
    room += 2 * 32 * spec.circuit.ands * spec.half + 16 * spec.transfers
    assert 0.1 < room / (32 * task_module._BLOCK_TRANSFERS) <= 1


def test_a_block_has_at_least_eight_samples(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 0)
    task = Task(**TERMS)
    assert task.block_samples == 8
    assert task.block_count == 13
    assert [block.samples for block in task.blocks] == [8] * 12 + [4]


# Jobs


def test_a_whole_job_from_set_up_to_labels_is_ideal():
    task = LabTask(**TERMS)
    counts = histogram(mixed_votes(task), task.classes)
    run = run_counts(task, counts)
    assert run.is_ideal(counts)
    assert (run.labels != -1).any()
    assert run.stats.offline.seconds > 0
    assert run.stats.offline.bytes > 0


def test_what_is_made_before_the_votes_costs_what_the_recipes_say():
    task = Task(**TERMS)
    result, _ = secure(task, mixed_votes(task), zero_parts(10, 100))
    needs = recipes(task, 100)
    n = -(-sum(recipe.transfers for recipe in needs.values()) // 128) * 128
    duels = sum(packed_size(3 * rows * 100, task.widths.label) for rows in (5, 2, 1, 1))  # rho of each
    frames = [32 + 128 * 64, 6144, 31 * (n + SPENT) // 8 + 48, duels]
    assert result.stats.offline.rounds == len(frames)
    assert result.stats.offline.bytes == 2 * sum(size + HEADER_SIZE for size in frames)


def test_set_up_is_done_once_for_a_job_and_transfers_are_never_used_again(quick_set_up, monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 0)
    ends, extend = {}, Extension.extend

    def noted(self, count):
        transfers = yield from extend(self, count)
        ends.setdefault(id(self), (self, []))[1].append(transfers)
        return transfers

    monkeypatch.setattr(Extension, "extend", noted)
    task = Task(**TERMS | {"samples": 20})
    links = [Tap(channel) for channel in memory_pair(task.id)]
    result, want = secure(task, mixed_votes(task), zero_parts(10, 20), channels=tuple(links))
    assert (result.labels == want).all()
    assert len(ends) == 2
    assert len({end._label for end, _ in ends.values()}) == 1
    assert [block for block, step in links[0].steps if step == "ot/extend"] == [0, 1, 2]
    for _, own in ends.values():
        numbered = np.concatenate([np.arange(part.first, part.first + len(part.choices)) for part in own])
        assert (numbered == np.arange(numbered.size)).all()
        rows = np.concatenate([rows for part in own for rows in (part.received, part.sent)])
        assert len(np.unique(rows, axis=0)) == len(rows)


def test_two_jobs_of_the_same_servers_have_no_row_in_common(quick_set_up, monkeypatch):
    seen, extend = [], Extension.extend

    def noted(self, count):
        seen.append((yield from extend(self, count)))
        return seen[-1]

    monkeypatch.setattr(Extension, "extend", noted)
    task = Task(**TERMS | {"samples": 3}, nonce="the same")
    for _ in range(2):
        secure(task, mixed_votes(task), zero_parts(10, 3))
    # Apart, for a row that one server sends is, for choice 0, the very row that the other receives.
    for rows in ([part.received for part in seen], [part.sent for part in seen]):
        assert len(np.unique(np.concatenate(rows), axis=0)) == sum(map(len, rows))


# Cheats


@pytest.mark.parametrize("role", [0, 1])
@pytest.mark.parametrize(
    ("step", "part"),
    [("ot/base", 0), ("ot/base", 1), ("ot/trees", 1), ("ot/trees", 2), ("ot/extend", 0), ("ot/extend", 1)],
)
def test_a_job_with_a_server_that_cheats_ends_with_that_error(step, part, role):
    task = Task(**TERMS | {"samples": 3})
    ends = list(memory_pair(task.id))

    def change(arrays):
        arrays[part].reshape(-1)[0] ^= 1
        if step == "ot/base":
            arrays[part].reshape(-1)[:32] = 0

    ends[role] = Liar(ends[role], step, change)
    loaders = loaders_of(task, histogram(mixed_votes(task), task.classes))
    with pytest.raises(CheatingError):
        run_whole_job(task, loaders, fresh_noise(task), channels=tuple(ends))


def test_a_cheat_in_a_later_block_ends_the_job_too(quick_set_up, monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 0)
    task = Task(**TERMS | {"samples": 30})
    ends, blocks = list(memory_pair(task.id)), []
    loaders = loaders_of(task, histogram(mixed_votes(task), task.classes))

    def change(arrays):
        blocks.append(len(blocks))
        arrays[0][3, 2] ^= len(blocks) == 3

    ends[0] = Liar(ends[0], "ot/extend", change)
    with pytest.raises(CheatingError, match="Nothing of this block"):
        run_whole_job(task, loaders, fresh_noise(task), channels=tuple(ends))
    assert blocks == [0, 1, 2]


def test_everything_that_is_made_is_used_where_all_samples_pass(quick_set_up, monkeypatch):
    made, make = [], semi_honest_servers.make

    def noted(*arguments):
        made.append((yield from make(*arguments)))
        return made[-1]

    monkeypatch.setattr(semi_honest_servers, "make", noted)
    task = Task(**TERMS)
    result, _ = secure(task, np.full((20, 100), 3), zero_parts(10, 100))
    assert (result.labels == 3).all()
    assert len(made) == 2
    assert all(not one._pieces for one in made)
