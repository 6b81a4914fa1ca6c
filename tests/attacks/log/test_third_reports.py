"""A third round: what reports say of an honest server, and is not so."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import anyio
import pytest

from sedml.errors import LogError
from sedml.privacy.ledger import State
from sedml.service.client.async_client import AsyncClient
from sedml.service.client.checkup import examine
from sedml.service.client.evidence_document import evidence
from sedml.service.client.log_differences import differences
from sedml.service.client.log_summary import complaints
from sedml.service.kits import ClientKit
from sedml.service.log.notes import parse
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import retention
from sedml.service.server.link import cosigning, greeting
from sedml.service.states import JobState
from support.client_parties import Job
from support.log_lies import accept_restored, as_server, put_back_one, teacher
from support.snapshots import keep


def soon(**later):
    return datetime.now(UTC) + timedelta(**later or {"minutes": 5})


def rows_of(kits, job):
    found = anyio.run(evidence, AsyncClient(ClientKit.load(kits / "teacher-001")), job, "" if job else "teachers")
    return {what: answer for one in found.sections for what, answer in one.rows}


@pytest.mark.parametrize("dated", ["two hours ahead", "two days ago"])
def test_what_waits_is_not_called_missing_however_the_other_one_dates_its_own(
    parties, deployed, kits, data_file, monkeypatch, dated
):
    """S0 keeps its cosignature of S1's release back, and dates its own release as it likes."""
    job, real = Job(parties, data_file).id, public_log.write
    off = 7200 if dated == "two hours ahead" else -2 * 86_400

    def write(connection, node, actor, action, subject, outcome="done", entry=None):
        if node.role == 0 and entry and entry["kind"] == "labels":
            entry = entry | {"at": int(datetime.now(UTC).timestamp()) + off}
        return real(connection, node, actor, action, subject, outcome, entry)

    def keeps_back(real, node, known, shown):
        if deployed.s1.state(job) is JobState.DONE:
            return cosigning._Verdict.REFUSED, 0, b""
        return real(node, known, shown)

    monkeypatch.setattr(public_log, "write", write)
    as_server(monkeypatch, cosigning, "_examine", 0, keeps_back)
    for server in deployed.servers:
        server.close(job)
    with suppress(LogError):
        deployed._made.meet(job)
    found = teacher(kits).log()
    assert found["s1"].later == 1, "S1 has the entry, and says that it waits"
    assert differences(found, datetime.now(UTC)) == []


def test_who_answers_late_does_not_make_the_other_one_guilty(parties, deployed, kits, data_file, monkeypatch):
    """S0 lets a client wait for its checkpoint until a job was created and run, which S1's log had no time to have."""
    parties.create(data_file, title="x")
    deployed._made.greet()
    late = []
    kit = ClientKit.load(kits / "teacher-004")

    async def one_after_the_other():
        from sedml.service.client.log_reading import read_log
        from sedml.service.client.pair import paired

        async with paired(kit, 60) as pair:
            s1 = await read_log(kit, pair, pair.s1)

            def run():
                late.append(Job(parties, data_file, title="late").id)
                deployed.close(late[0])
                deployed._made.greet()

            await anyio.to_thread.run_sync(run)
            return {"s0": await read_log(kit, pair, pair.s0), "s1": s1}

    now = datetime.now(UTC)
    found = anyio.run(one_after_the_other)
    assert late[0] in {one.what["job"] for one in teacher(kits).log()["s1"].public("job")}, "S1 has it, cosigned"
    assert differences(found, now) == []


@pytest.mark.filterwarnings("ignore:.*was put back")
def test_a_true_word_about_a_log_that_was_put_back_is_not_called_doubtful(
    parties, deployed, kits, data_file, tmp_path, monkeypatch
):
    """S1 shows somebody new what it showed before it was put back; S0's log says that this is over."""
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "kept")
    for _ in range(6):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()
    old = public_log.head(node, 0)
    pages = public_log.page(node, Caller("teacher-003", "teacher"), 0)
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    public_log.record(node, "x", "y", "z", "another branch")
    with pytest.raises(LogError):
        made.greet()
    accept_restored(kits, made.nodes[0])
    made.greet()
    made.greet()
    as_server(monkeypatch, public_log, "head", 1, lambda *_: old)
    entries = pages.entries
    as_server(
        monkeypatch, public_log, "page", 1, lambda *asked: pages.model_copy(update={"entries": entries[asked[-1] :]})
    )
    told = " ".join(complaints(teacher(kits, 3).log(), made.clock()))
    assert "S0 says that the log of S1 was put back" in told
    assert "doubtful" not in told, "S0 has said nothing but the truth"


def test_a_log_that_merely_grew_is_not_called_put_back(parties, deployed, kits, data_file, monkeypatch):
    """S0 does not cosign what S1 adds, and keeps it as a conflict of which nothing is proven."""
    parties.create(data_file)
    deployed._made.greet()
    node = deployed.s1.node
    public_log.record(node, "x", "y", "z", "w")
    with node.store.read() as connection:
        checkpoint = public_log.checkpoint_of(node, connection)
    own = node.kit.log_signer
    note = f"{checkpoint.text}\n{own.verifier.line(own.sign(checkpoint))}"

    def lie(real, node, seen):
        return real(node, seen).model_copy(update={"conflict": note, "proven": 0})

    as_server(monkeypatch, public_log, "head", 0, lie)
    told = " ".join(complaints(teacher(kits).log(), deployed._made.clock()))
    assert "The first 0 are proven to be what they were" not in told
    assert "--accept-restored" not in told


def test_what_was_given_back_is_not_called_charged(parties, deployed, kits, data_file, monkeypatch):
    """S1 breaks off between the entry of the charge and its cosignature: S0 computes nothing, and gives all back."""
    made, job = deployed._made, Job(parties, data_file).id
    before = deployed.s0.node.ledger.status("teachers").rho.spent
    with monkeypatch.context() as patch:
        as_server(patch, cosigning, "_examine", 1, lambda *_: (cosigning._Verdict.REFUSED, 0, b""))
        for server in deployed.servers:
            server.close(job)
        with pytest.raises(LogError):
            made.meet(job)
    assert deployed.s0.state(job) is JobState.RUNNING
    made.clock.later(days=30)
    for node in made.nodes:
        node.time.hear(made.clock().timestamp())
        retention.sweep(node)
        retention.sweep(node)
    made.greet()
    assert deployed.s0.state(job) is JobState.FAILED
    assert deployed.s0.node.ledger.status("teachers").rho.spent == before
    assert all(one.job != job for one in deployed.s0.node.ledger.jobs("teachers", State.STARTED))
    rows = rows_of(kits, job)
    assert "charged in full when it started" not in rows["This job in the log of S0"], "S0 has charged nothing"


@pytest.mark.parametrize("by", ["a lie", "a drifting clock"])
def test_clocks_that_are_six_minutes_apart_accuse_nobody(parties, deployed, kits, data_file, monkeypatch, by):
    """S0's clock is right. It doubts it, as S1's (or what S1 says of it) is six minutes off, and dates nothing anew."""
    made = deployed._made
    parties.create(data_file)
    made.greet()
    as_server(monkeypatch, greeting, "now", 1, lambda real, node: real(node) - 360)
    if by == "a drifting clock":  # S1 hears as well that they are apart
        as_server(monkeypatch, greeting, "now", 0, lambda real, node: real(node) + (360 if node.role == 0 else 0))
    made.greet()
    for number in range(4):
        made.clock.later(hours=1)
        parties.create(data_file, title=f"job {number}", deadline="30d")
        made.greet()
    told = [one for one in complaints(teacher(kits).log(), made.clock()) if "more than an hour after" in one]
    assert told == []


def test_the_doctor_says_put_back_only_if_the_other_log_does(parties, deployed, kits, data_file, monkeypatch):
    """S1 proves nothing when it is asked first, and all when it is asked again; S0's log knows of no restore."""
    parties.create(data_file)
    deployed._made.greet()
    teacher(kits).log()
    public_log.record(deployed.s1.node, "x", "y", "z", "w")
    deployed._made.greet()
    asked = []

    def head(real, node, seen):
        asked.append(seen)
        wrong = {"consistency": ["00" * 32]} if len(asked) == 1 else {}
        return real(node, seen).model_copy(update=wrong)

    as_server(monkeypatch, public_log, "head", 1, head)
    checks = {check.what: check for check in anyio.run(examine, kits / "teacher-001")}
    assert "the other operator knows it" not in checks["S1 log"].found
    assert checks["S1 log"].verdict == "FAIL", "it did not extend what the kit saw, and nobody has accepted that"


def test_one_server_does_not_bury_what_there_is_to_say_of_it(parties, deployed, kits, data_file, monkeypatch):
    """S1 fills its own log with nonsense, each entry of which is a line of its own in every report."""
    parties.create(data_file)
    deployed._made.greet()
    with deployed.s1.node.store.write() as connection:
        public_log.write_all(connection, deployed.s1.node, [("x", "x")] * 2000, "x", "x", {"kind": "nonsense"})
    deployed._made.greet()
    assert len(complaints(teacher(kits).log(), deployed._made.clock())) < 100


def test_evidence_does_not_say_that_nothing_was_computed_when_it_looks_at_the_state_later(
    parties, deployed, kits, data_file, monkeypatch
):
    """The logs are read first, for as long as one server likes; then the job runs; then its state is asked for."""
    job, real = Job(parties, data_file).id, AsyncClient.status

    async def status(self, wanted):
        await anyio.to_thread.run_sync(deployed.close, job)
        return await real(self, wanted)

    monkeypatch.setattr(AsyncClient, "status", status)
    kit = ClientKit.load(kits / "requester-1")
    found = anyio.run(evidence, AsyncClient(kit), job, "")
    rows = {what: answer for one in found.sections for what, answer in one.rows}
    assert rows["State"].startswith("done")
    assert "nothing was computed on votes" not in rows.get("This job", "")


def test_a_witness_goes_on_with_the_log_of_a_server_that_answers(parties, deployed, kits, data_file, monkeypatch):
    """S0 gives the witness no answer, or one that does not fit: the log of S1 has a witness no more."""
    from sedml.service.client.witnessing import witness

    parties.create(data_file)
    deployed._made.greet()
    kit = ClientKit.load(kits / "teacher-004")
    before = {one.server: one.checkpoint.size for one in anyio.run(witness, kit)}
    public_log.record(deployed.s1.node, "x", "y", "z", "w")
    deployed._made.greet()

    def lie(real, node, seen):
        return real(node, seen).model_copy(update={"consistency": ["00" * 32]})

    public_log.record(deployed.s0.node, "x", "y", "z", "w")
    deployed._made.greet()
    as_server(monkeypatch, public_log, "head", 0, lie)
    with pytest.raises(LogError):
        anyio.run(witness, kit)
    note = (kit.folder / "log" / "s1.witnessed").read_text()
    assert parse(note)[0].size > before["s1"]


def test_a_witness_that_saw_more_than_was_read_accuses_nobody(parties, deployed, kits, data_file):
    """The log is read; it grows; the witness cosigns; then its note is looked at. All are honest."""
    from sedml.service.client.witnessing import check_witnessed, read_vkey, witness

    parties.create(data_file)
    deployed._made.greet()
    found = teacher(kits).log()
    public_log.record(deployed.s1.node, "x", "y", "z", "w")
    deployed._made.greet()
    [_, note] = anyio.run(witness, ClientKit.load(kits / "teacher-004"))
    kit = ClientKit.load(kits / "teacher-001")
    check_witnessed(kit, found["s1"], note.note, read_vkey(note.vkey), found["s0"])
