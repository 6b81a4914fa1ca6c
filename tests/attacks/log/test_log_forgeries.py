"""What a server would show or say of its log that is not so, to clients and to the other server."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

import anyio
import pytest
import sqlalchemy as sa

from sedml.errors import ConflictError, LogError
from sedml.service.client.async_client import AsyncClient
from sedml.service.client.evidence_document import evidence
from sedml.service.client.log_summary import complaints
from sedml.service.client.witnessing import check_witnessed, read_vkey, witness
from sedml.service.kits import ClientKit
from sedml.service.log.notes import Checkpoint
from sedml.service.messages import LogEntry, OwnLimit
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import charges, lifecycle
from sedml.service.server.link import cosigning
from sedml.service.server.ops import accounts
from sedml.service.server.storage.tables import log
from sedml.service.server_messages import Enrolment
from support.cli_calls import invoke
from support.client_parties import VOTES, Job
from support.log_lies import alarms, as_server, logging_otherwise, size, teacher


def leaf(node, number):
    with node.store.read() as connection:
        return bytes(connection.execute(sa.select(log.c.hash).where(log.c.number == number)).scalar_one()).hex()


@pytest.mark.parametrize("how", ["hidden", "forged", "forged line"])
def test_a_bare_hash_vouches_for_no_entry(parties, deployed, kits, data_file, monkeypatch, how):
    """S1 shows the right hash, and another charge or none with it."""
    deployed.close(Job(parties, data_file).id)

    def lie(real, node, caller, start):
        page = real(node, caller, start)
        for place, one in enumerate(page.entries):
            if '"kind":"charge"' in (one.entry or ""):
                forged = json.dumps(json.loads(one.entry) | {"epsilon": 0.001})
                shown = {"hidden": {}, "forged": {"entry": forged}, "forged line": {"entry": forged, "line": one.line}}
                page.entries[place] = LogEntry(number=one.number, leaf=leaf(node, one.number), **shown[how])
        return page

    as_server(monkeypatch, public_log, "page", 1, lie)
    with pytest.raises(LogError, match=r"does not show entry|not what was written"):
        teacher(kits).log()


@pytest.mark.parametrize("role", [0, 1])
def test_a_job_that_is_logged_for_another_cohort_gets_no_vote_and_is_listed(
    parties, deployed, kits, data_file, monkeypatch, role
):
    with monkeypatch.context() as patch:
        logging_otherwise(patch, role, "job", cohort="x")
        job = parties.create(data_file).id
    deployed._made.greet()
    with pytest.raises(LogError, match="something else"):
        teacher(kits).vote(job, VOTES)
    client = AsyncClient(ClientKit.load(kits / "teacher-001"))
    found = anyio.run(evidence, client, None, "teachers")
    assert [job in dict(one.rows) for one in found.sections if one.title.startswith("Every job")] == [True]
    assert f'The two logs differ about job {job}, in the entry "job".' in found.facts["log"]["complaints"]
    shown = invoke("log", "--kit", kits / "teacher-001")
    assert shown.exit_code == 1


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("roster", {"teachers": 400}, 'in the entry "roster"'),
        ("charge", {"epsilon": 0.001}, 'in the entry "charge"'),
        ("charge", {}, "S1 has no charge"),
        ("labels", {}, "S1 has no labels"),
    ],
)
def test_what_one_log_says_and_the_other_does_not_is_told(
    parties, deployed, kits, data_file, monkeypatch, kind, change, told
):
    job = Job(parties, data_file).id
    with monkeypatch.context() as patch:
        logging_otherwise(patch, 1, kind, **change)
        deployed.close(job)
    deployed._made.greet()
    assert told in " ".join(complaints(teacher(kits).log(), datetime.now(UTC) + timedelta(minutes=5)))


def test_a_charge_that_is_in_a_log_twice_is_told(parties, deployed, kits, data_file):
    deployed.close(Job(parties, data_file).id)
    node = deployed.s1.node
    with node.store.write() as connection:
        row = connection.execute(sa.select(log).where(log.c.action == "start")).mappings().one()
        public_log.write(connection, node, "s1", "start", row["subject"], entry=json.loads(row["entry"]))
    deployed._made.greet()
    told = complaints(teacher(kits).log(), datetime.now(UTC))
    assert f"S1 has more than one charge of job {row['subject']} in its log." in told
    assert invoke("log", "--kit", kits / "teacher-001").exit_code == 1


def test_a_log_without_an_end_is_not_read(parties, deployed, kits, data_file, monkeypatch):
    """S1 has a root cosigned of more entries than anybody can write: a proof of that needs no entries."""
    parties.create(data_file)
    deployed._made.greet()
    node, honest = deployed.s1.node, deployed.s0.node.kit.log_signer
    beside = bytes(32)

    def lie(real, node, seen):
        head = real(node, seen)
        checkpoint, signer = Checkpoint(node.kit.log_signer.name, 2**60, beside), node.kit.log_signer
        lines = signer.verifier.line(signer.sign(checkpoint)) + honest.verifier.line(honest.cosign(checkpoint, 1), 1)
        return head.model_copy(update={"checkpoint": f"{checkpoint.text}\n{lines}", "consistency": []})

    def page(real, node, caller, start):
        pytest.fail("a page was asked for")

    for file in (kits / "teacher-001" / "log").glob("*.note"):
        file.unlink()
    as_server(monkeypatch, public_log, "head", 1, lie)
    as_server(monkeypatch, public_log, "page", 1, page)
    with pytest.raises(LogError, match="more than are read at a time"):
        teacher(kits).log()
    assert node.role == 1


def test_a_server_accuses_itself_only_of_what_it_has_signed(parties, deployed, data_file, monkeypatch):
    """S1 says again and again that it has seen more of S0's log, and cosigns it all the same."""
    made, node = deployed._made, deployed.s0.node
    parties.create(data_file)
    before, first, once, padded = size(node), threading.local(), cosigning._once, cosigning._bytes

    def known(node, channel):
        first.of_s1 = node.role == 1
        return once(node, channel)

    def claim(content, length):
        lie, first.of_s1 = first.of_s1, False
        return padded((2**40).to_bytes(8) + content[8:] if lie else content, length)

    def examine(real, node, known, shown):
        signature = node.kit.log_signer.cosign(shown.checkpoint, 1)
        return cosigning._Verdict.COSIGNED, 1, signature

    with monkeypatch.context() as patch:
        patch.setattr(cosigning, "_once", known)
        patch.setattr(cosigning, "_bytes", claim)
        as_server(patch, cosigning, "_examine", 1, examine)
        for _ in range(5):
            made.greet()
    assert alarms(node) == ["s1"]
    assert size(node) == before + 1


def test_an_account_named_like_a_job_or_a_server_sees_nothing_of_it(parties, deployed, data_file):
    job, node = Job(parties, data_file).id, deployed.s0.node
    for name in (job, "s0", "s1"):
        with pytest.raises(ConflictError, match="is what a server or a job is called"):
            accounts.enrol(
                node, Caller("operator-s0", "operator"), name, Enrolment(role="teacher", token_hash="ab" * 32)
            )
    page = public_log.page(node, Caller(job, "teacher"), 0)  # of an older release
    assert [one.opened for one in page.entries if one.opened] == []


ODD = [
    {"kind": "x", "job": "zzz"},
    {"kind": "restored", "log": "s0", "was": "abc", "now": {}},
    {"kind": "job", "job": "f" * 32, "cohort": "[/x]"},
    {"kind": "charge", "job": "f" * 32, "cohort": "teachers"},
    {"kind": "labels", "job": "f" * 32, "at": 10**30},
    {"kind": "settings"},
]


def test_entries_that_make_no_sense_are_told_and_break_nothing(parties, deployed, kits, data_file):
    Job(parties, data_file, title="[/x]")
    with deployed.s1.node.store.write() as connection:
        for entry in ODD:
            public_log.write(connection, deployed.s1.node, "s1", "x", "x", entry=entry)
        # One that makes sense, of a job of which there is nothing else.
        public_log.write(connection, deployed.s1.node, "s1", "x", "x", entry={"kind": "labels", "job": "e" * 32})
    deployed._made.greet()
    shown = invoke("log", "--kit", kits / "teacher-001", "--json")
    assert sum("of the log of S1 makes no sense" in one for one in json.loads(shown.stdout)["complaints"]) == len(ODD)
    assert "makes no sense" in invoke("log", "--kit", kits / "teacher-001").output
    assert anyio.run(evidence, AsyncClient(ClientKit.load(kits / "teacher-001")), None, "teachers").sections


@pytest.mark.parametrize("time", [2**63, 2**36 - 1])
def test_a_cosignature_is_not_of_a_time_that_is_yet_to_come(parties, deployed, kits, data_file, monkeypatch, time):
    """Nor of one that no calendar has: whoever had seen that would take no later checkpoint for later."""

    def late(real, node, known, shown):
        verdict, _, _ = real(node, known, shown)
        return verdict, time, node.kit.log_signer.cosign(shown.checkpoint, time)

    parties.create(data_file)
    public_log.record(deployed.s0.node, "a", "b", "c", "d")
    with monkeypatch.context() as patch:
        as_server(patch, cosigning, "_examine", 1, late)
        with pytest.raises(LogError, match=r"yet to come|no calendar"):
            deployed._made.greet()
    assert teacher(kits).log()["s0"].cosigned_at < 2**33


def test_what_changes_nothing_does_not_fill_the_log(parties, deployed, data_file, monkeypatch):
    job, node = Job(parties, data_file).id, deployed.s0.node
    deployed.close(job)
    deployed._made.greet()
    before = size(node)
    for _ in range(3):
        charges.set_limit(node, Caller("teacher-001", "teacher"), OwnLimit(limit=8.0))
        lifecycle.label_share(node, Caller("requester-1", "requester"), job, 0)
    assert size(node) == before + 2
    monkeypatch.setattr("sedml.service.server.live.label_fetches._HOUR", -1)
    lifecycle.label_share(node, Caller("requester-1", "requester"), job, 0)
    assert size(node) == before + 3, "later it is another fetch"


def test_who_reads_while_others_write_does_not_have_the_tree_made_again(deployed):
    node = deployed.s0.node
    with node.store.read() as earlier:
        seen = public_log.checkpoint_of(node, earlier)
        public_log.record(node, "a", "b", "c", "d")
        with node.store.read() as connection:
            tree = public_log.tree_of(node, connection)
        assert public_log.tree_of(node, earlier) is tree
        assert public_log.checkpoint_of(node, earlier) == seen
    assert tree.size == seen.size + 1


def test_a_server_neither_spoils_a_witness_nor_keeps_readers_for_ever(parties, deployed, kits, data_file, monkeypatch):
    parties.create(data_file)
    deployed._made.greet()
    watcher, kit = ClientKit.load(kits / "teacher-004"), ClientKit.load(kits / "teacher-001")
    verifier = read_vkey(anyio.run(witness, watcher)[1].vkey)

    def planted(real, node, seen):
        head = real(node, seen)
        return head.model_copy(update={"checkpoint": head.checkpoint + verifier.line(bytes(64), 1)})

    pages = []

    def endless(real, node, caller, start):
        pages.append(start)
        assert len(pages) < 9, "the client still asks"
        page = real(node, caller, start)
        more = [LogEntry(number=start + len(page.entries) + one, leaf="00" * 32) for one in range(9)]
        return page.model_copy(update={"entries": [*page.entries, *more], "more": True})

    as_server(monkeypatch, public_log, "head", 1, planted)
    as_server(monkeypatch, public_log, "page", 1, endless)
    [_, witnessed] = anyio.run(witness, watcher)
    assert check_witnessed(kit, teacher(kits).log()["s1"], witnessed.note, verifier) > 1
