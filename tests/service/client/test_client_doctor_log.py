"""The doctor and the servers' logs: a line for each, and the kit remembers no more than it would of a vote."""

from __future__ import annotations

import json

import anyio
import pytest

from sedml.errors import LogError
from sedml.service.client.checkup import examine
from sedml.service.client.log_reading import keys_of, seen
from sedml.service.kits import ClientKit
from sedml.service.server import peer_log, public_log
from sedml.service.server.link import cosigning
from support.cli_calls import invoke
from support.client_parties import VOTES
from support.deployment import conflict_of
from support.log_lies import accept_restored, as_server, put_back_one, size, teacher
from support.snapshots import keep


def logs(kits, name="teacher-001"):
    found = {check.what: check for check in anyio.run(examine, kits / name)}
    return [found[what] for what in ("S0 log", "S1 log") if what in found]


def remembered(kits, name="teacher-001"):
    kit = ClientKit.load(kits / name)
    return keys_of(kit), seen(kit, "s0"), seen(kit, "s1")


@pytest.fixture
def cosigned(deployed):
    deployed._made.greet()
    return deployed._made


@pytest.fixture
def put_back(cosigned, kits, tmp_path):
    """S1 was put back to before what a teacher has seen of its log, and S0 does not cosign that."""
    keep(cosigned, tmp_path / "kept")
    for _ in range(8):
        public_log.record(cosigned.nodes[1], "x", "y", "z", "w")
    cosigned.greet()
    teacher(kits).log()
    put_back_one(cosigned, 1, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        cosigned.greet()
    return cosigned


def test_logs_that_are_in_order_take_a_line_each(cosigned, kits):
    for check, node in zip(logs(kits), cosigned.nodes, strict=True):
        assert (check.verdict, check.do) == ("PASS", "")
        assert check.found.startswith(f"{size(node)} entries, cosigned by S")
        assert check.found.endswith(" s ago")
    told = json.loads(invoke("doctor", "--kit", kits / "teacher-001", "--json").stdout)["checks"]
    assert [check["verdict"] for check in told if check["what"].endswith(" log")] == ["PASS", "PASS"]
    [own] = logs(kits, "operator-s1")
    assert (own.what, own.verdict) == ("S1 log", "PASS")


def test_the_kit_remembers_what_it_would_of_a_vote(cosigned, kits, parties, data_file):
    job = parties.create(data_file).id
    cosigned.greet()
    logs(kits)
    looked = remembered(kits)
    parties.teacher(2, "vote", job, VOTES)
    assert remembered(kits, "teacher-002") == looked
    assert looked[1].size == size(cosigned.nodes[0]) - 1, "all but the vote"


def test_a_log_that_was_not_cosigned_yet(deployed, kits):
    for check in logs(kits):
        assert (check.verdict, "has not cosigned the log of" in check.found) == ("WARN", True)
        assert "tell both operators" in check.do
    assert remembered(kits) == ({}, None, None)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(-5 * 3600, " 5 h ago. The newest"), (5 * 3600, " at a time that is 5 h from now. The newest")],
)
def test_a_cosignature_that_is_old_or_yet_to_come(deployed, kits, monkeypatch, seconds, told):
    real = peer_log.now
    monkeypatch.setattr(peer_log, "now", lambda node: real(node) + seconds)
    monkeypatch.setattr(cosigning, "_AHEAD", 10**6)  # nobody has been wrong by so much yet
    deployed._made.greet()
    for check in logs(kits):
        assert (check.verdict, told in check.found) == ("WARN", True)
        assert "clock" in check.do


def test_a_log_that_the_other_server_refuses(put_back, kits):
    """To a teacher who has not seen more of it, and to the operator who can accept it."""
    shown = conflict_of(put_back.nodes[0])
    for name in ("teacher-002", "operator-s0"):
        check = logs(kits, name)[0]
        assert check.verdict == "WARN"
        assert f"sedml log --accept-restored {shown.size}:{shown.root}" in check.found
        assert "both operators" in check.do
    assert logs(kits, "teacher-002")[1].verdict == "PASS", "what S1 shows was cosigned once"


def test_a_log_that_does_not_extend_what_was_seen_last(put_back, kits):
    before = remembered(kits)
    check = logs(kits)[1]
    assert check.verdict == "FAIL", "it refuses to vote as well"
    assert "does not extend what it has shown this kit before" in check.found
    assert "tell both operators" in check.do
    assert remembered(kits) == before
    assert invoke("doctor", "--kit", kits / "teacher-001").exit_code == 3


@pytest.mark.filterwarnings("ignore:.*was put back")
def test_a_log_that_was_put_back_and_accepted(put_back, kits):
    accept_restored(kits, put_back.nodes[0])
    put_back.greet()
    check = logs(kits)[1]
    assert (check.verdict, "was put back" in check.found, "`sedml log`" in check.do) == ("WARN", True, True)
    assert logs(kits)[1].verdict == "PASS", "the kit has gone over, as it would before a vote"


def test_a_checkpoint_without_a_good_signature(cosigned, kits, monkeypatch):
    def lie(real, node, seen):
        head = real(node, seen)
        return head.model_copy(update={"checkpoint": head.checkpoint[:-8] + "AAAAAA=\n"})

    as_server(monkeypatch, public_log, "head", 1, lie)
    fine, wrong = logs(kits)
    assert (fine.verdict, wrong.verdict) == ("PASS", "FAIL")
    assert remembered(kits)[2] is None
