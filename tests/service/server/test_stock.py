"""Randomness made while a vote is open: used once, by both or by neither, and never in the way of a job."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from sedml.errors import ReplayError
from sedml.protocol import task as task_module
from sedml.service.server.jobs import lifecycle
from sedml.service.server.jobs.records import get
from sedml.service.server.link import link_quality
from sedml.service.server.ops import health
from sedml.service.server.run import blocks, meeting, runner, stock
from sedml.service.server.run.transcript import Transcript
from sedml.service.states import JobState
from support.deployment import (
    REQUESTER,
    Crash,
    deployment,
    expected_labels,
    fetch_labels,
    make_ballot,
    publish,
    recorded_noise,
    states,
    terms_for,
)
from support.kept_base_ots import kept_base_ots
from support.rogue import cheat

TEACHERS, SAMPLES = 4, 28
OFFLINE = {"ot/base", "ot/trees", "ot/extend", "make/0", "make/1", "make/2", "make/3"}
PROTOCOLS = pytest.mark.parametrize("protocol", ["fused", "garbled"])
BLOCKS = 4


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 8)
    monkeypatch.setattr("sedml.mpc.ot.base_ot.base_ots", kept_base_ots())
    monkeypatch.setattr(stock, "_QUIET", 0.0)


@pytest.fixture
def deployed(tmp_path):
    made = deployment(tmp_path, keep_inputs="1d")
    yield made
    made.close()


class Vote:
    """A job whose vote is open, and all that is true of it in the end."""

    def __init__(self, deployed, protocol="fused", samples=SAMPLES):
        self.deployed, self.rng = deployed, random.Random(3)
        self.terms = terms_for(samples, protocol=protocol)
        self.votes = []
        for node in deployed.nodes:
            publish(node, self.terms)
        for _ in range(TEACHERS):
            self.vote()

    @property
    def id(self):
        return self.terms.id

    def vote(self):
        votes = np.array([self.rng.randrange(-1, self.terms.classes) for _ in range(self.terms.samples)], np.int16)
        ballot = make_ballot(f"teacher-{len(self.votes)}", votes, self.terms, self.rng)
        for node in self.deployed.nodes:
            ballot.send(node, self.id)
        self.votes.append(votes)

    def stocked(self):
        assert self.deployed.meet(self.id) == ["wait", "wait"]
        return [node.stocks.ready(self.id) for node in self.deployed.nodes]

    def close(self):
        for node in self.deployed.nodes:
            lifecycle.close(node, REQUESTER, self.id)

    def steps(self, meeting_number):
        """What was said at a meeting."""
        return {where[3] for where, when in self.deployed.sent.items() if meeting_number in when}

    def check(self):
        assert states(self.deployed, self.id) == (JobState.DONE, JobState.DONE)
        with self.deployed.nodes[0].store.read() as connection:
            task = get(connection, self.id).task
        labels = fetch_labels(self.deployed, self.id, task)
        expected = expected_labels(task, np.stack(self.votes), recorded_noise(self.deployed, self.id, task))
        assert np.array_equal(labels, expected)
        self.deployed.link.check()
        assert not any(node.stocks.ready() for node in self.deployed.nodes)


@PROTOCOLS
def test_a_run_only_pays_for_what_needs_the_votes(deployed, protocol):
    vote = Vote(deployed, protocol)
    assert [[len(one.blocks) for one in side] for side in vote.stocked()] == [[BLOCKS], [BLOCKS]]
    assert deployed.nodes[0].stocks.ready(vote.id)[0].name == deployed.nodes[1].stocks.ready(vote.id)[0].name
    assert vote.id not in runner.calling(deployed.nodes[1])
    vote.close()
    assert deployed.meet(vote.id) == ["done", "done"]
    assert not OFFLINE & vote.steps(2)
    assert {"agree", "count", "saved"} <= vote.steps(2)
    vote.check()


def test_it_is_counted_and_goes_with_the_job(deployed):
    vote = Vote(deployed)
    assert health.figures(deployed.nodes[0])["stock_bytes"] == 0
    vote.stocked()
    figures = health.figures(deployed.nodes[0])
    assert figures["stock_blocks"] == BLOCKS
    assert 0 < figures["stock_bytes"] <= deployed.nodes[0].settings.stock_bytes
    for node in deployed.nodes:
        lifecycle.delete(node, REQUESTER, vote.id)
        stock.sweep(node)
        assert not node.stocks.ready()


def test_it_can_be_taken_once(deployed):
    vote = Vote(deployed)
    vote.stocked()
    node = deployed.nodes[0]
    assert node.stocks.take(vote.id) is not None
    assert node.stocks.take(vote.id) is None


def test_nothing_of_it_is_written_down(deployed):
    vote = Vote(deployed)
    [found], _ = vote.stocked()
    secret = found.blocks[0]._pieces
    parts = [piece.tobytes()[:32] for pieces in secret.values() for piece in pieces.values() if piece.nbytes >= 32]
    parts = [part for part in parts if any(part)]
    assert parts
    folder = deployed.nodes[0].settings.data_dir
    for path in (one for one in folder.rglob("*") if one.is_file()):
        content = path.read_bytes()
        assert found.name not in content
        assert not any(part in content for part in parts)


@pytest.mark.parametrize("role", [0, 1])
def test_a_server_that_was_started_anew_has_none_and_both_make_all_afresh(deployed, role):
    vote = Vote(deployed)
    vote.stocked()
    deployed.sites[role].restart()
    vote.close()
    assert deployed.meet(vote.id) == ["done", "done"]
    assert OFFLINE - {"make/2", "make/3"} <= vote.steps(2)
    vote.check()


def test_one_more_vote_spoils_it_and_it_is_made_for_one_more(deployed):
    vote = Vote(deployed)
    [before], _ = vote.stocked()
    vote.vote()
    [after], _ = vote.stocked()
    assert after.name != before.name
    vote.vote()
    vote.close()
    assert deployed.meet(vote.id) == ["done", "done"]
    assert {"ot/base", "ot/extend"} <= vote.steps(3)
    vote.check()


def test_servers_that_have_not_as_many_ballots_make_none(deployed):
    vote = Vote(deployed)
    ballot = make_ballot("half", np.zeros(SAMPLES, np.int16), vote.terms, vote.rng)
    ballot.send(deployed.nodes[0], vote.id)
    assert vote.stocked() == [[], []]
    vote.close()
    assert deployed.meet(vote.id) == ["done", "done"]
    vote.check()


def test_it_takes_no_more_memory_than_it_may(deployed):
    vote = Vote(deployed)
    size = max(one.blocks[0].size for side in vote.stocked() for one in side)
    for site, room in zip(deployed.sites, (2.5, 3.5), strict=True):
        site.node = replace(site.node, settings=site.node.settings.model_copy(update={"stock_bytes": int(room * size)}))
        site.node.stocks.take(vote.id)
    other = Vote(deployed)
    assert [[len(one.blocks) for one in side] for side in other.stocked()] == [[2], [2]]
    other.close()
    assert deployed.meet(other.id) == ["done", "done"]
    assert "ot/extend" in other.steps(deployed.meetings)
    assert "ot/base" not in other.steps(deployed.meetings)
    other.check()


def test_none_is_made_where_there_is_no_room_for_any(deployed):
    for site in deployed.sites:
        site.node = replace(site.node, settings=site.node.settings.model_copy(update={"stock_bytes": 0}))
    vote = Vote(deployed)
    assert vote.id not in runner.calling(deployed.nodes[1])
    deployed.nodes[1].peer.differs_on({vote.id})  # it calls all the same
    assert vote.stocked() == [[], []]


# ---- Faults ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "role", "kind"), [("fused", 0, "after"), ("garbled", 1, "before"), ("garbled", 0, "cut")]
)
def test_a_fault_in_a_run_that_begins_with_a_stock(deployed, protocol, role, kind):
    """It is said again word for word, under the same masks, or given up before anything was said under them."""
    faults, point, struck = deployed.sites[role].faults, {"after": 0, "before": 1, "cut": 2}[kind], []
    while True:
        deployed.link.clear()
        vote = Vote(deployed, protocol, samples=9)
        vote.stocked()
        vote.close()
        faults.arm(point, kind)
        for _ in range(6):
            if deployed.meet(vote.id) in (["done", "done"], [None, None]):
                break
        hit, faults.struck = faults.struck, None
        faults.arm(None)
        vote.check()
        if hit is None:
            break
        struck.append(hit)
        point += 3  # not all of them, for their time
    assert len(set(struck)) > 3


@PROTOCOLS
@pytest.mark.parametrize("broken", [1, 3, 5])
def test_several_blocks_under_way_begin_with_a_stock_of_some_and_are_repeated(deployed, protocol, broken, monkeypatch):
    monkeypatch.setattr(link_quality, "under_way", lambda *_: 3)
    monkeypatch.setattr(stock, "_room", lambda _: 3)  # blocks, if each has the size 1
    monkeypatch.setattr(stock.MadeRandomness, "size", property(lambda _: 1))
    vote, save, crashes = Vote(deployed, protocol, samples=48), blocks.save, []

    def crash(node, record, block, *rest):
        if block.index == broken and len(crashes) < 2:
            crashes.append(node.role)
            raise Crash
        save(node, record, block, *rest)

    [found], _ = vote.stocked()
    assert len(found.blocks) == 3
    vote.close()
    monkeypatch.setattr(blocks, "save", crash)
    for _ in range(5):
        if deployed.meet(vote.id) in (["done", "done"], [None, None]):
            break
    assert crashes
    vote.check()


@pytest.mark.parametrize("step", ["ot/base", "ot/extend", "make/0", "stock/more"])
@pytest.mark.parametrize("role", [0, 1])
def test_a_stock_that_breaks_off_is_made_again(deployed, role, step):
    vote, faults = Vote(deployed), deployed.sites[role].faults
    original = faults.cuts
    faults.cuts = lambda name: name == step
    deployed.meet(vote.id)
    faults.cuts = original
    assert not deployed.nodes[0].stocks.ready(vote.id) or not deployed.nodes[1].stocks.ready(vote.id)
    assert all(vote.stocked())
    vote.close()
    assert deployed.meet(vote.id) == ["done", "done"]
    assert "ot/base" not in vote.steps(deployed.meetings)
    vote.check()


@pytest.mark.parametrize("role", [0, 1])
def test_a_run_on_record_with_a_stock_does_not_go_on_without_that_record(deployed, role, monkeypatch):
    """One server saves its first block and crashes; the other has lost the name of the stock."""
    vote = Vote(deployed)
    vote.stocked()
    vote.close()
    save = blocks.save

    def crash(node, *rest):
        if node.role == role:
            raise Crash
        save(node, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(blocks, "save", crash)
        deployed.meet(vote.id)
    [path] = deployed.nodes[role].transcripts.glob(f"{vote.id}.*")
    path.write_bytes(b"")
    deployed.meet(vote.id)
    assert JobState.FAILED in states(deployed, vote.id)


@pytest.mark.parametrize("role", [0, 1])
def test_a_server_that_hangs_up_and_comes_back_without_its_stock_gets_no_second_answer(deployed, role):
    """It would be told the same under other masks, for inputs that it is free to change."""
    vote = Vote(deployed)
    vote.stocked()
    vote.close()
    first = cheat(deployed, vote.id, role, until=(0, "count"))
    assert (0, "count") in first.messages
    assert (0, "ot/base") not in first.messages
    again = cheat(deployed, vote.id, role, until=(0, "count"))
    assert (0, "agree") not in again.messages
    assert states(deployed, vote.id)[1 - role] is JobState.FAILED


def test_a_stock_is_given_up_only_while_the_other_has_said_nothing(deployed):
    vote = Vote(deployed)
    vote.stocked()
    vote.close()
    assert deployed.meet(vote.id) == ["done", "done"]
    node = deployed.nodes[0]
    with node.store.read() as connection:
        record = get(connection, vote.id)
    key = meeting._record_key(node, record, blocks.read_inputs(node, record, record.task))
    with Transcript(meeting._record_path(node, record), key) as transcript:
        assert transcript.stock is not None
        assert transcript.binding
        with pytest.raises(ReplayError):
            transcript.give_up_stock()
