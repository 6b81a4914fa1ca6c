"""Ballots that arrive at once are put on disk together, and each is judged as if it had come alone."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sedml.errors import RateLimitedError, RevokedError, SedmlError, StoreError
from sedml.mpc.prg import SEED_BYTES
from sedml.service.log.entries import entry_hash
from sedml.service.messages import OwnLimit
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import charges, lifecycle, voting
from sedml.service.server.ops import accounts
from sedml.service.server.storage.tables import ballot_pages, ballots
from sedml.service.server.storage.vault import page_label
from sedml.service.server_messages import Enrolment
from support.deployment import REQUESTER, make_ballot, publish, terms_for

OPERATOR = Caller("operator-s0", "operator")
TEACHERS = ("alice", "bob", "carol")
REVOKED = Caller("mallory", "teacher", "0" * 64)
LIMITED = Caller("larry", "teacher")
CALLERS = (*(Caller(name, "teacher") for name in TEACHERS), REVOKED, LIMITED, REQUESTER)
UNKNOWN = "f" * 32
_TIGHT = 7.04  # hardly more than the accounting keeps to: no job here fits


@pytest.fixture
def server_settings():
    return {"max_open_jobs": 10_000, "max_open_jobs_per_requester": 10_000, "max_teachers": 2}


@pytest.fixture
def node(deployed):
    found = deployed.nodes[0]
    accounts.enrol(found, OPERATOR, REVOKED.name, Enrolment(role="teacher", token_hash=REVOKED.token_hash))
    accounts.revoke(found, OPERATOR, REVOKED.name)
    charges.set_limit(found, LIMITED, OwnLimit(limit=_TIGHT))
    return found


def arrived(terms, caller: Caller, kind: str) -> voting.Arrived:
    """A ballot of this caller: one of two, or one that cannot be right."""
    other = kind == "other"
    ballot = make_ballot(caller.name, np.full(8, int(other), np.int16), terms, random.Random(f"{caller.name}/{other}"))
    body, name = ballot.halves[0], ballot.name
    if kind == "short":
        body = body[:-1]
    elif kind == "long":
        body += b"."
    elif kind == "nameless":
        name = "no name"
    elif kind == "changed":
        body = bytes(len(body))
    return voting.Arrived(caller, UNKNOWN if kind == "lost" else terms.id, name, body)


def open_jobs(node):
    """Two that take votes and one whose vote has ended."""
    found = [terms_for(8, title=title) for title in ("first", "second", "closed")]
    for terms in found:
        publish(node, terms)
    lifecycle.close(node, REQUESTER, found[2].id)
    return found


def kind_of(terms, teacher: str, name: str) -> str:
    """Which of a teacher's two ballots has this name."""
    [found] = [kind for kind in ("right", "other") if arrived(terms, Caller(teacher, "teacher"), kind).name == name]
    return found


def seen(terms, outcome):
    if isinstance(outcome, SedmlError):
        return type(outcome), outcome.what, outcome.do
    receipt, new = outcome
    return receipt.teacher, kind_of(terms, receipt.teacher, receipt.ballot), new


def stored(node, terms):
    query = sa.select(ballots.c.teacher, ballots.c.name, ballot_pages.c.sealed).where(ballots.c.job == terms.id)
    same = ballot_pages.c.job == ballots.c.job, ballot_pages.c.teacher == ballots.c.teacher
    with node.store.read() as connection:
        rows = connection.execute(query.where(*same)).all()
    found = {}
    for teacher, name, sealed in rows:
        found[teacher] = kind_of(terms, teacher, name)
        half = arrived(terms, Caller(teacher, "teacher"), found[teacher]).body
        assert node.vault.open(terms.id, page_label(teacher, 0), bytes(sealed)) == half[:SEED_BYTES]
    return found


KINDS = ("right", "right", "right", "other", "short", "long", "nameless", "changed", "lost")
one_ballot = st.tuples(st.sampled_from(CALLERS), st.integers(0, 2), st.sampled_from(KINDS))


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(one_ballot, max_size=6), max_size=4))
def test_many_at_once_are_judged_as_one_after_the_other(node, batches):
    alone, together = open_jobs(node), open_jobs(node)
    for batch in batches:
        for_one = [(alone[job], arrived(alone[job], *what)) for *what, job in order(batch)]
        one_by_one = [seen(terms, voting.accept_ballots(node, [one])[0]) for terms, one in for_one]
        for_all = [(together[job], arrived(together[job], *what)) for *what, job in order(batch)]
        at_once = voting.accept_ballots(node, [one for _, one in for_all])
        assert [seen(terms, outcome) for (terms, _), outcome in zip(for_all, at_once, strict=True)] == one_by_one
    for one, other in zip(alone, together, strict=True):
        assert stored(node, one) == stored(node, other)
        votes = [lifecycle.status(node, REQUESTER, terms.id).votes for terms in (one, other)]
        assert votes == [len(stored(node, one))] * 2


def order(batch):
    return [(caller, kind, job) for caller, job, kind in batch]


def test_many_at_once_are_as_many_entries_of_the_log(node):
    terms = open_jobs(node)
    before = public_log.page(node, OPERATOR, 0).size
    voting.accept_ballots(node, [arrived(terms[job], CALLERS[who], "right") for who, job in ((0, 1), (1, 0), (1, 1))])
    page = public_log.page(node, OPERATOR, before)
    lines = [entry.opened for entry in page.entries]
    assert all(entry.leaf == entry_hash(entry.entry, entry.line).hex() for entry in page.entries)
    assert sorted((line.actor, line.action, line.subject) for line in lines) == sorted(
        (TEACHERS[who], "vote", terms[job].id) for who, job in ((0, 1), (1, 0), (1, 1))
    )


def test_a_job_takes_no_more_ballots_than_it_may_however_many_come_at_once(node):
    terms = open_jobs(node)[0]
    outcomes = voting.accept_ballots(node, [arrived(terms, caller, "right") for caller in CALLERS[:3]])
    assert [isinstance(outcome, RateLimitedError) for outcome in outcomes] == [False, False, True]


def test_whose_token_is_revoked_hears_so_and_holds_up_nobody(node):
    terms = open_jobs(node)[0]
    first, second = voting.accept_ballots(node, [arrived(terms, caller, "right") for caller in (REVOKED, CALLERS[0])])
    assert isinstance(first, RevokedError)
    assert second[1] is True


def test_what_cannot_be_committed_was_taken_from_nobody(node, monkeypatch):
    """All of them or none: a batch whose commit fails acknowledges nothing, and comes again."""
    terms = open_jobs(node)[0]
    both = [arrived(terms, caller, "right") for caller in CALLERS[:2]]
    with monkeypatch.context() as patch:

        def full(*_):
            raise StoreError("The disk is full.", "Make room.")

        patch.setattr(public_log, "write_all", full)
        with pytest.raises(StoreError):
            voting.accept_ballots(node, both)
    assert not stored(node, terms)
    assert [new for _, new in voting.accept_ballots(node, both)] == [True, True]


def test_nothing_is_asked_of_the_store_for_nobody(node):
    assert voting.accept_ballots(node, []) == []
    assert accounts.authenticate_all(node, []) == []


def test_tokens_are_looked_up_together(node):
    accounts.enrol(node, OPERATOR, "dora", Enrolment(role="teacher", token_hash=accounts.token_hash("sedml_dora")))
    found = accounts.authenticate_all(node, ["sedml_dora", None, "sedml_nobody", "x" * 300, "é", "sedml_dora"])
    assert [one.name if isinstance(one, Caller) else type(one).__name__ for one in found] == [
        "dora",
        "MissingTokenError",
        "InvalidTokenError",
        "InvalidTokenError",
        "InvalidTokenError",
        "dora",
    ]
