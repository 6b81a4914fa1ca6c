"""`sedml log`, `sedml receipts`, `sedml witness` and `sedml evidence`, as people type them."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa

from sedml.service.server.storage.tables import log
from support.cli_calls import create, document, done, exit_code, invoke, vote

OPERATOR = ("--kit", "kits/operator-s0")
TEACHER = ("--kit", "kits/teacher-001")
SERVERS = ("--servers", "s0.example:8440,s1.example:8441")


def run_job(deployed):
    job = create()
    vote(job)
    deployed.close(job)
    return job


def test_an_operator_sees_every_line_and_that_nothing_was_changed(here, deployed, monkeypatch):
    job = run_job(deployed)
    monkeypatch.setenv("COLUMNS", "120")
    text = done("log", *OPERATOR, "--last", 40)
    assert "Log of S0" in text
    assert all(f"teacher-00{number}" in text for number in range(1, 5))
    assert "entries are as it signed them" in text
    monkeypatch.setenv("COLUMNS", "80")
    rows = [line for line in done("log", *OPERATOR, "--last", 40).splitlines() if "│" in line]
    assert max(map(len, rows)) <= 80
    assert [job[:8] in row for row in rows].count(True) == 10
    with deployed.s0.node.store.write() as connection:
        connection.execute(sa.update(log).where(log.c.action == "vote").values(actor="somebody"))
    changed = invoke("log", *OPERATOR)
    assert changed.exit_code == 3
    assert "is not what was written" in changed.output


def test_a_teacher_sees_every_job_and_charge(here, deployed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    ran, waits = run_job(deployed), create()
    text = done("log", *TEACHER)
    row = next(line for line in text.splitlines() if ran[:8] in line)
    assert "labels released" in row
    assert "S0 S1" in row
    assert "under way" in next(line for line in text.splitlines() if waits[:8] in line)
    found = document("log", *TEACHER)
    assert [job["job"] for job in found["jobs"]] == [ran, waits]
    charge = found["jobs"][0]["entries"]["charge"]
    assert charge["s0"]["rho"] == charge["s1"]["rho"] > 0
    assert found["complaints"] == []
    assert "teacher-002" not in json.dumps(found)


def test_a_requester_sees_its_own_jobs(here, deployed):
    job = run_job(deployed)
    assert [one["job"] for one in document("log", "--kit", "kits/requester-1")["jobs"]] == [job]
    assert document("log", "--kit", "kits/requester-2")["jobs"] == []


def test_a_narrow_terminal_cuts_no_word(here, deployed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    job = create("--title", "Diagnoses of the third round")
    vote(job)
    deployed.close(job)
    for text in (done("log", *TEACHER), done("receipts", *TEACHER, "--verify")):
        rows = [line for line in text.splitlines() if "│" in line]
        assert max(map(len, rows)) <= 80
        cells = [cell.strip() for row in rows for cell in row.strip("│").split("│")]
        assert {"Diagnoses", "round"} <= {word for cell in cells for word in cell.split()}
        assert any(re.fullmatch(r"\d{4}-\d\d-\d\d( \d\d:\d\d)?,?", cell) for cell in cells)
        assert "released" in text or "holds" in text


def test_receipts_are_kept_and_hold_offline(here, deployed):
    job = create()
    vote(job)
    assert "1 of 1 receipts hold" in done("receipts", *TEACHER, "--verify")
    [found] = document("receipts", *TEACHER, "--verify")["receipts"]
    assert (found["terms"]["title"], found["problem"]) == (found["terms"]["title"], None)
    path = Path("kits/teacher-001/receipts") / f"{job}.json"
    path.write_text(path.read_text().replace('\\"cohort\\":\\"teachers\\"', '\\"cohort\\":\\"others\\"'))
    result = invoke("receipts", *TEACHER, "--verify")
    assert result.exit_code == 3
    assert "0 of 1 receipts hold" in result.output


def answers(job):
    found = document("evidence", *TEACHER, "--job", job)["sections"]
    return {what: answer for one in found for what, answer in one["rows"].items()}


def test_receipts_and_evidence_show_the_times_that_the_servers_have_signed(here, deployed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    job = create()
    vote(job)
    path = Path("kits/teacher-001/receipts") / f"{job}.json"
    receipt = json.loads(path.read_text())
    signed = datetime.fromisoformat(receipt["receipts"]["s0"]["received_at"])
    receipt["voted_at"] = "2019-01-01T00:30:00+14:00"
    for one in receipt["receipts"].values():  # the same time, elsewhere
        moment = datetime.fromisoformat(one["received_at"]).astimezone(timezone(timedelta(hours=14)))
        one["received_at"] = moment.isoformat()
    path.write_text(json.dumps(receipt))
    text = done("receipts", *TEACHER, "--verify")
    assert "2019" not in text
    assert f"{signed:%Y-%m-%d %H:}" in text
    told = answers(job)["From this organisation"]
    assert f"signed as taken by S0 at {signed:%Y-%m-%d %H:%M} UTC and S1 at {signed:%Y-%m-%d %H:}" in told


@pytest.mark.parametrize("damage", ["cut", "without a zone", "no calendar", "nobody's"])
def test_one_damaged_receipt_leaves_the_others_readable(here, deployed, damage):
    jobs = [create(), create()]
    for job in jobs:
        vote(job)
    path = Path("kits/teacher-001/receipts") / f"{jobs[0]}.json"
    text = path.read_text()
    receipt = json.loads(text)
    if damage == "without a zone":
        receipt["voted_at"] = "2019-01-01T00:30:00"
    elif damage == "no calendar":
        receipt["receipts"]["s1"]["received_at"] = "0001-01-01T00:00:00+14:00"
    elif damage == "nobody's":
        receipt["receipts"] = {}
    path.write_text(text[:99] if damage == "cut" else json.dumps(receipt))
    for options in ((), ("--verify",)):
        result = invoke("receipts", *TEACHER, *options)
        assert result.exit_code == 3
        assert jobs[1][:8] in result.output
        assert f"{path} is damaged." in "".join(result.output.split("\n"))
    assert "1 of 2 receipts hold." in result.output
    told = json.loads(invoke("receipts", *TEACHER, "--json").stdout)
    assert ([one["terms"]["title"] for one in told["receipts"]], told["damaged"]) == ([""], [str(path)])
    assert answers(jobs[0])["From this organisation"].startswith("unknown")
    assert answers(jobs[1])["From this organisation"].startswith("one ballot, ")


def test_a_witness_cosigns_and_others_hold_their_log_against_it(here, deployed):
    run_job(deployed)
    done("enrol", "watcher", "--role", "requester", *SERVERS, "--ca", "kits/s0/ca.pem", "--out", "watcher")
    found = document("witness", "--kit", "watcher")
    note = found["notes"]["s1"]
    text = done("log", *TEACHER, "--witnessed", note["path"], "--witness-key", found["key"])
    assert "entries of S1, as cosigned by" in text
    Path(note["path"]).write_text(note["note"].replace(str(note["size"]), str(note["size"] - 1), 1))
    assert invoke("log", *TEACHER, "--witnessed", note["path"], "--witness-key", found["key"]).exit_code == 3


def test_what_cannot_be_asked(here, deployed, monkeypatch, capsys):
    run_job(deployed)
    assert exit_code(monkeypatch, "log", *TEACHER, "--witnessed", "nothing") == 2
    assert exit_code(monkeypatch, "evidence", *TEACHER) == 2
    assert exit_code(monkeypatch, "evidence", *OPERATOR, "--cohort", "teachers") == 2
    assert exit_code(monkeypatch, "log", *OPERATOR, "--accept-restored", "3") == 2
    assert exit_code(monkeypatch, "log", *OPERATOR, "--accept-restored", f"3:{'0' * 64}") == 1
    assert "There is nothing to accept" in capsys.readouterr().err


def test_the_evidence_of_a_job_answers_everything_and_stands_alone(here, deployed):
    job = run_job(deployed)
    found = document("evidence", *TEACHER, "--job", job)
    titles = [one["title"] for one in found["sections"]]
    assert titles == [
        "Purpose and parties",
        "Terms in plain words",
        "What the guarantee means",
        "Against whom it holds, and against whom not",
        "What left the organisation",
        "Charges",
        "In the logs",
        "Software",
        "The logs",
        "Retention and deletion",
        "Assumptions",
        "The differential privacy pyramid of NIST SP 800-226",
        "For a data protection impact assessment",
    ]
    rows = {what: answer for one in found["sections"] for what, answer in one["rows"].items()}
    assert rows["Proofs of inclusion from before the vote"] == "hold"
    assert rows["Who voted"].startswith("4 organisations")
    assert "% of that is left" in rows["Cohort teachers at S0"]
    assert rows["Ballots at S1"] == "deleted 1 day after both servers have their shares of the labels"
    assert found["facts"]["terms"]["requester"] == "requester-1"
    done("evidence", *TEACHER, "--job", job, "--out", "page.html")
    page = Path("page.html").read_text()
    assert all(f"<h2>{title}</h2>" in page for title in titles)
    assert "<script" not in page
    assert "url(" not in page
    assert "http" not in page.partition("<details>")[0].replace("<!doctype html>", "")
    assert "anonym" not in page.lower()
    assert "teacher-002" not in page


def test_the_evidence_of_a_cohort_lists_every_job(here, deployed):
    ran, waits = run_job(deployed), create()
    found = document("evidence", *TEACHER, "--cohort", "teachers")
    assert list(found["sections"][0]["rows"]) == [ran, waits]
    assert "Jobs in the logs: 2; charged: 1." in found["sections"][0]["note"]
    own = document("evidence", "--kit", "kits/requester-2", "--cohort", "teachers")["sections"][0]
    assert (own["title"], own["rows"]) == ("This requester's jobs in this cohort", {})
