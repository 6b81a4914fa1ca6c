"""What passes for an excuse, for an accusation or for somebody's having seen a log, and is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest
import sqlalchemy as sa

from sedml.errors import LogError
from sedml.service.client import AsyncTeacher
from sedml.service.client.log_summary import complaints
from sedml.service.client.witnessing import check_witnessed, read_vkey, witness
from sedml.service.kits import ClientKit
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import log
from support.cli_calls import invoke
from support.client_parties import Job, Model
from support.log_lies import accept_restored, as_server, put_back_one, restart, size, teacher
from support.snapshots import keep


def test_what_is_proven_excuses_nobody_who_saw_something_else(parties, deployed, kits, data_file, tmp_path):
    """S0 was put back and has forgotten what S1 rewrites; a small restore that its operator accepts covers that."""
    made, s0, s1 = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "kept")
    before = size(s1)
    for _ in range(3):
        public_log.record(s1, "x", "y", "z", "w")
    made.greet()
    saw = teacher(kits).log()["s1"].checkpoint
    put_back_one(made, 0, tmp_path / "kept", tmp_path)
    with s1.store.write() as connection:
        connection.execute(sa.delete(log).where(log.c.number >= before))
        log_rows.keep(connection, "own", None)
    restart(s1)
    for _ in range(8):
        public_log.record(s1, "x", "y", "z", "w")
    made.greet()
    (tmp_path / "two").mkdir()
    keep(made, tmp_path / "two" / "kept")
    public_log.record(s1, "x", "y", "z", "w")
    made.greet()
    put_back_one(made, 1, tmp_path / "two" / "kept", tmp_path / "two")
    with pytest.raises(LogError):
        made.greet()
    assert public_log.head(s0, 0).proven >= saw.size
    accept_restored(kits, s0)
    made.greet()
    made.greet()
    with pytest.raises(LogError, match="does not extend what it has shown this kit before"):
        teacher(kits).log()


@pytest.mark.parametrize("shown", ["hello", "nothing", "an old one"])
def test_nobody_is_accused_of_two_logs_on_somebodys_word(parties, deployed, data_file, kits, monkeypatch, shown):
    parties.create(data_file)
    deployed._made.greet()
    with deployed.s0.node.store.read() as connection:
        old = log_rows.kept(connection, "peer")[0]
    parties.create(data_file, title="x")
    deployed._made.greet()
    fork = "hello" if shown == "hello" else old
    as_server(monkeypatch, public_log, "head", 0, lambda real, node, n: real(node, n).model_copy(update={"fork": fork}))
    assert complaints(teacher(kits).log(), deployed._made.clock()) == []


def test_a_restore_that_is_undone_is_no_fork(parties, deployed, kits, data_file, tmp_path):
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "kept")
    for _ in range(5):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()
    keep(made, tmp_path / "new")
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        made.greet()
    for name in ("now", "mixed"):
        shutil.rmtree(tmp_path / name)
    put_back_one(made, 1, tmp_path / "new", tmp_path)
    made.greet()
    assert not any("signed two logs" in one for one in complaints(teacher(kits).log(), made.clock()))


@pytest.mark.parametrize("kind", ["other id", "same id"])
def test_a_server_cannot_spoil_the_note_of_a_witness(parties, deployed, kits, data_file, monkeypatch, kind):
    parties.create(data_file)
    deployed._made.greet()
    watcher, kit = ClientKit.load(kits / "teacher-004"), ClientKit.load(kits / "teacher-001")
    s0 = deployed.s0.node.kit.log_signer.verifier

    def planted(real, node, seen):
        head = real(node, seen)
        line = f"— {s0.name} AAAAAAAA\n" if kind == "other id" else s0.line(bytes(64), 1)
        return head.model_copy(update={"checkpoint": head.checkpoint + line})

    as_server(monkeypatch, public_log, "head", 1, planted)
    [_, note] = anyio.run(witness, watcher)
    assert check_witnessed(kit, teacher(kits).log()["s1"], note.note, read_vkey(note.vkey)) > 1


def test_a_witness_that_is_shown_an_old_log_vouches_for_no_later_one(parties, deployed, kits, data_file, monkeypatch):
    """Both servers show it one checkpoint for ever, and a job that came hours ago is not in it."""
    made = deployed._made
    made.greet()
    old = [public_log.head(node, 0).checkpoint for node in made.nodes]
    parties.create(data_file)
    made.greet()
    found, watcher, kit = (
        teacher(kits).log(),
        ClientKit.load(kits / "teacher-004"),
        ClientKit.load(kits / "teacher-001"),
    )

    def head(node, seen, real=public_log.head):
        return real(node, seen).model_copy(update={"checkpoint": old[node.role], "consistency": []})

    cosigned, later = made.clock().timestamp(), made.clock().timestamp() + 3 * 3600

    class Later:
        @staticmethod
        def now(zone):
            return made.clock().fromtimestamp(later, zone)

    with monkeypatch.context() as patch:
        patch.setattr(public_log, "head", head)
        patch.setattr("sedml.service.client.witnessing.datetime", Later)
        with pytest.warns(UserWarning, match="was cosigned 3 hours ago"):
            notes = anyio.run(witness, watcher)
    for note in notes:
        assert check_witnessed(kit, found[note.server], note.note, read_vkey(note.vkey)) <= cosigned + 1
    note = notes[0]
    shown = invoke("log", "--kit", kits / "teacher-001", "--witnessed", note.path, "--witness-key", note.vkey)
    assert f"saw the first {note.checkpoint.size} of these " in " ".join(shown.output.split())


@pytest.mark.filterwarnings("ignore")
def test_a_witness_from_before_a_restore_accuses_nobody(parties, deployed, kits, data_file, tmp_path):
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "kept")
    for _ in range(6):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()
    [_, note] = anyio.run(witness, ClientKit.load(kits / "teacher-004"))
    held = ("--witnessed", note.path, "--witness-key", note.vkey)
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        made.greet()
    refused = invoke("log", "--kit", kits / "teacher-001", *held)
    assert refused.exit_code == 3, "nobody has said yet that it was put back"
    accept_restored(kits, made.nodes[0])
    made.greet()
    made.greet()
    for _ in range(9):
        public_log.record(node, "p", "y", "z", "w")
    made.greet()
    shown = invoke("log", "--kit", kits / "teacher-001", *held)
    assert shown.exit_code == 0
    told = " ".join(shown.output.split())
    assert (
        f"saw {note.checkpoint.size} entries of the log of S1, before it was put back, as S0 has it on record" in told
    )
    alone = invoke("log", "--kit", kits / "operator-s1", *held)
    assert alone.exit_code == 3
    assert "was shown a forged log, or an old one" in " ".join(alone.output.split())


def test_an_excuse_is_asked_for_once(parties, deployed, kits, data_file, tmp_path, monkeypatch):
    """S1 was put back, and proves to one teacher that its log extends nothing at all."""
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    keep(made, tmp_path / "kept")
    for _ in range(4):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()
    teacher(kits).log()
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        made.greet()
    accept_restored(kits, deployed.s0.node)
    made.greet()
    made.greet()
    asked = []

    def wrong(real, node, seen):
        asked.append(seen)
        assert len(asked) < 5, "it asks for ever"
        return real(node, seen).model_copy(update={"consistency": ["00" * 32]})

    as_server(monkeypatch, public_log, "head", 1, wrong)
    with pytest.warns(UserWarning, match="was put back"), pytest.raises(LogError, match="does not extend"):
        teacher(kits).log()


def test_clocks_that_were_wrong_and_are_set_right_stop_nothing(deployed):
    """Both were ahead by more than a year, so that each has confirmed the other."""
    made = deployed._made
    made.clock.jump(days=400)
    for node in made.nodes:
        node.time.hear(made.clock().timestamp())
    public_log.record(deployed.s0.node, "x", "y", "z", "w")
    made.greet()
    made.clock.reset()
    for node in made.nodes:
        node.time.hear(made.clock().timestamp())
    public_log.record(deployed.s0.node, "x", "y", "z", "w")
    made.greet()
    with deployed.s0.node.store.read() as connection:
        public_log.check_cosigned(deployed.s0.node, connection, size(deployed.s0.node) - 1)


async def told(folder: Path, steps: list) -> list[str]:
    """What a watch says; in its pauses the steps happen, one after the other."""
    found, stream = [], AsyncTeacher(folder).watch(Model(), max_epsilon=1e6, max_total_epsilon=1e9, interval=0.01)
    for step in [None, *steps]:
        if step is not None:
            await anyio.to_thread.run_sync(step)
        found.append((await anext(stream)).what)
    return found


def test_who_watches_votes_once_a_log_that_was_put_back_is_accepted(parties, deployed, kits, data_file, tmp_path):
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "kept")
    public_log.record(node, "x", "y", "z", "w")
    made.greet()
    teacher(kits).log()
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        made.greet()

    def accepted():
        accept_restored(kits, deployed.s0.node)
        made.greet()
        made.greet()

    with pytest.warns(UserWarning, match="was put back"):
        assert anyio.run(told, kits / "teacher-001", [accepted]) == ["away", "voted"]


def test_a_requester_cannot_tell_the_jobs_of_others_from_votes(parties, deployed, kits, data_file):
    job = Job(parties, data_file).id
    deployed.close(job)
    for server in deployed.servers:
        page = public_log.page(server.node, Caller("requester-2", "requester"), 0)
        hidden = [one for one in page.entries if one.entry is None]
        assert len(hidden) > 3
        assert all((one.line, one.opened) == (None, None) for one in hidden)
        assert not [one for one in page.entries if one.entry == "" and one.opened is None]
