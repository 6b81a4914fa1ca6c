"""The commands of a deployment as people and scripts use them, on the real applications of both servers."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from sedml.cli.job_tables import job_view
from sedml.service.client import Requester
from sedml.service.kits import ClientKit, enrol, new_token
from sedml.service.terms import job_cost
from support.cli_calls import CREATE, REQUESTER, create, document, done, exit_code, invoke, vote
from support.client_parties import VOTES
from support.stage import ADDRESSES
from support.wire import Fail


def test_a_job_from_its_creation_to_its_labels(here, deployed):
    text = done("job", "create", "--kit", "kits/requester-1", "--data", "public.npz", *CREATE, "--title", "digits")
    assert "digits" in text
    (job,) = deployed.s0.jobs
    assert f"sedml vote --job {job[:8]} " in text
    assert document("job", "list", "--kit", "kits/teacher-001")["jobs"][0]["id"] == job
    text = done("vote", "--kit", "kits/teacher-001", "--job", job, "--model", "model.joblib", "--max-epsilon", 30)
    assert "The vote of teacher-001 on job " in text
    vote(job)
    text = done("job", "status", job, "--kit", "kits/requester-1")
    for part in ("voting", "4, at least 3 needed", "0.0% used", "S0", "S1", "open"):
        assert part in text
    text = done("job", "run", job[:6], "--kit", "kits/requester-1", "--out", "labels.npy")
    for part in ("agreeing on who voted", "aggregating", "fetching the labels", "in all", "written to labels.npy"):
        assert part in text
    cost = job_cost(deployed.s0.status(job).terms)
    assert f"{cost.epsilon:.4g} at delta 1e-05" in text
    assert f"{cost.epsilon_apart:.4g}" in text
    want = deployed.expected(job, np.tile(VOTES, (4, 1))).tolist()
    assert np.load("labels.npy").tolist() == want
    done("job", "labels", job, "--kit", "kits/requester-1", "--out", "again.csv")
    assert len((here / "again.csv").read_text().splitlines()) == 51
    text = done("job", "status", job, "--watch", "--kit", "kits/requester-1")
    assert "epsilon 30 at delta 1e-05" in text
    budget = deployed.s0.status(job).budget
    assert f"{budget.rho_spent / budget.rho_limit:.1%} used" in text
    for part in ("blocks done", "1 of 1"):
        assert part in text
    assert "deleted" in done("job", "delete", job, "--kit", "kits/requester-1")
    assert deployed.s0.status(job).deleted


def test_a_job_says_whom_it_protects_and_how_many_votes_an_organisation_has(here, deployed):
    refused = invoke("job", "create", *REQUESTER, "--data", "public.npz", *CREATE, "--unit", "patient", "--votes", 3)
    assert "The job protects each patient" in str(refused.exception)
    view = Requester("kits/requester-1").status(create())
    terms = view.terms.model_copy(update={"unit": "patient", "votes": 31, "threshold": "60"})
    known = {"id": terms.id, "terms": terms}
    both = {name: getattr(view, name).model_copy(update=known) for name in ("s0", "s1")}
    console = Console(width=80, record=True)
    console.print(*job_view(replace(view, id=terms.id, **both)))
    told = " ".join(console.export_text().replace("│", " ").split())
    assert "at least 3 organisations x 31 votes needed" in told
    assert "60 of 93 votes, sigma " in told
    assert (
        "Protects each patient, whose data is in at most 1 of a teacher's 31 parts and in no other organisation's"
        in told
    )
    assert "The organisation as a whole: epsilon " in told


def test_every_command_prints_one_document_for_machines(here, deployed):
    kit = ("--kit", "kits/requester-1")
    job = create()
    assert document("job", "list", *kit)["jobs"][0]["phase"] == "voting"
    receipt = document("vote", "--kit", "kits/teacher-001", "--job", job, "--predictions", "preds.npy")
    assert receipt["complete"] is True
    assert receipt["receipts"]["s0"]["ballot"] == receipt["receipts"]["s1"]["ballot"]
    vote(job)
    status = document("job", "status", job, *kit)
    assert (status["state"], status["votes"], status["servers"]["s1"]["votes"]) == ("open", {"least": 4, "most": 4}, 4)
    result = document("job", "run", job, *kit)
    again = document("job", "status", job, *kit)
    assert status["privacy"] == result["privacy"] == again["privacy"]
    assert 0 < result["privacy"]["epsilon_apart"] < result["privacy"]["epsilon"] <= 30
    assert result["privacy"]["delta"] == 1e-5
    want = deployed.expected(job, np.tile(VOTES, (4, 1))).tolist()
    assert result["labels"] == want
    assert set(result["seconds"]) == {"closing", "aggregating", "fetching", "total"}
    assert document("job", "labels", job, *kit)["labels"] == want
    found = document("job", "labels", job, *kit, "--out", "labels.npy")
    assert (found["out"], "labels" in found) == ("labels.npy", False)
    assert document("job", "fetch", job, "--kit", "kits/teacher-001", "--out", "here.npz") == {"file": "here.npz"}
    assert (here / "here.npz").read_bytes() == (here / "public.npz").read_bytes()
    lines = invoke("job", "status", job, *kit, "--watch", "--json").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["done"]
    assert document("job", "delete", job, *kit)["servers"]["s0"]["deleted"] is True


def test_a_list_of_jobs_is_readable_on_a_terminal_of_80_columns(here, deployed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    long = ("--title", "digits of the second quarter, without the clinic in the north")
    jobs = [create(), create(), document("job", "create", *REQUESTER, "--data", "public.npz", *CREATE, *long)["id"]]
    text = done("job", "list", *REQUESTER)
    assert "…" not in text
    for job in jobs:
        (line,) = [line for line in text.splitlines() if job[:8] in line]
        assert "voting" in line
        assert ":" in line
        assert document("job", "status", job[:8], *REQUESTER)["id"] == job


def test_a_teacher_finds_a_job_that_has_ended_by_the_first_digits_if_it_voted(here, deployed, monkeypatch, capsys):
    job = create()
    teacher = ("--kit", "kits/teacher-001")
    done("vote", *teacher, "--job", job, "--predictions", "preds.npy")
    vote(job)
    done("job", "run", job, *REQUESTER)
    assert document("job", "status", job[:8], *teacher)["id"] == job
    assert exit_code(monkeypatch, "job", "status", "zz", *teacher) == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "No open job, and none that you voted on with this kit, has an id that begins with zz." in told


def test_a_job_is_watched_until_it_is_over(here, deployed, monkeypatch):
    job = create()
    deployed.linked = False

    def later(_seconds):
        deployed.linked = deployed.s1.status(job).state == "closed"
        for server in deployed.servers:
            server.close(job)

    monkeypatch.setattr("time.sleep", later)
    lines = invoke("job", "status", job, "--kit", "kits/requester-1", "--watch", "--json").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["open", "closed", "refused"]


def test_the_only_kit_or_that_of_the_environment_need_not_be_named(here, deployed, monkeypatch, capsys, kits):
    assert exit_code(monkeypatch, "job", "list") == 2
    assert "There are 2 kits of a requester" in capsys.readouterr().err
    shutil.rmtree("kits/requester-2")
    assert "no jobs" in done("job", "list")
    monkeypatch.setenv("SEDML_KIT", "kits/teacher-002")
    assert document("job", "list") == {"jobs": []}
    job = create()
    assert document("vote", "--job", job, "--predictions", "preds.npy")["receipts"]["s0"]["teacher"] == "teacher-002"


@pytest.mark.parametrize("given", [[], ["--job"]], ids=["the only job", "its first digits"])
def test_a_vote_asks_for_the_job_once_before_it_says_whom_it_protects(here, deployed, monkeypatch, given):
    job = create()
    monkeypatch.setattr("sedml.service.client.Teacher.status", None)
    options = [*given, job[:8]] if given else []
    text = done("vote", "--kit", "kits/teacher-001", *options, "--predictions", "preds.npy")
    assert text.startswith("Protects each organisation")
    assert f"on job {job[:8]} counts." in text


def test_a_creation_that_broke_off_is_continued(here, deployed, monkeypatch, capsys):
    arguments = ["job", "create", "--kit", "kits/requester-1", "--data", "public.npz", *CREATE]
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=8)
    assert exit_code(monkeypatch, *arguments) == 1
    assert "S1 at https://s1.example:8441 cannot be reached" in capsys.readouterr().err
    (job,) = deployed.s0.jobs
    assert exit_code(monkeypatch, *arguments) == 1
    assert document("job", "create", "--kit", "kits/requester-1", "--resume", job)["state"] == "open"
    assert deployed.s1.jobs == [job]


def test_a_warning_is_told_on_standard_error_and_leaves_the_document_alone(here, deployed):
    result = invoke(
        "job", "create", *REQUESTER, "--data", "public.npz", *CREATE, "--epsilon", 8, "--min-teachers", 5, "--json"
    )
    assert json.loads(result.stdout)["state"] == "open"
    first, second = (line for line in result.stderr.splitlines() if line.startswith("warning: "))
    assert first.startswith("warning: The job needs the votes of 5 teachers, and 4 are enrolled")
    assert second.startswith("warning: At most ")


def test_a_retry_is_told_on_standard_error_and_leaves_the_document_alone(here, deployed):
    job = create()
    deployed.s0.fault("PUT .*/ballot", Fail.LOSE)
    result = invoke("vote", "--kit", "kits/teacher-001", "--job", job, "--predictions", "preds.npy", "--json")
    assert json.loads(result.stdout)["complete"] is True
    assert "Trying again." in result.stderr


def test_neither_votes_nor_tokens_nor_shares_are_printed(here, deployed):
    job = create()
    text = done("vote", "--kit", "kits/teacher-001", "--job", job, "--predictions", "preds.npy", "--json")
    text += done("doctor", "--kit", "kits/teacher-001") + done("rotate", "--kit", "kits/teacher-001")
    text += done("doctor", "--kit", "kits/teacher-001", "--json")
    for kit in (ClientKit.load("kits/teacher-001"), ClientKit.load("kits/requester-1")):
        assert not any(access.token in text for access in kit.servers.values())
        assert kit.secret.hex() not in text
    assert not any(server.bodies("PUT .*/ballot")[0].hex() in text for server in deployed.servers)
    assert "0, 1, 2" not in text


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["job", "create", "--kit", "kits/requester-1", "--data", "public.npz"], 2, "--classes"),
        (["job", "run", "0" * 32, "--kit", "kits/requester-1"], 1, "no such job"),
        (["job", "run", "zz", "--kit", "kits/requester-1"], 1, "begins with zz"),
        (["job", "status", "x" * 32, "--kit", "kits/requester-1"], 2, f"'{'x' * 32}' is no"),
        (["job", "labels", "0" * 32, "--kit", "kits/requester-1", "--out", "none/labels.npy"], 2, "folder"),
        (["job", "run", "0" * 32, "--kit", "kits/teacher-001"], 2, "kit of a teacher"),
        (["vote", "--job", "0" * 32, "--kit", "kits/teacher-001"], 2, "one of the three"),
        (["vote", "--job", "0" * 32, "--kit", "kits/teacher-001", "--model", "none.joblib"], 2, "none.joblib"),
        (["vote", "--job", "0" * 32, "--kit", "kits/teacher-001", "--model", "public.npz"], 2, "cannot be loaded"),
        (["vote", "--job", "0" * 32, "--kit", "kits/none", "--predictions", "preds.npy"], 2, "kit.toml is missing"),
        (["vote", "--job", "0" * 32, "--kit", "kits/teacher-001", "--predictions", "preds.npy"], 1, "no such job"),
        (["account", "list", "--kit", "kits/teacher-001"], 2, "kit of a teacher"),
        (["account", "add", "public.npz", "--kit", "kits/operator-s0"], 2, "enrolment"),
    ],
)
def test_what_cannot_be_done_is_explained(here, monkeypatch, capsys, arguments, code, text):
    assert exit_code(monkeypatch, *arguments) == code
    error = capsys.readouterr().err
    assert text in error.replace("\n", " ")
    assert "Traceback" not in error


def test_an_operator_enrols_lists_and_revokes(here, deployed):
    enrol(here / "new", "clinic-7", "teacher", ADDRESSES, here / "kits" / "s0" / "ca.pem")
    assert "Teacher clinic-7 may call S0." in done("account", "add", "new/enrolment.json", "--kit", "kits/operator-s0")
    assert document("account", "add", "new/enrolment.json", "--kit", "kits/operator-s1")["name"] == "clinic-7"
    assert "clinic-7" in done("account", "list", "--kit", "kits/operator-s0")
    assert document("job", "list", "--kit", "new") == {"jobs": []}
    assert "clinic-7 may not call S0" in done("account", "revoke", "clinic-7", "--kit", "kits/operator-s0")
    accounts = document("account", "list", "--kit", "kits/operator-s0")["accounts"]
    assert [one["name"] for one in accounts if one["revoked_at"]] == ["clinic-7"]
    assert document("account", "revoke", "clinic-7", "--kit", "kits/operator-s1")["revoked_at"]


def test_tokens_are_replaced(here, deployed):
    before = ClientKit.load("kits/teacher-001")
    assert "new tokens for S0 and S1" in done("rotate", "--kit", "kits/teacher-001")
    assert document("rotate", "--kit", "kits/teacher-001") == {"name": "teacher-001", "servers": ["s0", "s1"]}
    assert ClientKit.load("kits/teacher-001").servers["s0"].token != before.servers["s0"].token
    assert document("job", "list", "--kit", "kits/teacher-001") == {"jobs": []}


def test_the_doctor_says_what_is_wrong_and_exits_with_3(here, deployed):
    assert "PASS" in done("doctor", "--kit", "kits/teacher-001")
    deployed.s1.replace_token("teacher-001", new_token())
    result = invoke("doctor", "--kit", "kits/teacher-001")
    assert result.exit_code == 3
    assert "FAIL" in result.output
    result = invoke("doctor", "--kit", "kits/teacher-001", "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert found["healthy"] is False
    assert {check["what"] for check in found["checks"] if check["verdict"] == "FAIL"} == {"S1 token"}


@pytest.mark.parametrize(
    "command",
    [
        *(["job", name] for name in ("create", "list", "status", "run", "labels", "fetch", "delete")),
        *(["account", name] for name in ("add", "revoke", "list")),
        ["vote"],
        ["doctor"],
        ["rotate"],
        ["log"],
        ["budget"],
    ],
    ids=" ".join,
)
def test_every_help_text_of_a_deployment_has_an_example(command):
    assert f"Example: sedml {' '.join(command)}" in done(*command, "--help")


def test_a_job_of_a_table_says_how_its_columns_were_read(here, deployed):
    lines = ["image_id,age,density", *(f"img-{k},{k % 7},{k}" for k in range(50))]
    (here / "public.csv").write_text("\n".join(lines))
    told = done("job", "create", *REQUESTER, "--data", "public.csv", *CREATE)
    assert "2 features: age, density; ids: image_id." in told
