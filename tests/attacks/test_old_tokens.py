"""Somebody replays old enrolments, or asks for its revoked name as somebody else, to get in with a stolen token.

Enrolments are not secret and name their tokens by their hashes: whoever has seen a kit can send one again, and an
operator who enrols a party anew may well be given the wrong file.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import ConflictError, KitError, SedmlError
from sedml.service.kits import ServerKit, token_hash
from sedml.service.kits.server_kit import Enrolled
from sedml.service.server.access import Caller
from sedml.service.server.ops import accounts
from sedml.service.server_messages import Enrolment
from support.deployment import Clock, Site, deployment, shared_kits
from support.tiers import DATABASES

OPERATOR = Caller("operator-s0", "operator")
TOKENS = [f"sedml_{letter}" for letter in "abcde"]
NAMES = ["anna", "ben"]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    made = deployment(tmp_path_factory.mktemp("accounts"))
    yield made.nodes[0]
    made.close()


@pytest.fixture
def enrolled(node):
    def enrol(name: str, token: str, role: str = "teacher", organisation: str | None = None):
        document = Enrolment(role=role, token_hash=token_hash(token), organisation=organisation)
        return accounts.enrol(node, OPERATOR, name, document)

    return enrol


def good(node, token: str) -> bool:
    [found] = accounts.authenticate_all(node, [token])
    return isinstance(found, Caller)


def test_an_enrolment_from_before_a_rotation_does_not_make_its_token_good_again(node, enrolled):
    enrolled("clara", "sedml_stolen")
    accounts.replace_token(node, Caller("clara", "teacher"), token_hash("sedml_new"))
    accounts.revoke(node, OPERATOR, "clara")
    for old in ("sedml_stolen", "sedml_new"):
        with pytest.raises(ConflictError, match="was revoked or replaced") as refused:
            enrolled("clara", old)
        assert "sedml enrol" in refused.value.do
        with pytest.raises(ConflictError):
            enrolled("clara-2", old)
        assert not good(node, old)
    enrolled("clara", "sedml_fresh")
    assert good(node, "sedml_fresh")
    with pytest.raises(ConflictError):  # nor may a token that is good be replaced by one that was
        accounts.replace_token(node, Caller("clara", "teacher"), token_hash("sedml_stolen"))


@pytest.mark.parametrize("role", ["operator", "requester"])
def test_a_revoked_name_comes_back_as_what_it_was(node, enrolled, role):
    name = f"dora-{role}"
    enrolled(name, f"sedml_{role}_1")
    accounts.revoke(node, OPERATOR, name)
    with pytest.raises(ConflictError, match=f"{name} was a teacher of {name}, and a name stays what it was"):
        enrolled(name, f"sedml_{role}_2", role)
    assert not good(node, f"sedml_{role}_2")


def test_a_revoked_name_does_not_come_back_for_another_organisation(node, enrolled):
    """Its budget would begin anew, and its organisation could vote twice."""
    enrolled("emil", "sedml_emil_1", organisation="clinic")
    accounts.revoke(node, OPERATOR, "emil")
    with pytest.raises(ConflictError, match="a teacher of clinic"):
        enrolled("emil", "sedml_emil_2")
    enrolled("emil", "sedml_emil_2", organisation="clinic")


@pytest.mark.parametrize("replaced", [False, True])
def test_an_older_list_of_accounts_does_not_make_a_token_good_again(tmp_path, replaced):
    """A server enrols those of its kit whom it does not know, and an old copy of the kit may name others."""
    made, gina = deployment(tmp_path), Enrolled("gina", "teacher", token_hash("sedml_gina"))
    site = made.sites[0]
    try:
        made.close()
        site.kit = replace(site.kit, accounts=(gina,))
        site.start()
        accounts.revoke(site.node, OPERATOR, "gina")
        if replaced:
            accounts.enrol(
                site.node, OPERATOR, "gina", Enrolment(role="teacher", token_hash=token_hash("sedml_gina_2"))
            )
        site.node.close()
        site.kit = replace(site.kit, accounts=(replace(gina, name="hugo", role="operator"),))
        with pytest.raises(KitError, match=r"hugo a token that somebody has or had") as refused:
            site.start()
        assert "sedml enrol" in refused.value.do
    finally:
        made.close()


def test_an_older_list_of_accounts_gives_no_organisation_a_second_teacher(tmp_path):
    """As `sedml account add` does not either: it would have two ballots on every job."""
    made = deployment(tmp_path)
    site = made.sites[0]
    try:
        teacher = Enrolment(role="teacher", token_hash=token_hash("sedml_new"), organisation="ida")
        accounts.enrol(site.node, OPERATOR, "ida-2", teacher)
        made.close()
        site.kit = replace(site.kit, accounts=(Enrolled("ida", "teacher", token_hash("sedml_ida")),))
        with pytest.raises(KitError, match="its organisation has the account ida-2") as refused:
            site.start()
        assert "revoke ida-2" in refused.value.do
        site.kit = replace(site.kit, accounts=(Enrolled("ida", "requester", token_hash("sedml_ida")),))
        site.start()
    finally:
        made.close()


@pytest.mark.parametrize("database", DATABASES)
def test_an_organisation_that_enrols_many_times_at_once_gets_one_teacher(tmp_path, request, database):
    place = {} if database == "sqlite" else {"database": request.getfixturevalue("postgres").new("enrolling")}
    site = Site(ServerKit.load(shared_kits() / "s0"), {"data_dir": tmp_path, **place}, Clock())
    site.start()
    start, names = threading.Barrier(8), [[f"{clinic}-{number}" for number in range(8)] for clinic in "abcdef"]

    def enrol(name: str) -> bool:
        start.wait()
        document = Enrolment(role="teacher", token_hash=token_hash(name), organisation=name[0])
        try:
            return accounts.enrol(site.node, OPERATOR, name, document)[1]
        except ConflictError:
            return False

    try:
        with ThreadPoolExecutor(8) as pool:
            assert [sum(pool.map(enrol, of_one)) for of_one in names] == [1] * len(names)
    finally:
        site.node.close()


@pytest.mark.parametrize("database", DATABASES)
def test_an_enrolment_that_is_sent_again_while_it_is_under_way_is_taken_once(tmp_path, request, database):
    place = {} if database == "sqlite" else {"database": request.getfixturevalue("postgres").new("again")}
    site = Site(ServerKit.load(shared_kits() / "s0"), {"data_dir": tmp_path, **place}, Clock())
    site.start()
    start = threading.Barrier(8)

    def enrol(name: str) -> bool:
        start.wait()
        return accounts.enrol(site.node, OPERATOR, name, Enrolment(role="teacher", token_hash=token_hash(name)))[1]

    try:
        with ThreadPoolExecutor(8) as pool:
            assert [sum(pool.map(enrol, [name] * 8)) for name in ("anna", "bert", "cleo")] == [1] * 3
    finally:
        site.node.close()


def test_nobody_fills_the_disk_with_tokens(node, enrolled, monkeypatch):
    monkeypatch.setattr(accounts, "_MOST_TOKENS", 3)
    enrolled("fred", "sedml_fred_0")
    for number in range(1, 4):
        accounts.replace_token(node, Caller("fred", "teacher"), token_hash(f"sedml_fred_{number}"))
    with pytest.raises(ConflictError, match="has had 3 tokens"):
        accounts.replace_token(node, Caller("fred", "teacher"), token_hash("sedml_fred_4"))
    assert good(node, "sedml_fred_3")


steps = st.lists(
    st.tuples(
        st.sampled_from(["enrol", "rotate", "revoke"]),
        st.sampled_from(NAMES),
        st.sampled_from(TOKENS),
        st.sampled_from(["teacher", "requester"]),
    ),
    max_size=14,
)
_runs = iter(range(10**6))


@settings(max_examples=60, deadline=None)
@given(steps)
def test_whatever_happens_a_token_that_was_good_for_somebody_is_good_once(node, played):
    """Each stretch of time in which a token is good is its only one, and it is always the same account's."""
    run = next(_runs)
    holders: dict[str, str] = {}
    over: set[str] = set()
    roles: dict[str, str] = {}
    for what, plain_name, plain_token, role in played:
        name, token = f"{plain_name}-{run}", f"{plain_token}-{run}"
        try:
            if what == "enrol":
                accounts.enrol(node, OPERATOR, name, Enrolment(role=role, token_hash=token_hash(token)))
                assert roles.setdefault(name, role) == role
            elif what == "rotate" and name in holders.values():
                accounts.replace_token(node, Caller(name, roles[name]), token_hash(token))
            elif what == "revoke":
                accounts.revoke(node, OPERATOR, name)
        except SedmlError:
            continue
        now = {}
        for one in (f"{plain}-{run}" for plain in TOKENS):
            [found] = accounts.authenticate_all(node, [one])
            if isinstance(found, Caller):
                now[one] = found.name
        assert not over & now.keys()
        over |= holders.keys() - now.keys()
        assert all(now.get(one, holder) == holder for one, holder in holders.items())
        holders = now
