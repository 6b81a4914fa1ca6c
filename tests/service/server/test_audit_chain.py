"""The audit log as a chain: lines come in order, and one that was changed, removed or moved shows."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import sqlalchemy as sa

from sedml.database import Database
from sedml.errors import ConflictError, ForbiddenError, StoreError
from sedml.service.server import audit_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle
from sedml.service.server.ops import health
from sedml.service.server.storage.tables import SCHEMA, audit
from sedml.service.server.storage.vault import Vault
from support.deployment import REQUESTER, deployment, make_ballot, publish, terms_for
from support.tiers import DATABASES, thorough

OPERATOR = Caller("operator-s0", "operator")


@pytest.fixture
def deployed(tmp_path):
    made = deployment(tmp_path)
    yield made
    made.close()


@pytest.fixture
def node(deployed):
    return deployed.nodes[0]


@pytest.fixture
def written(node):
    """A node with five lines."""
    for number in range(1, 6):
        audit_log.record(node, f"actor-{number}", "act", "subject", "done")
    return node


def read_all(node, after=0):
    """All lines after a number, page by page as an operator reads them; and the first that does not fit."""
    found, wrong = [], None
    while True:
        page = audit_log.page(node, OPERATOR, found[-1].number if found else after)
        found += page.entries
        wrong = wrong or page.wrong
        if not page.more:
            return found, wrong


def change(node, *statements):
    """As whoever can write to the database and has no kit."""
    with node.store.write() as connection:
        for statement in statements:
            connection.execute(statement)


def line(number):
    return sa.update(audit).where(audit.c.number == number)


# ---- Order ------------------------------------------------------------------------------------------------------


@thorough
def test_a_line_that_is_committed_late_is_not_missed_on_postgresql(node, postgres):
    """With a number drawn before the commit, whoever read number 2 first would never be shown number 1."""
    node = replace(node, store=Database(postgres.new("audit_order"), 0.2, SCHEMA))
    with node.store.write() as connection:
        audit_log.write(connection, node, "somebody", "first", "x")
        with suppress(StoreError):  # it may have to wait, and gives up soon
            audit_log.record(node, "somebody", "second", "x", "done")
        seen, _ = read_all(node)
    seen += read_all(node, seen[-1].number if seen else 0)[0]
    assert "first" in [entry.action for entry in seen]
    node.store.close()


@pytest.mark.parametrize("database", DATABASES)
def test_many_writers_make_one_chain(database, node, request):
    if database == "postgresql":
        where = request.getfixturevalue("postgres").new("audit_writers")
        node = replace(node, store=Database(where, 30.0, SCHEMA))
    with ThreadPoolExecutor(4) as threads:
        writing = [threads.submit(audit_log.record, node, f"actor-{i}", "act", "x", "done") for i in range(40)]
        seen = []
        while not all(one.done() for one in writing):
            seen += read_all(node, seen[-1].number if seen else 0)[0]
    seen += read_all(node, seen[-1].number if seen else 0)[0]
    assert [entry.number for entry in seen] == list(range(1, 41))
    assert {entry.actor for entry in seen} == {f"actor-{i}" for i in range(40)}
    assert read_all(node)[1] is None
    if database == "postgresql":
        node.store.close()


# ---- Tampering --------------------------------------------------------------------------------------------------


def test_what_was_written_fits(written):
    page = audit_log.page(written, OPERATOR, 2)
    assert [entry.number for entry in page.entries] == [3, 4, 5]
    assert page.wrong is None
    assert (page.head.number, page.head.digest) == (5, page.entries[-1].digest)
    assert health.figures(written)["audit_lines_total"] == 5
    assert len({entry.digest for entry in read_all(written)[0]}) == 5


@pytest.mark.parametrize(
    ("statements", "wrong"),
    [
        ([line(3).values(actor="somebody-else")], 3),
        ([line(3).values(outcome="refused")], 3),
        ([line(3).values(at=0.0)], 3),
        ([line(3).values(digest="0" * 64)], 3),
        ([sa.delete(audit).where(audit.c.number == 3)], 4),
        ([sa.delete(audit).where(audit.c.number == 1)], 2),
        ([sa.delete(audit).where(audit.c.number == 3), line(4).values(number=3), line(5).values(number=4)], 3),
        ([line(2).values(number=9), line(3).values(number=2), line(9).values(number=3)], 2),
        ([line(5).values(digest="")], 5),
    ],
    ids=["actor", "outcome", "time", "digest", "removed", "first", "renumbered", "swapped", "blanked"],
)
def test_a_line_that_was_tampered_with_is_named(written, statements, wrong):
    change(written, *statements)
    assert read_all(written)[1] == wrong
    audit_log.record(written, "somebody", "act", "subject", "done")  # and a new one hides nothing
    assert read_all(written)[1] == wrong


def test_a_page_fits_the_line_before_it(written, monkeypatch):
    monkeypatch.setattr(audit_log, "_PAGE", 2)
    assert read_all(written)[1] is None
    change(written, sa.delete(audit).where(audit.c.number == 3))
    assert read_all(written)[1] == 4


def test_a_chain_under_another_key_does_not_fit(written):
    forger = replace(written, vault=Vault(bytes(32)))
    change(written, sa.delete(audit).where(audit.c.number > 3))
    audit_log.record(forger, "actor-4", "act", "subject", "done")
    assert read_all(written)[1] == 4


def test_lines_cut_off_at_the_end_show_only_by_the_head(written):
    before = audit_log.page(written, OPERATOR, 0).head
    change(written, sa.delete(audit).where(audit.c.number > 3))
    after = audit_log.page(written, OPERATOR, 0)
    assert after.wrong is None
    assert after.head.number < before.number
    for _ in range(2):
        audit_log.record(written, "somebody", "act", "subject", "done")
    again = audit_log.page(written, OPERATOR, 0).head
    assert again.number == before.number
    assert again.digest != before.digest


def test_blanking_all_digests_leaves_a_line_that_tells(written, deployed):
    before = audit_log.page(written, OPERATOR, 0).head
    change(written, sa.update(audit).values(digest=""), line(3).values(actor="somebody-else"))
    written.close()
    node = deployed.sites[0].start()
    found, wrong = read_all(node)
    assert wrong is None
    assert (found[-1].actor, found[-1].action, found[-1].outcome) == ("s0", "chain", "5 lines")
    assert found[before.number - 1].digest != before.digest
    node.close()
    assert len(read_all(deployed.sites[0].start())[0]) == 6


# ---- Ballots and labels -----------------------------------------------------------------------------------------


def test_ballots_and_fetches_are_on_record(deployed, monkeypatch):
    monkeypatch.setattr("sedml.protocol.task._BLOCK_ANDS", 1)  # blocks of 8 samples
    terms, rng = terms_for(16), random.Random(1)
    ballot = make_ballot("teacher-1", np.zeros(16, np.int16), terms, rng)
    for node in deployed.nodes:
        publish(node, terms)
        ballot.send(node, terms.id)
        ballot.send(node, terms.id)  # the same again is no second vote
        with pytest.raises(ConflictError):
            make_ballot("teacher-1", np.ones(16, np.int16), terms, rng).send(node, terms.id)
        lifecycle.close(node, REQUESTER, terms.id)
    assert deployed.meet(terms.id) == ["done", "done"]
    node = deployed.nodes[0]
    for _ in range(2):
        for block in (0, 1):
            lifecycle.label_share(node, REQUESTER, terms.id, block)
    lifecycle.label_share(node, REQUESTER, terms.id, 1)
    found, wrong = read_all(node)
    assert wrong is None
    told = [(entry.actor, entry.action, entry.subject, entry.outcome) for entry in found]
    assert [one for one in told if one[1] == "vote"] == [("teacher-1", "vote", terms.id, "done")]
    fetched = [("requester-1", "fetch", terms.id, f"from block {block}") for block in (0, 0, 1)]
    assert [one for one in told if one[1] == "fetch"] == fetched


def test_labels_are_not_handed_out_if_that_cannot_be_put_on_record(deployed, monkeypatch):
    terms, rng = terms_for(8), random.Random(1)
    ballot = make_ballot("teacher-1", np.zeros(8, np.int16), terms, rng)
    for node in deployed.nodes:
        publish(node, terms)
        ballot.send(node, terms.id)
        lifecycle.close(node, REQUESTER, terms.id)
    deployed.meet(terms.id)

    def fail(*_):
        raise StoreError("The disk is full.", "Make room.")

    with monkeypatch.context() as patch:
        patch.setattr(audit_log, "record", fail)
        for _ in range(2):
            with pytest.raises(StoreError):
                lifecycle.label_share(deployed.nodes[0], REQUESTER, terms.id, 0)
    assert lifecycle.label_share(deployed.nodes[0], REQUESTER, terms.id, 0)
    assert read_all(deployed.nodes[0])[0][-1].action == "fetch"


@pytest.mark.parametrize("role", ["teacher", "requester"])
def test_only_operators_read_it(node, role):
    with pytest.raises(ForbiddenError):
        audit_log.page(node, Caller("somebody", role), 0)
