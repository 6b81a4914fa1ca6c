"""What a server would try with its log, each tried as that server, and who notices."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, timedelta

import anyio
import pytest
import sqlalchemy as sa

from sedml.errors import LogError, NotCosignedError, NotFoundError
from sedml.privacy.ledger import State
from sedml.service.client import Operator
from sedml.service.client.log_differences import logged_jobs
from sedml.service.client.log_reading import keys_of
from sedml.service.client.log_summary import complaints
from sedml.service.client.receipts import kept, verify
from sedml.service.client.witnessing import check_witnessed, read_vkey, witness
from sedml.service.kits import ClientKit
from sedml.service.log.entries import entry_hash
from sedml.service.log.merkle import Tree
from sedml.service.log.notes import Checkpoint
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle
from sedml.service.server.link import cosigning
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import log
from sedml.service.states import JobState
from support.client_parties import VOTES, Job
from support.log_lies import accept_restored, alarms, as_server, put_back_one, restart, teacher
from support.snapshots import keep

OPERATOR = Caller("operator-s0", "operator")


def sent(deployed):
    return [
        str(one) for server in deployed.servers for one in server.seen if one.method == "PUT" and "ballot" in one.path
    ]


@pytest.mark.parametrize("hide", ["as something else", "altogether"])
def test_a_secret_job_gets_no_vote_and_is_in_the_other_log(parties, deployed, kits, data_file, monkeypatch, hide):
    job = parties.create(data_file).id
    node = deployed.s1.node

    def lie(real, node, connection, asked):
        shown = real(node, connection, asked)
        if hide == "altogether":
            return dict.fromkeys(shown)
        other = next(iter(shown.values())).number - 1
        return {(number, seen): real(node, connection, [(other, seen)])[other, seen] for number, seen in shown}

    as_server(monkeypatch, public_log, "proofs", node.role, lie)
    with pytest.raises(LogError, match=r"something else|not in a log of S1"):
        teacher(kits, patience=0).vote(job, VOTES)
    assert sent(deployed) == []
    assert job in logged_jobs(teacher(kits, 2).log())


def test_a_job_that_a_server_leaves_out_of_its_log_shows_when_the_other_has_run_it(
    parties, deployed, kits, data_file, monkeypatch
):
    job = Job(parties, data_file).id
    deployed.close(job)

    def lie(real, node, caller, start):
        page = real(node, caller, start)
        left = [one.model_copy(update={"entry": ""}) if job in (one.entry or "") else one for one in page.entries]
        return page.model_copy(update={"entries": left})

    as_server(monkeypatch, public_log, "page", 1, lie)
    with pytest.raises(LogError, match="not those of its checkpoint"):
        teacher(kits).log()
    assert job in logged_jobs(Operator(kits / "operator-s0").log())


def rewritten(node, forge_own=True):
    """A server changes the past: the charge for a job was a smaller one. Every hash fits again."""
    with node.store.write() as connection:
        row = connection.execute(sa.select(log).where(log.c.action == "start")).mappings().first()
        text = row["entry"].replace('"rho":', '"rho":0.0000001,"was":')
        leaf = entry_hash(text, log_rows.line_of(row))
        connection.execute(sa.update(log).where(log.c.number == row["number"]).values(entry=text, hash=leaf))
        if forge_own:
            log_rows.keep(connection, "own", None)
    restart(node)


@pytest.mark.parametrize("role", [0, 1])
def test_a_rewritten_history_is_noticed_by_the_other_server_a_teacher_and_a_witness(
    parties, deployed, kits, data_file, role
):
    job = Job(parties, data_file).id
    deployed.close(job)
    watcher = ClientKit.load(kits / "teacher-004")
    anyio.run(witness, watcher)
    node, honest = deployed.servers[role].node, deployed.servers[1 - role].node
    rewritten(node)
    with pytest.raises(LogError, match="does not extend"):
        deployed._made.greet()
    assert alarms(honest) == [node.kit.name]
    # Now it forges a cosignature that it does not have, with its own signature under the new history.
    with node.store.write() as connection:
        checkpoint = public_log.checkpoint_of(node, connection)
        signer = node.kit.log_signer
        forged = signer.verifier.line(signer.sign(checkpoint))
        log_rows.keep(connection, "own", f"{checkpoint.text}\n{forged}")
    for who in (lambda: teacher(kits).log(), lambda: anyio.run(witness, watcher)):
        with pytest.raises(LogError, match="lacks the signature"):
            who()


def test_who_changes_the_store_of_a_server_is_noticed_by_that_server(parties, deployed, data_file):
    deployed.close(Job(parties, data_file).id)
    rewritten(deployed.s1.node, forge_own=False)
    with pytest.raises(LogError, match="not the one that it has signed"):
        deployed._made.greet()


def test_a_split_view_takes_the_signature_of_both(parties, deployed, kits, data_file, monkeypatch):
    """S1 shows one teacher a log without a job, under its own signature and with every cosignature that it ever got."""
    job = Job(parties, data_file).id
    node = deployed.s1.node

    def lie(real, node, seen):
        true = real(node, seen)
        with node.store.read() as connection:
            rows = connection.execute(sa.select(log).order_by(log.c.number)).mappings().all()
        tree = Tree(bytes(row["hash"]) for row in rows if job not in row["entry"])
        checkpoint, signer = Checkpoint(node.kit.log_signer.name, tree.size, tree.root(tree.size)), node.kit.log_signer
        cosigned = true.checkpoint.splitlines(keepends=True)[-1]
        note = f"{checkpoint.text}\n{signer.verifier.line(signer.sign(checkpoint))}{cosigned}"
        return true.model_copy(update={"checkpoint": note, "consistency": []})

    as_server(monkeypatch, public_log, "head", 1, lie)
    for number in (1, 2):  # who has seen the log, and who has not
        with pytest.raises(LogError, match=r"signature of .*/s0 is wrong"):
            teacher(kits, number).log()
    assert node.role == 1


def test_an_old_checkpoint_is_no_news_to_whoever_saw_a_newer_one(parties, deployed, kits, data_file, monkeypatch):
    """S1 freezes the view of a teacher before a job; the cosignature of S0 under it is a good one, and an old one."""
    parties.create(data_file)
    old = public_log.head(deployed.s1.node, 0)
    pages = public_log.page(deployed.s1.node, Caller("teacher-001", "teacher"), 0)
    job = Job(parties, data_file).id
    watcher = ClientKit.load(kits / "teacher-004")
    [_, newer] = anyio.run(witness, watcher)
    as_server(monkeypatch, public_log, "head", 1, lambda *_: old)
    with pytest.raises(LogError, match="fewer entries than before"):
        teacher(kits).log()
    with pytest.raises(LogError, match="fewer entries than before"):
        anyio.run(witness, watcher)
    # Somebody new has seen nothing yet: the witness's note tells, and so does the age of the cosignature.
    entries = pages.entries
    as_server(
        monkeypatch, public_log, "page", 1, lambda *asked: pages.model_copy(update={"entries": entries[asked[-1] :]})
    )
    new = ClientKit.load(kits / "teacher-003")
    for file in (new.folder / "log").iterdir():
        if file.suffix == ".note":
            file.unlink()
    found = teacher(kits, 3).log()
    assert job in logged_jobs(found), "the other server's log has it all the same"
    with pytest.raises(LogError, match="shown the witness a log that is not the one"):
        check_witnessed(new, found["s1"], newer.note, read_vkey(newer.vkey))
    told = complaints(found, datetime.now(UTC) + timedelta(hours=3))
    assert any("S1 shows was cosigned 3 hours ago" in one for one in told)


@pytest.mark.parametrize("role", [0, 1])
def test_a_server_runs_nothing_that_the_other_has_not_cosigned(parties, deployed, data_file, monkeypatch, role):
    """Who wants a job off the record cosigns no log that has it: the other server takes no vote, and runs nothing."""
    job = Job(parties, data_file).id

    def lie(real, node, known, shown):
        return cosigning._Verdict.REFUSED, 0, b""

    with monkeypatch.context() as patch:
        as_server(patch, cosigning, "_examine", role, lie)
        honest, late = deployed.servers[1 - role], parties.create(data_file).id
        with pytest.raises(NotCosignedError, match="not cosigned yet"):
            honest.take_ballot(late, "teacher-001")
        for server in deployed.servers:
            server.close(job)
        with pytest.raises(LogError, match="does not cosign"):
            deployed._made.meet(job)
        assert honest.node.ledger.job("teachers", job).state is State.RESERVED
        assert deployed._made.link.attempts(1 - role, deployed.task(job), 0) == 0
    deployed.meet(job)
    assert [server.state(job) for server in deployed.servers] == [JobState.DONE] * 2


def test_labels_stay_until_their_release_is_cosigned(parties, deployed, data_file):
    job = Job(parties, data_file).id
    deployed.cut_link(lambda: [server.state(job) for server in deployed.servers] == [JobState.DONE] * 2)
    deployed.close(job)
    assert [server.state(job) for server in deployed.servers] == [JobState.DONE] * 2
    with pytest.raises(NotCosignedError):
        _share(deployed.s0.node, job)
    deployed.linked = True
    deployed._made.greet()
    assert _share(deployed.s0.node, job)


def _share(node, job):
    return lifecycle.label_share(node, Caller("requester-1", "requester"), job, 0)


@pytest.mark.parametrize("role", [0, 1])
def test_a_log_that_was_put_back_is_noticed_by_everybody_until_the_other_operator_says_why(
    parties, deployed, kits, data_file, tmp_path, role
):
    parties.create(data_file)
    made, name = deployed._made, f"s{role}"
    keep(made, tmp_path / "kept")
    Job(parties, data_file)
    watcher = ClientKit.load(kits / "teacher-004")
    anyio.run(witness, watcher)
    other = made.nodes[1 - role]
    put_back_one(made, role, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError, match=f"does not cosign the log of {name.upper()}"):
        made.greet()
    assert alarms(other) == [name]
    assert alarms(made.nodes[role]) == [name], "it hears itself what it has lost"
    with pytest.raises(LogError):
        made.greet()
    assert len(alarms(other)) == 1, "one alarm for one event"
    for who in (lambda: teacher(kits).log(), lambda: anyio.run(witness, watcher)):
        with pytest.raises(LogError, match="does not extend what it has shown this kit before"):
            who()
    late = parties.create(data_file)
    with pytest.raises(LogError):
        teacher(kits, patience=0).vote(late, VOTES)
    accept_restored(kits, other)
    made.greet()
    made.greet()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = teacher(kits).log()
        anyio.run(witness, watcher)
    assert any("was put back" in str(one.message) for one in said)
    assert any(
        f"says that the log of {name.upper()} was put back when it had" in one
        for one in complaints(found, made.clock())
    )
    assert teacher(kits).vote(late, VOTES).complete
    with pytest.raises(NotFoundError):
        accept_restored(kits, other)


def test_a_receipt_holds_offline_and_no_other_one_does(parties, deployed, kits, data_file):
    job = Job(parties, data_file).id
    kit = ClientKit.load(kits / "teacher-001")
    [receipt], _ = kept(kit)
    assert (receipt.terms.id, verify(kit, receipt)) == (job, None)
    assert set(keys_of(kit)) == {"s0", "s1"}
    proof = receipt.proofs["s1"]
    for wrong in (
        {"s0": receipt.proofs["s0"]},
        receipt.proofs | {"s1": receipt.proofs["s0"]},
        receipt.proofs | {"s1": proof.model_copy(update={"entry": proof.entry.replace("teachers", "guarded")})},
        receipt.proofs | {"s1": proof.model_copy(update={"number": proof.number - 1})},
        receipt.proofs | {"s1": proof.model_copy(update={"checkpoint": proof.checkpoint.replace("s1\n", "s0\n", 1)})},
    ):
        assert verify(kit, receipt.model_copy(update={"proofs": wrong})) is not None
    for change in ({"ballot": "0" * 64}, {"received_at": datetime(2001, 1, 1, tzinfo=UTC)}, {"parts": "x"}):
        others = {name: one.model_copy(update=change) for name, one in receipt.receipts.items()}
        assert "signature" in verify(kit, receipt.model_copy(update={"receipts": others}))
    another = ClientKit.load(kits / "teacher-002")
    others = {name: one.model_copy(update={"teacher": another.name}) for name, one in receipt.receipts.items()}
    assert "signature" in verify(another, receipt.model_copy(update={"receipts": others}))


def test_the_log_names_no_other_teacher_and_says_no_more_than_it_must(parties, deployed, kits, data_file):
    deployed.close(Job(parties, data_file).id)
    deployed._made.greet()
    for name, role in (("teacher-001", "teacher"), ("requester-2", "requester")):
        for server in deployed.servers:
            page = public_log.page(server.node, Caller(name, role), 0)
            text = page.model_dump_json()
            assert "teacher-002" not in text
            assert "operator-" not in text
            own = [one.opened.action for one in page.entries if one.opened is not None]
            assert own == (["enrol", "vote"] if role == "teacher" else ["enrol"])
            kinds = {one.entry.partition('"kind":"')[2].partition('"')[0] for one in page.entries if one.entry}
            public = {"job", "roster", "charge", "labels"}
            assert kinds == {"account", "software", "settings"} | (public if role == "teacher" else set())
