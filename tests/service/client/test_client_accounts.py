"""Accounts and tokens: what an operator does, and a replacement that no crash can spoil."""

import anyio
import pytest

from sedml.errors import InvalidTokenError, KitError, RevokedError, UnreachableError
from sedml.service.client import Operator, Teacher
from sedml.service.client.administration import rotate
from sedml.service.kits import ClientKit, enrol, load_enrolment, new_token, save_token
from sedml.service.server.ops.accounts import authenticate_all
from support.stage import ADDRESSES
from support.wire import Fail


def load(kits, name):
    return ClientKit.load(kits / name)


def test_an_operator_enrols_lists_and_revokes_at_its_own_server(deployed, kits, tmp_path):
    operator = Operator(kits / "operator-s1")
    enrol(tmp_path / "new", "clinic-7", "teacher", ADDRESSES, kits / "s0" / "ca.pem")
    document = load_enrolment(tmp_path / "new" / "enrolment.json")
    assert operator.add_account(document).name == "clinic-7"
    assert "clinic-7" not in deployed.s0.accounts
    Operator(kits / "operator-s0").add_account(document)
    assert Teacher(tmp_path / "new").jobs() == []
    assert {account.name for account in operator.accounts()} >= {"clinic-7", "teacher-001"}
    assert operator.revoke_account("clinic-7").revoked_at is not None
    with pytest.raises(RevokedError):
        Teacher(tmp_path / "new").jobs()


def test_accounts_are_an_operators_business(deployed, kits):
    with pytest.raises(KitError, match="requester"):
        Operator(kits / "requester-1")


def test_a_rotation_replaces_the_tokens_at_both_servers_and_in_the_kit(deployed, kits):
    before = load(kits, "teacher-001")
    after = anyio.run(rotate, before)
    assert after == load(kits, "teacher-001")
    for name in ("s0", "s1"):
        assert after.servers[name].token != before.servers[name].token
        assert after.servers[name].previous_token is None
        tokens = [kit.servers[name].token for kit in (before, after)]
        refused, taken = authenticate_all(getattr(deployed, name).node, tokens)
        assert isinstance(refused, InvalidTokenError)
        assert taken.name == "teacher-001"
    assert Teacher(kits / "teacher-001").jobs() == []
    with pytest.raises(InvalidTokenError):
        Teacher(before).jobs()


@pytest.mark.parametrize("server", ["s0", "s1"])
@pytest.mark.parametrize("how", [Fail.LOSE, Fail.REFUSE, Fail.LATE, Fail.CUT_BODY])
@pytest.mark.parametrize("times", [1, 4])
def test_a_rotation_that_broke_off_leaves_a_kit_that_works_and_is_finished_later(deployed, kits, server, how, times):
    getattr(deployed, server).fault("PUT /v1/token", how, times=times)
    try:
        anyio.run(rotate, load(kits, "teacher-001"))
        finished = True
    except UnreachableError:
        finished = False
    assert finished == (times == 1)
    assert Teacher(kits / "teacher-001").jobs() == []
    after = anyio.run(rotate, load(kits, "teacher-001"))
    assert [access.previous_token for access in after.servers.values()] == [None, None]
    assert Teacher(kits / "teacher-001").jobs() == []


def test_a_crash_before_the_server_was_told_is_healed(deployed, kits):
    kit = save_token(load(kits, "teacher-001"), "s0", new_token())
    assert Teacher(kits / "teacher-001").jobs() == []
    after = anyio.run(rotate, kit)
    assert after.servers["s0"].token == kit.servers["s0"].token
    assert after.servers["s0"].previous_token is None


def test_a_crash_after_the_server_was_told_is_healed(deployed, kits):
    kit = save_token(load(kits, "teacher-001"), "s0", new_token())
    deployed.s0.replace_token("teacher-001", kit.servers["s0"].token)
    assert Teacher(kits / "teacher-001").jobs() == []
    after = anyio.run(rotate, kit)
    assert after.servers["s0"].token == kit.servers["s0"].token
    assert len(deployed.s0.bodies("PUT /v1/token")) == 0


def test_a_revoked_party_cannot_rotate_and_keeps_its_kit(deployed, kits):
    Operator(kits / "operator-s0").revoke_account("teacher-001")
    with pytest.raises(RevokedError):
        anyio.run(rotate, load(kits, "teacher-001"))
    assert load(kits, "teacher-001").servers["s0"].previous_token is not None
