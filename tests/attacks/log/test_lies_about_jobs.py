"""What one server says in its log of a job or of the other server, and is not so: who says it, and who is accused."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import anyio
import pytest

from sedml.errors import LogError
from sedml.service.client.async_client import AsyncClient
from sedml.service.client.evidence_document import evidence
from sedml.service.client.log_differences import differences, logged_jobs
from sedml.service.client.log_summary import complaints
from sedml.service.kits import ClientKit
from sedml.service.log.merkle import EMPTY
from sedml.service.messages import Receipt
from sedml.service.server import public_log
from sedml.service.server.jobs import charges
from sedml.service.server.link import cosigning
from sedml.service.server.storage import log_rows
from sedml.service.states import JobState
from support.cli_calls import invoke
from support.client_parties import Job
from support.log_lies import accept_restored, as_server, logging_otherwise, put_back_one, size, teacher
from support.snapshots import keep

CHARGE = {"kind": "charge", "cohort": "teachers", "unit": "organisation", "epsilon": 0.001, "delta": 1e-5, "rho": 0.0}
IN_3058 = 2**35


def soon(**later):
    return datetime.now(UTC) + timedelta(**later or {"minutes": 5})


def logged(deployed, role, *entries):
    """A server puts into its log what it likes, and the other one, which cannot know, cosigns it."""
    node = deployed.servers[role].node
    for entry in entries:
        with node.store.write() as connection:
            public_log.write(connection, node, "x", "x", "x", entry=entry)
    deployed._made.greet()


def rows_of(kits, job):
    found = anyio.run(evidence, AsyncClient(ClientKit.load(kits / "teacher-001")), job, "" if job else "teachers")
    return {what: answer for one in found.sections for what, answer in one.rows}


def test_a_job_that_is_open_was_not_run_because_one_log_dates_that_in_3058(parties, deployed, kits, data_file):
    job = Job(parties, data_file).id
    logged(deployed, 1, *({**entry, "job": job, "at": IN_3058} for entry in (CHARGE, {"kind": "labels"})))
    told = complaints(teacher(kits).log(), datetime.now(UTC))
    assert f"S0 has no charge of job {job} in its log, and S1 has." in told
    assert f"S0 has no labels of job {job} in its log, and S1 has." in told
    assert any(one.startswith("S1 dates 2 of the entries of its log, the first of them entry 1") for one in told)
    shown = invoke("log", "--kit", kits / "teacher-001")
    assert shown.exit_code == 1
    rows = rows_of(kits, job)
    assert rows["State"].endswith("; in the servers' logs: labels released according to S1 alone")
    assert rows["Outcome according to the logs"] == "labels released according to S1 alone"
    assert rows["This job in the log of S0"] == "no charge in what is cosigned"
    assert "epsilon 0.001 for each organisation according to S1 alone" in rows_of(kits, None)[job]


def test_what_is_dated_within_an_hour_of_its_cosignature_is_late_in_time(parties, deployed, kits, data_file):
    job = Job(parties, data_file).id
    logged(deployed, 1, {"kind": "labels", "job": job, "at": int(soon(minutes=55).timestamp())})
    found = teacher(kits).log()
    assert differences(found, datetime.now(UTC)) == []
    assert differences(found, soon()) == [f"S0 has no labels of job {job} in its log, and S1 has."]


def test_the_end_of_an_open_job_is_told(parties, deployed, kits, data_file):
    job = Job(parties, data_file).id
    logged(
        deployed, 1, {"kind": "end", "job": job, "state": "failed", "charged": True}, {"kind": "deleted", "job": job}
    )
    found = teacher(kits).log()
    assert differences(found, soon(hours=20)) == [], "the link may have been cut"
    assert differences(found, soon(hours=25)) == [f"S0 has no end of job {job} in its log, and S1 has."]
    assert rows_of(kits, job)["State"].endswith("; in the servers' logs: failed according to S1 alone")


def test_what_a_requester_does_at_one_server_alone_is_held_against_neither(parties, deployed, kits, data_file):
    """It brings the terms to the other one two days later, and has the job deleted at one only."""
    job = Job(parties, data_file).id
    deployed.close(job)
    logged(deployed, 1, {"kind": "deleted", "job": job})
    found = teacher(kits).log()
    for entry in found["s0"].public("job"):
        entry.what["at"] -= 2 * 86_400
    assert differences(found, soon(days=90)) == []
    assert not any(job in one for one in complaints(found, soon(minutes=1)))


def test_who_gives_up_a_job_may_call_it_something_else(parties, deployed, kits, data_file):
    job = Job(parties, data_file).id
    for role, state in enumerate(("expired", "refused")):
        logged(deployed, role, {"kind": "end", "job": job, "state": state, "charged": True})
    found = teacher(kits).log()
    assert differences(found, soon(days=1)) == []
    assert logged_jobs(found)[job].outcome == "expired according to S0, refused according to S1"


@pytest.mark.parametrize("ahead", [0, 3000, 80_000])
def test_who_keeps_a_cosignature_back_does_not_make_the_other_one_guilty(
    parties, deployed, kits, data_file, monkeypatch, ahead
):
    """S0 does not cosign that S1 has released labels, and may have dated ahead what it cosigned before."""
    job = Job(parties, data_file).id

    def lie(real, node, known, shown):
        if deployed.s1.state(job) is JobState.DONE:
            return cosigning._Verdict.REFUSED, 0, b""
        verdict, time, _ = real(node, known, shown)
        return verdict, time + ahead, node.kit.log_signer.cosign(shown.checkpoint, time + ahead)

    as_server(monkeypatch, cosigning, "_examine", 0, lie)
    for server in deployed.servers:
        server.close(job)
    with suppress(LogError):
        deployed._made.meet(job)
    found = teacher(kits).log()
    assert found["s1"].later == 1
    for later in (0, 1, 9, 24, 48):
        assert differences(found, soon(hours=later)) == []
    late = " ".join(complaints(found, soon(hours=48)))
    assert f"S1 shows was cosigned {(48 * 3600 - ahead) / 3600:.0f} hours ago, as S0 dates it" in late


def test_what_waits_to_be_cosigned_is_not_called_missing(parties, deployed, kits, data_file):
    """S1 has left a charge out of what is cosigned, and says that more is to come."""
    logged(deployed, 0, CHARGE | {"job": Job(parties, data_file).id})
    found = teacher(kits).log()
    public_log.record(deployed.s1.node, "x", "y", "z", "w")
    waiting = teacher(kits).log()
    assert waiting["s1"].later == 1
    assert differences(waiting, soon()) == []
    assert len(differences(found, soon())) == 1
    later = deployed._made.clock.later
    later(days=1, minutes=5)
    for node in deployed._made.nodes:
        node.time.hear(deployed._made.clock().timestamp())
    deployed._made.greet()
    public_log.record(deployed.s1.node, "x", "y", "z", "w")
    [told] = differences(teacher(kits).log(), soon(days=1, minutes=9))
    assert "in what S0 has cosigned of its log (1 more wait for that), and S0 has." in told


def test_a_job_that_nobody_created_is_one_servers_word(parties, deployed, kits, data_file):
    job = "f" * 32
    logged(deployed, 0, {"kind": "job", "job": job, "cohort": "teachers"}, CHARGE | {"job": job})
    found = teacher(kits).log()
    told = f"S0 says that job {job} was run; S1 has it nowhere in its log."
    assert differences(found, soon()) == differences(found, datetime.now(UTC)) == [told]


@pytest.mark.parametrize("which", ["an old one", "the newest"])
def test_who_refuses_a_log_that_is_in_order_says_nothing_against_it(
    parties, deployed, kits, data_file, monkeypatch, which
):
    parties.create(data_file)
    deployed._made.greet()
    with deployed.s0.node.store.read() as connection:
        old = log_rows.kept(connection, "peer")[0]
    if which == "an old one":
        parties.create(data_file, title="x")
        deployed._made.greet()

    def lie(real, node, seen):
        return real(node, seen).model_copy(update={"conflict": old, "proven": 0})

    as_server(monkeypatch, public_log, "head", 0, lie)
    [told] = complaints(teacher(kits).log(), deployed._made.clock())
    assert "or S0 refuses a log that is in order" in told
    assert "--accept-restored" not in told


def heads(**sizes):
    return {name: {"size": count, "root": 32 * f"{count % 256:02x}"} for name, count in sizes.items()}


def test_a_log_that_was_never_put_back_is_not_called_so(parties, deployed, kits, data_file):
    parties.create(data_file)
    logged(deployed, 1, {"kind": "restored", "log": "s0", **heads(was=10**6, kept=0, now=5)})
    [told] = complaints(teacher(kits).log(), deployed._made.clock())
    assert told.startswith("S1 says that the log of S0 was put back when it had 1,000,000 entries")
    assert told.endswith("That is doubtful: the log of S0 that was read here does not show it.")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("true_heads", [False, True])
def test_a_false_one_takes_nothing_from_a_true_one(parties, deployed, kits, data_file, tmp_path, true_heads):
    made, node = deployed._made, deployed.s1.node
    parties.create(data_file)
    made.greet()
    false = {"kind": "restored", "log": "s1", **heads(was=10**6, kept=0, now=5)}
    if true_heads:
        with node.store.read() as connection:
            now = {"size": 5, "root": public_log.tree_of(node, connection).root(5).hex()}
        false |= {"kept": {"size": 0, "root": EMPTY.hex()}, "now": now}
    logged(deployed, 0, false)
    kept = size(node)
    keep(made, tmp_path / "kept")
    for _ in range(6):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        made.greet()
    accept_restored(kits, made.nodes[0])
    made.greet()
    made.greet()
    first, second = (one for one in complaints(teacher(kits).log(), made.clock()) if "says that the log of S1" in one)
    assert ("doubtful" in first) is not true_heads
    assert second.endswith(f"of which the first {kept} are proven to be what they were.")


def test_who_dates_a_cosignature_in_1970_is_named(parties, deployed, kits, data_file, monkeypatch):
    parties.create(data_file)

    def early(real, node, known, shown):
        verdict, _, _ = real(node, known, shown)
        return verdict, 1, node.kit.log_signer.cosign(shown.checkpoint, 1)

    as_server(monkeypatch, cosigning, "_examine", 1, early)
    public_log.record(deployed.s0.node, "a", "b", "c", "d")
    deployed._made.greet()
    told = complaints(teacher(kits).log(), deployed._made.clock())
    assert any("S0 shows was cosigned" in one and one.endswith("as S1 dates it.") for one in told)


@pytest.mark.parametrize(
    ("kind", "change", "told"),
    [
        ("roster", {}, "S0 has no roster of job"),
        ("charge", {"rho": 0.0}, 'in the entry "charge"'),
        ("charge", {"at": 1}, "The two logs date the charge of job"),
        ("labels", {"at": 1}, "differently: S0 1970-01-01 00:00 UTC and S1 2"),
    ],
)
def test_what_is_left_out_or_forged_is_told(parties, deployed, kits, data_file, monkeypatch, kind, change, told):
    with monkeypatch.context() as patch:
        logging_otherwise(patch, 0, kind, **change)
        job = Job(parties, data_file).id
        deployed.close(job)
    deployed._made.greet()
    assert told in " ".join(complaints(teacher(kits).log(), soon()))


def test_who_has_promised_something_else_may_count_something_else(parties, deployed, kits, data_file, monkeypatch):
    with deployed.s0.node.store.write() as connection:
        promise = {"epsilon": 1.0, "delta": 1e-5, "unit": "organisation"}
        rules = {"kind": "settings", "budgets": {"teachers": promise}, "keep_labels": 0.0, "keep_inputs": 0.0}
        public_log.write(connection, deployed.s0.node, "x", "x", "x", entry=rules)
    with monkeypatch.context() as patch:
        logging_otherwise(patch, 0, "charge", rho=0.5)
        deployed.close(Job(parties, data_file).id)
    deployed._made.greet()
    assert differences(teacher(kits).log(), soon()) == []


def test_a_job_that_is_dated_in_1970_is_shown_with_those_of_today(parties, deployed, kits, data_file, monkeypatch):
    logged(deployed, 0, *({"kind": "job", "job": f"{number:032x}", "cohort": "teachers"} for number in range(3)))
    with monkeypatch.context() as patch:
        logging_otherwise(patch, 0, "job", at=1)
        job = parties.create(data_file).id
    deployed._made.greet()
    shown = invoke("log", "--kit", kits / "teacher-001", "--last", 2)
    assert job[:8] in shown.output
    assert "2 earlier jobs are not shown (--last)." in shown.output
    shown = invoke("log", "--kit", kits / "operator-s0", "--last", 2)
    assert "earlier lines are not shown (--last)." in shown.output
    assert "not shown (--last)" not in invoke("log", "--kit", kits / "teacher-001").output


def test_an_entry_that_can_be_read_in_two_ways_makes_no_sense(parties, deployed, kits, data_file, monkeypatch):
    job = Job(parties, data_file).id
    twice = json.dumps(CHARGE | {"job": job, "at": 1}).replace('"epsilon"', '"epsilon":5,"epsilon"')
    with monkeypatch.context() as patch:
        patch.setattr(public_log, "entry_text", lambda values: twice)
        logged(deployed, 1, {"kind": "charge"})
    assert complaints(teacher(kits).log(), datetime.now(UTC))[0].startswith("Entry ")


def test_one_entry_does_not_keep_everybody_from_evidence_for_good(parties, deployed, kits, data_file):
    job = Job(parties, data_file).id
    logged(deployed, 1, {"kind": "settings", "at": 1, "keep_labels": 1e-4, "keep_inputs": 0.0})
    for about in (("--job", job), ("--cohort", "teachers")):
        shown = invoke("evidence", *about, "--kit", kits / "teacher-001", "--out", kits / "page.html")
        assert shown.exit_code == 0
    assert "deleted 0.1 milliseconds after the job has ended" in (kits / "page.html").read_text()


def test_a_budget_of_nothing_keeps_nobody_from_evidence(parties, deployed, kits, data_file, monkeypatch):
    """S1 shows another budget than it has."""
    real = charges.cohort_status

    def lie(node, cohort):
        return real(node, cohort).model_copy(update={"rho_limit": 0.0} if node.role else {})

    job = Job(parties, data_file).id
    monkeypatch.setattr(charges, "cohort_status", lie)
    rows = rows_of(kits, None)
    assert [name in rows for name in ("Cohort teachers at S0", "Cohort teachers at S1")] == [True, False]
    assert job in rows


@pytest.mark.parametrize("hours", [-12, 14])
def test_a_time_is_in_utc_whatever_zone_a_server_writes_it_in(hours):
    at = datetime(2026, 11, 19, 1, 30, tzinfo=timezone(timedelta(hours=hours)))
    receipt = {"job": "f" * 32, "teacher": "x", "server": "s0", "ballot": "x", "received_at": at.isoformat()}
    found = Receipt.model_validate_json(json.dumps(receipt))
    assert (found.received_at, found.received_at.utcoffset()) == (at, timedelta(0))
    for never in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"):
        with pytest.raises(ValueError, match="no calendar"):
            Receipt.model_validate_json(json.dumps(receipt | {"received_at": never}))
