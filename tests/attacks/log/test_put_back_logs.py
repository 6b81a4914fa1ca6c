"""A log that was put back, and what a server would make of that: another log for whom it likes."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import anyio
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import ConflictError, LogError, UnreachableError
from sedml.service.client import Operator
from sedml.service.client.log_reading import seen
from sedml.service.client.log_summary import complaints, plain_log
from sedml.service.client.witnessing import witness
from sedml.service.kits import ClientKit
from sedml.service.log.merkle import Tree
from sedml.service.log.notes import Checkpoint, parse
from sedml.service.server import peer_log, public_log
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import log
from support.cli_calls import invoke
from support.deployment import conflict_of
from support.log_lies import accept_restored, alarms, as_server, put_back_one, restart, size, teacher
from support.snapshots import keep


def grow(made, node, count=8):
    for _ in range(count):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()


def put_back_and_accepted(made, kits, kept, work):
    """S1 is put back, and the operator of S0 knows why."""
    work.mkdir()
    put_back_one(made, 1, kept, work)
    with pytest.raises(LogError):
        made.greet()
    accept_restored(kits, made.nodes[0])
    made.greet()
    made.greet()


@pytest.fixture
def put_back(parties, deployed, kits, data_file, tmp_path):
    """S1's log before it was put back, as it could show it to a teacher for good: a new job is not in it."""
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    keep(made, tmp_path / "kept")
    grow(made, node)
    head = public_log.head(node, 0)
    with node.store.read() as connection:
        tree = Tree(log_rows.hashes(connection, 0))
    teacher(kits).log()
    put_back_and_accepted(made, kits, tmp_path / "kept", tmp_path / "first")

    def old(real, node, seen):
        size = parse(head.checkpoint)[0].size
        path = tree.consistency(seen, size) if seen <= size else []
        return head.model_copy(update={"consistency": [one.hex() for one in path]})

    return old


@pytest.mark.filterwarnings("ignore:.*was put back")
@pytest.mark.parametrize("number", [1, 2])  # who has gone over, and who came later
def test_nobody_goes_back_to_the_log_from_before(parties, deployed, kits, data_file, monkeypatch, put_back, number):
    secret = parties.create(data_file).id
    assert secret in {one.what["job"] for one in teacher(kits, number).log()["s1"].public("job")}
    kit = ClientKit.load(kits / f"teacher-{number:03}")
    newest = seen(kit, "s1")
    as_server(monkeypatch, public_log, "head", 1, put_back)
    for who in (lambda: teacher(kits, number).log(), lambda: anyio.run(witness, kit)):
        with pytest.raises(LogError, match="does not extend what it has shown this kit before"):
            who()
    assert seen(kit, "s1") == newest


@pytest.mark.filterwarnings("ignore:.*was put back")
def test_who_missed_one_that_was_put_back_goes_on_after_the_second(deployed, kits, tmp_path, put_back):
    put_back_and_accepted(deployed._made, kits, tmp_path / "kept", tmp_path / "second")
    told = complaints(teacher(kits).log(), deployed._made.clock())
    assert sum("S0 says that the log of S1 was put back" in one for one in told) == 2
    assert "doubtful" not in " ".join(told)


def test_an_operator_accepts_what_it_was_told_and_nothing_else(parties, deployed, kits, data_file):
    """S1 leaves out its newest entries, and rewrites all once the operators have spoken."""
    made, node, honest = deployed._made, deployed.s1.node, deployed.s0.node
    parties.create(data_file)
    grow(made, node, 2)

    def change(how):
        with node.store.write() as connection:
            connection.execute(how)
            log_rows.keep(connection, "own", None)
        restart(node)
        with pytest.raises(LogError):
            made.greet()

    change(sa.delete(log).where(log.c.actor == "x"))
    shown, wanted = conflict_of(honest), Operator(kits / "operator-s0")
    with pytest.raises(ConflictError, match=f"--accept-restored {shown.size}:{shown.root}"):
        wanted.accept_restored(shown.size, "0" * 64)
    told = f"{shown.size}:{shown.root}"
    assert f"--accept-restored {told}" in "".join(invoke("log", "--kit", kits / "operator-s0").output.split("\n"))
    assert invoke("log", "--kit", kits / "operator-s0", "--accept-restored", told).exit_code == 0
    change(sa.update(log).values(hash=bytes(32)))
    assert alarms(honest) == ["s1", "s1"], "what it shows now is not what was accepted"


def test_who_alternates_fills_no_log_and_its_forks_stay_for_all_to_see(parties, deployed, kits, data_file, monkeypatch):
    """S1 shows a forged log and the true one by turns."""
    made, honest = deployed._made, deployed.s0.node
    parties.create(data_file)
    for count in range(1, 10):

        def forged(real, node, connection, root=bytes([count]) * 32):
            return Checkpoint(node.kit.log_signer.name, real(node, connection).size, root)

        with monkeypatch.context() as patch:
            as_server(patch, public_log, "checkpoint_of", 1, forged)
            with pytest.raises(LogError):
                made.greet()
        made.greet()
        assert public_log.head(honest, 0).conflict is None, "none is accepted later"
    assert alarms(honest) == ["s1"] * 4, "of the first, second, fourth and eighth"
    forks = public_log.head(honest, 0).forks
    for fork in forks:
        public_log.peer_verifier(honest, public_log.head(honest, 0).certificates["s1"]).check(fork)
    assert [parse(fork)[0].root[0] for fork in forks] == [1, 2, 3, 4, 6, 7, 8, 9], "the first, and the newest"
    found = teacher(kits).log()
    assert any("S1 has signed two logs that do not fit together" in one for one in complaints(found, made.clock()))
    assert plain_log(found, made.clock())["servers"]["s0"]["forks"] == forks


@pytest.mark.filterwarnings("ignore:.*was put back")
@pytest.mark.parametrize("rewritten", [False, True])
def test_what_is_left_of_a_log_that_was_put_back_is_proven(parties, deployed, kits, data_file, tmp_path, rewritten):
    """S1 is put back to a backup; or, while it is at it, to one in which it has changed the entry of an older job."""
    made, node, honest = deployed._made, deployed.s1.node, deployed.s0.node
    made.greet()
    before = size(node)
    parties.create(data_file)
    made.greet()
    kept = size(node)
    keep(made, tmp_path / "kept")
    grow(made, node)
    was = size(node)
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    if rewritten:
        with node.store.write() as connection:
            connection.execute(sa.update(log).where(log.c.number == before).values(hash=bytes(32)))
            log_rows.keep(connection, "own", None)
        restart(node)
    with pytest.raises(LogError):
        made.greet()
    proven = before if rewritten else kept
    assert public_log.head(honest, 0).proven == proven
    shown = invoke("log", "--kit", kits / "operator-s0").output
    assert rewritten or f"The first {proven} are proven to be what they were" in " ".join(shown.split())
    now = conflict_of(honest).size
    accept_restored(kits, honest)
    with honest.store.read() as connection:
        entries = connection.execute(sa.select(log.c.entry).where(log.c.action == "restored")).scalars().all()
    [entry] = map(json.loads, entries)
    assert [entry[name]["size"] for name in ("was", "kept", "now")] == [was, proven, now]


def test_a_clock_that_was_set_back_while_a_restore_was_accepted_strands_nobody(
    parties, deployed, kits, data_file, tmp_path
):
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    keep(made, tmp_path / "kept")
    grow(made, node)
    teacher(kits).log()
    (tmp_path / "work").mkdir()
    put_back_one(made, 1, tmp_path / "kept", tmp_path / "work")
    made.clock.jump(hours=-5)
    with pytest.raises(LogError):
        made.greet()
    accept_restored(kits, made.nodes[0])
    made.greet()
    made.greet()
    with pytest.warns(UserWarning, match="was put back"):
        teacher(kits).log()


def test_a_doubted_clock_dates_no_cosignature(parties, deployed, data_file):
    """It has jumped ahead by years, and nobody has said yet that this is so."""
    made, node = deployed._made, deployed.s0.node
    parties.create(data_file)
    made.greet()
    before = made.clock().timestamp()
    made.clock.jump(days=4000)
    public_log.record(deployed.s1.node, "x", "y", "z", "w")
    peer = deployed.s1.node
    with node.store.write() as connection, peer.store.read() as shown:
        checkpoint = public_log.checkpoint_of(peer, shown)
        signed = f"{checkpoint.text}\n{peer.kit.log_signer.verifier.line(peer.kit.log_signer.sign(checkpoint))}"
        time, _ = peer_log.cosign(connection, node, checkpoint, signed, "", grown=False)
    assert time <= before + 60


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=200), st.data())
def test_of_many_heads_a_few_are_kept_that_are_never_far_off(steps, data):
    """However the log has grown: of a log that has lost its end, all but twice as much can be proven."""
    sizes = list(itertools.accumulate(steps))
    kept: list[peer_log.Head] = []
    for one in sizes:
        kept = peer_log.thinned([(one, b""), *kept])
        assert len(kept) <= 2 * max(1, one.bit_length()) + 2
    found = [one for one, _ in kept]
    assert found == sorted(found, reverse=True)
    assert {sizes[-1], sizes[0]} <= set(found)
    left = data.draw(st.integers(sizes[0], sizes[-1]))
    provable = max(one for one in found if one <= left)
    cosigned = max(one for one in sizes if one <= left)
    assert provable == cosigned or sizes[-1] - provable <= 2 * (sizes[-1] - left)


def test_a_witness_without_an_account_tells_of_a_log_that_was_put_back(
    parties, deployed, kits, data_file, tmp_path, monkeypatch
):
    made = deployed._made
    parties.create(data_file)
    keep(made, tmp_path / "kept")
    grow(made, deployed.s1.node)
    monkeypatch.chdir(tmp_path)
    servers = ("--servers", "s0.example:8440,s1.example:8441", "--ca", kits / "s0" / "ca.pem", "--out", "watcher")
    invoke("enrol", "watcher", "--role", "requester", *servers)
    answers = [UnreachableError("S0 does not answer.", "Try again."), None]

    async def cosign(kit):
        if error := answers.pop(0) if answers else None:
            raise error
        return await witness(kit)

    def pause(_):
        if not answers:
            put_back_one(made, 1, tmp_path / "kept", tmp_path)

    monkeypatch.setattr("sedml.service.client.witnessing.witness", cosign)
    monkeypatch.setattr("sedml.cli.log.time", SimpleNamespace(sleep=pause))
    result = invoke("witness", "--kit", "watcher", "--interval", 5)
    assert result.exit_code == 3
    assert "Trying again" in result.output
    assert "does not extend" in result.output
