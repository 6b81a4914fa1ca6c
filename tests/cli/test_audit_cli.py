"""`sedml audit`, as an operator types it."""

from __future__ import annotations

import json

import sqlalchemy as sa

from sedml.service.server import audit_log
from sedml.service.server.storage.tables import audit
from support.cli_calls import create, document, done, exit_code, invoke, vote

OPERATOR = ("--kit", "kits/operator-s0")


def change(deployed, statement):
    with deployed.s0.node.store.write() as connection:
        connection.execute(statement)


def head_of(text):
    return text.rpartition("Head: ")[2].strip()


def test_the_newest_lines_and_the_head(here, deployed):
    vote(create())
    text = done("audit", *OPERATOR)
    assert "Audit log of S0" in text
    assert all(f"teacher-00{number}" in text for number in range(1, 5))
    found = document("audit", *OPERATOR, "--verify", "--last", 3)
    assert found["complaint"] is None
    assert found["read"] == found["head"]["number"] == 6
    assert [(entry["number"], entry["action"]) for entry in found["entries"]] == [(n, "vote") for n in (4, 5, 6)]
    assert head_of(text) == f"6:{found['head']['digest']}"


def test_a_line_is_a_line_on_a_terminal_of_80_columns(here, deployed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    jobs = [create(), create()]
    vote(jobs[0])
    text = done("audit", *OPERATOR)
    rows = [line for line in text.splitlines() if "│" in line]
    assert len(rows) == document("audit", *OPERATOR)["head"]["number"]
    assert max(map(len, rows)) <= 80
    assert [sum(job[:8] in row for row in rows) for job in jobs] == [6, 2]
    assert {entry["subject"] for entry in document("audit", *OPERATOR)["entries"]} == set(jobs)


def test_an_empty_log(here, deployed):
    assert "Head" not in done("audit", *OPERATOR)
    assert document("audit", *OPERATOR, "--verify")["head"] is None


def test_more_than_a_page_is_read_to_its_end(here, deployed, monkeypatch):
    monkeypatch.setattr(audit_log, "_PAGE", 2)
    vote(create())
    assert document("audit", *OPERATOR, "--verify")["read"] == 6
    change(deployed, sa.update(audit).where(audit.c.number == 3).values(actor="somebody"))
    assert document("audit", *OPERATOR, "--last", 2)["complaint"] is None
    result = invoke("audit", *OPERATOR, "--verify")
    assert result.exit_code == 3
    assert "Line 3 does not fit" in result.output


def test_what_came_after_a_head_that_was_noted(here, deployed):
    job = create()
    noted = head_of(done("audit", *OPERATOR))
    vote(job)
    found = document("audit", *OPERATOR, "--since", noted)
    assert [entry["action"] for entry in found["entries"]] == ["vote"] * 4


def test_lines_that_were_cut_off_show_against_a_head_that_was_noted(here, deployed):
    job = create()
    vote(job)
    noted = head_of(done("audit", *OPERATOR))
    change(deployed, sa.delete(audit).where(audit.c.number > 4))
    assert invoke("audit", *OPERATOR, "--verify").exit_code == 0
    result = invoke("audit", *OPERATOR, "--since", noted, "--json")
    assert result.exit_code == 3
    assert "Line 6, which you noted, is gone" in json.loads(result.stdout)["complaint"]
    for _ in range(2):
        audit_log.record(deployed.s0.node, "somebody", "act", "subject", "done")
    result = invoke("audit", *OPERATOR, "--since", noted)
    assert result.exit_code == 3
    assert "Line 6 is not the one you noted" in result.output


def test_what_cannot_be_a_head_and_who_may_not_ask(here, deployed, monkeypatch, capsys):
    assert exit_code(monkeypatch, "audit", *OPERATOR, "--since", "6") == 2
    assert "64 hexadecimal digits" in capsys.readouterr().err
    assert exit_code(monkeypatch, "audit", "--kit", "kits/teacher-001") == 2
    assert "kit of a teacher" in capsys.readouterr().err
