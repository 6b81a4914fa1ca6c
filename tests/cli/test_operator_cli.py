"""What operators type: the jobs of their server, budgets; and what they do not get to see."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sedml.service.client.budgets import cohort_line
from sedml.service.server.jobs import charges, retention
from sedml.service.server.jobs.records import get
from support.cli_calls import CREATE, REQUESTER, create, document, done, exit_code, invoke, vote
from support.client_parties import VOTES
from support.wire import Fail

OPERATOR = ("--kit", "kits/operator-s0")
TEACHER = ("--kit", "kits/teacher-001")


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_an_operator_lists_the_jobs_of_its_server(here, deployed, narrow):
    assert "There are no jobs." in done("job", "list", *OPERATOR)
    long = ("--title", "digits of the second quarter, without the clinic in the north")
    jobs = [create(), document("job", "create", *REQUESTER, "--data", "public.npz", *CREATE, *long)["id"]]
    vote(jobs[0])
    text = done("job", "list", *OPERATOR)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    for job, votes in zip(jobs, (4, 0), strict=True):
        (line,) = [line for line in text.splitlines() if job[:8] in line]
        assert "voting" in line
        assert f"{votes} of 3" in line
        assert "0 min" in line
    found = document("job", "list", *OPERATOR)["jobs"]
    assert [one["id"] for one in found] == jobs[::-1]
    assert [set(one["servers"]) for one in found] == [{"s0"}] * 2


def test_an_operator_looks_at_one_job_by_the_first_digits_of_its_id(here, deployed, narrow):
    job = create()
    vote(job)
    text = done("job", "status", job[:8], *OPERATOR)
    assert "voting" in text
    assert "S1" not in text
    deployed.close(job)
    assert document("job", "status", job, *OPERATOR)["state"] == "done"
    lines = invoke("job", "status", job, *OPERATOR, "--watch", "--json").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["done"]


def test_an_operator_sees_no_vote_no_share_and_no_label(here, deployed, monkeypatch, capsys):
    job = create()
    vote(job)
    halves = [body for server in deployed.servers for body in server.bodies("PUT .*/ballot")]
    deployed.close(job)
    text = done("job", "list", *OPERATOR, "--json") + done("job", "status", job, *OPERATOR, "--json")
    labels = deployed.expected(job, np.tile(VOTES, (4, 1))).tolist()
    assert not any(half.hex() in text or half[:24].hex() in text for half in halves)
    assert str(labels[:8])[1:-1] not in text
    (status,) = document("job", "status", job, *OPERATOR)["servers"].values()
    assert status["ballot"] is None
    assert set(status) == {  # whatever comes to it later has to be looked at here
        *("server", "state", "votes", "roster", "task", "blocks", "blocks_done", "samples_done"),
        *("protocol_seconds", "eta_seconds", "created_at", "closed_at", "finished_at", "expires_at", "deleted"),
        *("deleted_at", "deleted_by", "budget", "ballot", "problem", "extra_attempts", "log"),
    }
    for command in (("job", "labels", job), ("job", "run", job), ("job", "fetch", job)):
        assert exit_code(monkeypatch, *command, *OPERATOR) == 2
        assert "kit of an operator" in capsys.readouterr().err


def test_a_deleted_job_looks_deleted_with_who_did_it_and_when(here, deployed, narrow):
    kept, job, other = create(), create(), create()
    vote(job)
    done("job", "run", job, *REQUESTER)
    done("job", "delete", job, *REQUESTER)
    assert f"Job {other} is deleted at S0." in done("job", "delete", other, *OPERATOR)
    for kit in (REQUESTER, OPERATOR):
        found = {one["id"]: one["state"] for one in document("job", "list", *kit)["jobs"]}
        assert found[kept] == "open"
        assert found[job] == "deleted"
        (line,) = [line for line in done("job", "list", *kit).splitlines() if job[:8] in line]
        assert "deleted" in line
        text = done("job", "status", job, *kit)
        assert "by requester-1" in text
        assert "deleted at S0" in text
    assert document("job", "list", *OPERATOR)["jobs"][0]["state"] == "deleted"
    status = document("job", "status", other, *OPERATOR)["servers"]["s0"]
    assert (status["deleted_by"], status["state"]) == ("operator-s0", "expired")
    assert status["deleted_at"]


def test_a_job_that_was_not_run_in_time_is_expired(here, deployed):
    job = create()
    for server in deployed.servers:
        with server.node.store.write() as connection:
            retention.end(connection, server.node, get(connection, job, "update"), server.name)
    assert document("job", "status", job, *REQUESTER)["state"] == "expired"


# ---- budget -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kit", [REQUESTER, TEACHER, OPERATOR], ids=["requester", "teacher", "operator"])
def test_the_budget_of_each_cohort_at_each_server(here, deployed, narrow, kit):
    found = document("budget", *kit)
    servers = ["s0"] if kit == OPERATOR else ["s0", "s1"]
    assert [(line["cohort"], line["server"]) for line in found["cohorts"]] == [
        (cohort, server) for cohort in ("guarded", "teachers") for server in servers
    ]
    for line in found["cohorts"]:
        assert (line["spent_share"], line["reserved_share"], line["left_share"]) == (0.0, 0.0, 1.0)
    job = create()
    vote(job)
    done("job", "run", job, *REQUESTER)
    text = done("budget", *kit)
    assert "The budget of teachers protects each organisation." in text
    assert max(map(len, text.splitlines())) <= 80
    lines = [line for line in document("budget", *kit)["cohorts"] if line["cohort"] == "teachers"]
    for line in lines:
        assert line["spent_share"] > 0
        assert line["reserved_share"] == 0
        assert line["spent_share"] + line["reserved_share"] + line["left_share"] == pytest.approx(1.0)
        assert f" {100 * (1 - line['left_share']):.3g}%" in text


def test_figures_are_those_of_the_ledger(here, deployed):
    job = create()
    vote(job)
    done("job", "run", job, *REQUESTER)
    node = deployed.s0.node
    for status in charges.listed(node):
        line, ledger = cohort_line("s0", status), node.ledger.status(status.cohort)
        assert (line.epsilon, line.delta) == (ledger.epsilon, ledger.delta)
        assert line.used_share == pytest.approx(ledger.used)
        assert line.reserved_share == 0.0


def test_a_teacher_sees_what_was_spent_on_its_votes_and_sets_a_limit(here, deployed, narrow, monkeypatch):
    empty = document("budget", *TEACHER)["own"]["s0"]
    assert (empty["cohort"], empty["used"], empty["limit"]) == (None, 0.0, None)
    job = create()
    vote(job)
    done("job", "run", job, *REQUESTER)
    own = document("budget", *TEACHER)["own"]
    assert own["s0"] == own["s1"]
    assert (own["s0"]["cohort"], own["s0"]["used"] > 0, own["s0"]["used_epsilon"] > 0) == ("teachers", True, True)
    text = done("budget", *TEACHER, "--limit", "60")
    assert "Epsilons do not add up: the books count all jobs at one Rényi order" in " ".join(text.split())
    assert "your limit" in text
    assert max(map(len, text.splitlines())) <= 80
    assert {node["limit"] for node in document("budget", *TEACHER)["own"].values()} == {60.0}
    refused = invoke("budget", *TEACHER, "--limit", "0.001")
    assert refused.exit_code == 1
    assert "Use 3.426 to 64" in str(refused.exception)
    assert {node["limit"] for node in document("budget", *TEACHER, "--no-limit")["own"].values()} == {None}
    wrongs = [(TEACHER, ("--limit", "-1")), (TEACHER, ("--limit", "2", "--no-limit")), (REQUESTER, ("--no-limit",))]
    for kit, wrong in wrongs:
        assert exit_code(monkeypatch, "budget", *kit, *wrong) == 2


def test_a_server_that_does_not_say_is_named(here, deployed):
    deployed.s1.fault("GET", Fail.REFUSE, times=20)
    result = invoke("budget", *REQUESTER)
    assert result.exit_code == 1
    assert "S1 at https://s1.example:8441 cannot be reached" in result.output.replace("\n", " ")
    assert "teachers" in result.output
