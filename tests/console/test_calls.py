"""What the page asks for, on a real deployment: a whole job by three roles, what is refused, and no secret anywhere."""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import anyio
import numpy as np
import pytest

from sedml import silent
from sedml.console.job_documents import receipt_document
from sedml.console.live_plan import Planner, Question
from sedml.console.uploads import _read_privately
from sedml.errors import ConflictError
from sedml.files import load_one_teacher
from sedml.service.client import VoteReceipt
from sedml.service.client.request import JobRequest
from sedml.service.kits import ClientKit, enrol
from sedml.service.messages import Receipt
from support.console_client import Visitor, visiting
from support.live_servers import Live
from support.log_leaks import Secrets

TRUTH = np.arange(24) % 3
COHORTS = ("teachers", "sure", "tight", "wards")
JOB = {
    "classes": 3,
    "threshold": "3",
    "epsilon": 60.0,
    "delta": 0.09,
    "min_teachers": 4,
    "deadline": "1h",
    "sigma": 1.8,
    "title": "<b>Scans</b>",
    "cohort": "sure",
}

NO_COUNT = "A job cannot have this number of classes."


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def files_of(visitor: Visitor) -> list[Path]:
    """What the console keeps while it is open."""
    return [path for path in visitor.session.scratch.rglob("*") if path.is_file()]


def create(visitor: Visitor, asked: int = 24, ids: list[str] | None = None, **changes: object) -> dict:
    """A job on more samples than it asks about."""
    samples = np.random.default_rng().random((30, 4))
    content = npy(samples) if ids is None else npz(x=samples, ids=np.array(ids))
    laid = visitor.document("PUT", "/api/samples?name=scans.npy", content)
    assert laid["samples"] == 30
    return visitor.document("POST", "/api/jobs", {"file": laid["file"], "asked": asked, "job": JOB | changes})


def problem(visitor: Visitor, method: str, path: str, content: bytes | None = None) -> dict:
    answer = visitor.ask(method, path, content=content)
    assert answer.status_code >= 400, answer.text
    return answer.json()


def test_a_whole_job_by_three_roles(live: Live):
    with visiting(live.kits / "requester-1") as requester, visiting(live.kits / "operator-s1") as operator:
        job = create(requester)
        assert (job["title"], job["samples"], job["phase"]) == ("<b>Scans</b>", 24, "voting")
        assert job["id"] in [one["id"] for one in requester.document("GET", "/api/jobs")["jobs"]]

        early = requester.document("POST", f"/api/jobs/{job['id']}/run")
        assert early["title"] == "0 teachers have voted, and the terms ask for 4."

        for number in range(1, 6):
            with visiting(live.kits / f"teacher-{number:03}") as teacher:
                (open_,) = [one for one in teacher.document("GET", "/api/jobs")["jobs"] if one["id"] == job["id"]]
                assert not any(teacher.document("GET", f"/api/jobs/{job['id']}/receipt")["received"].values())
                cost = open_["cost"]
                assert 0 < cost["epsilon_apart"] < cost["epsilon"] <= job["epsilon"]
                assert cost["budget"]["before_share"] < cost["budget"]["after_share"]
                if number == 1:
                    samples = teacher.ask("GET", f"/api/jobs/{job['id']}/samples")
                    assert np.load(io.BytesIO(samples.content)).shape == (24, 4)
                    assert list(teacher.session.scratch.iterdir()) == []
                if number == 1:
                    before = live.rows()
                    seen = teacher.document("POST", f"/api/jobs/{job['id']}/preview?name=votes.npy", npy(TRUTH))
                    assert seen == {"votes": [TRUTH[:10].tolist()], "ids": None, "counts": [8, 8, 8], "abstained": 0}
                    assert live.rows() == before
                receipt = teacher.document("POST", f"/api/jobs/{job['id']}/vote?name=votes.npy", npy(TRUTH))
                assert receipt["complete"]
                assert all(receipt["received"].values())
                assert teacher.document("GET", f"/api/jobs/{job['id']}/receipt") == receipt
                (kept,) = [
                    one for one in teacher.document("GET", "/api/receipts")["receipts"] if one["id"] == job["id"]
                ]
                assert (kept["title"], kept["deadline"]) == (job["title"], job["deadline"])
                assert list(teacher.session.scratch.iterdir()) == []

        assert requester.document("GET", f"/api/jobs/{job['id']}")["ballots"] == {"least": 5, "most": 5}
        result = requester.document("POST", f"/api/jobs/{job['id']}/run")
        assert len(result["labels"]) == 24
        assert set(result["labels"]) <= {-1, 0, 1, 2}
        assert requester.document("GET", f"/api/jobs/{job['id']}/labels") == result

        array = requester.ask("GET", f"/api/jobs/{job['id']}/labels/npy")
        table = requester.ask("GET", f"/api/jobs/{job['id']}/labels/csv")
        labels = np.load(io.BytesIO(array.content))
        assert array.headers["content-disposition"] == f'attachment; filename="labels-{job["id"][:8]}.npy"'
        assert table.text.splitlines()[1:] == [f"{sample},{label}" for sample, label in enumerate(labels)]
        assert labels.tolist() == result["labels"]

        (seen,) = [one for one in operator.document("GET", "/api/jobs")["jobs"] if one["id"] == job["id"]]
        assert (seen["state"], [server["server"] for server in seen["servers"]]) == ("done", ["s1"])
        audit = operator.document("GET", "/api/log?whole")
        actions = [line["action"] for line in audit["entries"] if line["subject"] == job["id"]]
        assert {"create", "publish", "vote", "close", "start", "finish"} <= set(actions)
        assert audit["complaint"] is None
        assert audit["said"].startswith("All ")
        evidence = requester.ask("GET", f"/api/jobs/{job['id']}/evidence")
        assert evidence.headers["content-disposition"] == f'attachment; filename="evidence-{job["id"][:8]}.html"'
        assert f"<h1>Job {job['id']}</h1>" in evidence.text

        assert requester.document("DELETE", f"/api/jobs/{job['id']}")["deleted"]


def test_samples_are_called_by_their_ids_and_classes_by_their_names(live: Live, tmp_path: Path):
    names, ids = ["cold", "influenza", "neither"], [f"S-{number:02}" for number in range(30)]
    table = "crp,scan,ward\n" + "".join(f"{number}.5,{name},{'AB'[number % 2]}\n" for number, name in enumerate(ids))
    job = JOB | {"classes": "cold,influenza,neither", "id_column": "scan"}
    with visiting(live.kits / "requester-1") as requester, visiting(live.kits / "teacher-008") as teacher:
        laid = requester.document("PUT", "/api/samples?name=Scans.CSV", table)
        assert (laid["samples"], laid["columns"], laid["id_column"]) == (30, ["crp", "scan", "ward"], None)

        def make(**changes: object) -> dict:
            return requester.document("POST", "/api/jobs", {"file": laid["file"], "asked": 24, "job": job | changes})

        refused = make(id_column="scam")
        assert (refused["field"], refused["title"]) == ("id_column", "Scans.CSV has no column 'scam'.")
        assert "'scan'" in refused["detail"]
        assert "holds classes, and samples are sent without" in make(classes="A,B")["title"]
        made = make()
        assert (made["class_names"], made["samples"]) == (names, 24)
        with np.load(io.BytesIO(teacher.ask("GET", f"/api/jobs/{made['id']}/samples").content)) as sent:
            assert (sent["ids"].tolist(), sent["columns"].tolist()) == (ids[:24], ["crp", "ward"])
            assert sent["x"][1].tolist() == ["1.5", "B"]
        scores = "scan,neither,cold,influenza\n" + "".join(f"{name},0.1,0.2,0.7\n" for name in reversed(ids[:24]))
        votes = "scan,found\n" + "".join(f"{ids[at]},{names[TRUTH[at]]}\n" for at in reversed(range(24)))
        look = f"/api/jobs/{made['id']}/preview?name=votes.csv"
        assert teacher.document("POST", look, scores)["counts"] == [0, 24, 0]
        seen = teacher.document("POST", look, votes)
        assert (seen["votes"], seen["ids"], seen["counts"]) == ([TRUTH[:10].tolist()], ids[:10], [8, 8, 8])
        assert "S-23" not in problem(teacher, "POST", look, votes.replace("S-23", "S-99").encode())["title"]
        assert teacher.document("POST", look.replace("preview", "vote"), votes)["complete"]
        live.vote(made["id"], np.tile(TRUTH, (4, 1)), first=1)
        labels = requester.document("POST", f"/api/jobs/{made['id']}/run")
        assert labels["ids"] == ids[:24]
        assert requester.document("GET", f"/api/jobs/{made['id']}/labels") == labels
        told = requester.ask("GET", f"/api/jobs/{made['id']}/labels/csv").text.splitlines()
        want = ["" if label < 0 else names[label] for label in labels["labels"]]
        assert told == ["sample,label", *(f"{name},{label}" for name, label in zip(ids, want, strict=False))]
        requester.document("DELETE", f"/api/jobs/{made['id']}")
        wrong = problem(requester, "POST", "/api/plan", json.dumps(QUESTION | {"classes": "a,=b"}).encode())
        assert (wrong["field"], wrong["title"]) == (
            "classes",
            "Class name 2 of 2 has a character that a name may not have.",
        )


def test_every_create_takes_the_file_that_was_sent_and_nothing_that_one_before_made_of_it(live: Live):
    rows = "".join(f"S-{at:02},P-{at:02},{at}.5\n" for at in range(30))
    with visiting(live.kits / "requester-1") as requester:
        laid = requester.document("PUT", "/api/samples?name=scans.csv", f"scan,patient,crp\n{rows}")

        def make(column: str, cohort: str) -> dict:
            job = JOB | {"id_column": column, "cohort": cohort}
            return requester.document("POST", "/api/jobs", {"file": laid["file"], "asked": 24, "job": job})

        assert "nobody" in make("scan", "nobody")["title"]
        assert [one.name for one in files_of(requester)] == ["scans.csv"]
        made = make("patient", "sure")
        with visiting(live.kits / "teacher-009") as teacher:
            content = teacher.ask("GET", f"/api/jobs/{made['id']}/samples").content
        with np.load(io.BytesIO(content)) as sent:
            assert sent["ids"].tolist() == [f"P-{at:02}" for at in range(24)]
        assert [one.name for one in files_of(requester)] == ["scans.csv"]
        requester.document("DELETE", f"/api/jobs/{made['id']}")


def test_an_organisation_votes_with_many_rows(live: Live):
    wards = {"unit": "patient", "votes": 3, "cohort": "wards", "threshold": "0.6"}
    with visiting(live.kits / "requester-1") as requester, visiting(live.kits / "teacher-007") as teacher:
        assert create(requester, cohort="tight")["field"] == "epsilon"
        other = create(requester, cohort="wards")
        assert other["title"] == 'The job protects each organisation, and the budget of cohort "wards" each patient.'
        job = create(requester, ids=[f"S-{number:02}" for number in range(30)], **wards)
        assert (job["unit"], job["votes"], job["spread"]) == ("patient", 3, 1)
        assert job["consensus"] == {"votes": 8, "of": 12}
        (seen,) = [one for one in teacher.document("GET", "/api/jobs")["jobs"] if one["id"] == job["id"]]
        assert seen["cost"]["promise"].startswith("Protects each patient, whose data is in at most 1 of your 3 parts")
        assert seen["cost"]["promise"].endswith("in effect none.")

        vote, rows = f"/api/jobs/{job['id']}/vote?name=votes", np.stack([TRUTH, TRUTH, np.full(24, -1)])
        for content, what, do in (
            (np.tile(TRUTH, (4, 1)), "have 4 rows, and this job's terms allow 3 votes", "Split your data into 3 parts"),
            (rows.T, "are 24 rows for 3 samples", "Give a row for each of your votes"),
        ):
            refused = problem(teacher, "POST", f"{vote}.npy", npy(content))
            assert what in refused["title"]
            assert do in refused["detail"]
        seen = teacher.document("POST", f"/api/jobs/{job['id']}/preview?name=votes.npy", npy(rows))
        assert (np.shape(seen["votes"]), seen["ids"]) == ((3, 10), [f"S-{number:02}" for number in range(10)])
        text = "".join(",".join(map(str, row)) + "\n" for row in rows.tolist())
        receipt = teacher.document("POST", f"{vote}.csv", text)
        assert receipt["complete"]
        assert receipt["parts"] is None
        assert teacher.document("POST", f"{vote}.npy", npy(rows))["received"] == receipt["received"]
        requester.document("DELETE", f"/api/jobs/{job['id']}")


def test_a_receipt_names_the_parts():
    half = Receipt(
        job=32 * "0", teacher="clinic-9", server="s1", ballot="b", parts=64 * "5", received_at=datetime.now(UTC)
    )
    assert receipt_document(VoteReceipt(half.job, None, half))["parts"] == half.parts


def test_budgets_and_checks_are_those_of_the_servers(live: Live):
    with visiting(live.kits / "requester-1") as requester:
        found = {(one["server"], one["cohort"]): one for one in requester.document("GET", "/api/budgets")["budgets"]}
        assert set(found) == {(server, cohort) for server in ("s0", "s1") for cohort in COHORTS}
        for (_, cohort), budget in found.items():
            assert budget["unit"] == ("patient" if cohort == "wards" else "organisation")
            assert 0 <= budget["used_share"] <= 1
        checks = requester.document("GET", "/api/checks")["checks"]
        assert {"kit", "S0 certificate", "S1 ready"} <= {check["what"] for check in checks}
        assert all(set(check) >= {"what", "verdict", "found", "do"} for check in checks)


def test_an_operator_adds_and_revokes_accounts(live: Live, tmp_path: Path):
    servers = tuple(f"127.0.0.1:{server.kit.port}" for server in live.servers)
    enrol(tmp_path / "clinic-9", "clinic-9", "teacher", servers, live.kits / "authority" / "ca.pem")
    with visiting(live.kits / "operator-s0") as operator:
        made = operator.document("PUT", "/api/accounts", (tmp_path / "clinic-9" / "enrolment.json").read_bytes())
        assert (made["name"], made["organisation"], made["role"]) == ("clinic-9", "clinic-9", "teacher")
        token = ClientKit.load(tmp_path / "clinic-9").servers["s0"].token
        assert all(token not in answer.text for answer in operator.answers)
        names = [one["name"] for one in operator.document("GET", "/api/accounts")["accounts"]]
        assert "clinic-9" in names
        assert operator.document("DELETE", "/api/accounts/clinic-9")["revoked_at"]
        assert problem(operator, "DELETE", "/api/accounts/operator-s0")["title"] == "An operator cannot revoke itself."
        assert problem(operator, "DELETE", "/api/accounts/..%2Fjobs")["status"] in (404, 422)
        wrong = problem(operator, "PUT", "/api/accounts", b'{"name": "x", "token": "sedml_secret"}')
        assert wrong["title"] == "This is not an enrolment (role: field required)."
        assert wrong["detail"] == "Ask for the enrolment.json that `sedml enrol` made."
        assert "sedml_secret" not in json.dumps(wrong)


def test_figures_are_those_of_the_server(live: Live):
    with visiting(live.kits / "operator-s0") as operator:
        figures = operator.document("GET", "/api/figures")["figures"]
    assert {"jobs", "alarms_total", "peer_seen_seconds", "http_requests_in_flight"} <= {one["name"] for one in figures}
    assert not [one for one in figures if one["name"].endswith("_bucket")]


def test_what_cannot_be_used_is_explained_by_the_name_of_the_file(live: Live):
    with visiting(live.kits / "requester-1") as requester, visiting(live.kits / "teacher-006") as teacher:
        wrong = problem(requester, "PUT", "/api/samples?name=../../notes.txt", b"hello")
        assert wrong["title"] == "_.._notes.txt is neither an .npz nor an .npy file."
        laid = requester.document("PUT", "/api/samples?name=scans.npy", npy(np.ones((30, 4))))
        requester.document("PUT", "/api/samples?name=others.npy", npy(np.zeros((24, 4))))  # from another page
        stale = requester.document("POST", "/api/jobs", {"file": laid["file"], "asked": 24, "job": JOB})
        assert stale["title"] == "This file of samples is no longer here."
        assert [file.stat().st_size for file in files_of(requester)] == [len(npy(np.zeros((24, 4))))]
        refused = create(requester, cohort="nobody")
        assert "nobody" in refused["title"]
        for changes, field, what in (
            ({"asked": 31}, "asked", "The file holds 30 samples."),
            ({"deadline": "soon"}, "deadline", "The deadline 'soon' cannot be read."),
            ({"deadline": "9000d"}, "deadline", "The deadline of the job is more than 366 days away."),
            ({"threshold": "most"}, "threshold", "The threshold 'most' is not a number that can be used."),
            ({"threshold": "1.6"}, "threshold", "The threshold 1.6 is neither a fraction nor a whole number of votes."),
            (
                {"threshold": "2", "votes": 3},
                "threshold",
                "One teacher alone, with its 3 votes, reaches the threshold.",
            ),
            ({"epsilon": 0.1}, "epsilon", None),
        ):
            refused = create(requester, **changes)
            assert (refused["field"], refused["title"]) == (field, what or refused["title"])
        for classes in ("10.5", "1"):
            wanted = {"file": laid["file"], "asked": 24, "job": JOB | {"classes": classes}}
            refused = problem(requester, "POST", "/api/jobs", json.dumps(wanted).encode())
            assert (refused["field"], refused["title"]) == ("classes", NO_COUNT)
        refused = create(requester, threshold="1.6", votes=3)
        assert refused["title"] == "The threshold 1.6 is neither a fraction nor a whole number of votes."
        job = create(requester)["id"]
        for name, content, what in (
            ("votes.txt", b"1", "votes.txt is not a file of a known kind (.txt)."),
            ("votes.npy", b"", "votes.npy is empty."),
            ("votes.npy", b"junk", "votes.npy is damaged, truncated or not a .npy file."),
            ("votes.npy", npy(TRUTH[:5]), "The predictions are those of 1 teacher for 5 samples."),
            ("", npy(TRUTH), "file is not a file of a known kind (no suffix)."),
        ):
            assert problem(teacher, "POST", f"/api/jobs/{job}/vote?name={name}", content)["title"] == what
        text = "sample,label\n" + "".join(f"{sample},{label}\n" for sample, label in enumerate(TRUTH))
        assert teacher.document("POST", f"/api/jobs/{job}/vote?name=votes.csv", text)["complete"]
        other = problem(teacher, "POST", f"/api/jobs/{job}/vote?name=votes.npy", npy(1 - TRUTH % 2))
        assert "earlier vote" in other["title"]
        requester.document("DELETE", f"/api/jobs/{job}")


def test_a_file_of_predictions_is_nowhere_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[bool] = []

    def read(path: Path) -> np.ndarray:
        seen.append(path.is_symlink())
        return load_one_teacher(path)

    assert _read_privately(npy(TRUTH), "votes.npy", read).tolist() == TRUTH.tolist()
    monkeypatch.delattr("os.memfd_create")
    assert _read_privately(npy(TRUTH), "votes.npy", read).tolist() == TRUTH.tolist()
    assert seen == [True, False]
    assert list(tmp_path.iterdir()) == []


def test_no_answer_holds_a_secret(live: Live):
    watched = Secrets()
    for name in ("requester-1", "teacher-001", "operator-s0"):
        kit = live.kit(name)
        watched.add(f"{name} secret", kit.secret)
        for server, access in kit.servers.items():
            watched.add(f"{name} token {server}", access.token.encode())
    for name in ("requester-1", "teacher-001", "operator-s0"):
        with visiting(live.kits / name) as visitor:
            watched.add(f"{name} session", visitor.admission._session.encode())
            for path in (
                "/",
                "/api/who",
                "/api/checks",
                "/api/budgets",
                "/api/jobs",
                "/api/accounts",
                "/api/log?whole",
                "/x",
            ):
                visitor.ask("GET", path)
            opening, *others = visitor.answers
            assert watched.found_in(opening.content) == []
            for answer in others:
                told = answer.content + repr(sorted(answer.headers.items())).encode()
                assert watched.found_in(told) == [], answer.url


def test_tokens_that_were_replaced_are_taken_up(live: Live):
    from sedml.service.client.administration import rotate

    with visiting(live.kits / "teacher-018") as teacher:
        anyio.run(rotate, live.kit("teacher-018"))
        assert "jobs" in teacher.document("GET", "/api/jobs")


QUESTION = {"epsilon": 2.0, "delta": 1e-5, "samples": 400, "teachers": 100, "classes": 10}


def test_a_plan_and_its_curve(kits: Path):
    with visiting(kits / "requester-1") as requester:
        plan = requester.document("POST", "/api/plan", QUESTION)
        chosen, curve = plan["chosen"], plan["curve"]
        assert 0 < chosen["right"] <= chosen["answered"] <= chosen["asked"] <= 400
        assert plan["epsilon_apart"] < chosen["epsilon"] <= 2.0
        assert [point["epsilon"] for point in curve] == sorted(point["epsilon"] for point in curve)
        assert curve[-1]["answered"] > curve[0]["answered"]
        wrong = problem(requester, "POST", "/api/plan", json.dumps(QUESTION | {"epsilon": "x"}).encode())
        assert (wrong["status"], wrong["field"]) == (422, "epsilon")
        for classes in ("10.5", "1", ""):
            wrong = problem(requester, "POST", "/api/plan", json.dumps(QUESTION | {"classes": classes}).encode())
            assert (wrong["field"], wrong["title"]) == ("classes", NO_COUNT)
            assert wrong["detail"] == "Use 2 to 4,096, or name them, as in benign, malignant."
        assert "0.001" in requester.document("POST", "/api/plan", QUESTION | {"epsilon": 0.001})["title"]
        assert plan["organisation"] is None
        many = QUESTION | {"teachers": 8, "votes": 25, "unit": "patient"}
        plan = requester.document("POST", "/api/plan", many)
        assert plan["chosen"]["threshold"] > 25
        assert plan["organisation"].endswith("in effect none")
        assert "spread" in requester.document("POST", "/api/plan", many | {"spread": 65})["title"]


def test_a_job_that_follows_the_plan_is_what_the_plan_says():
    """The plan is of epsilon 1 and the form says 1.9 already: a job of the one noise and the other promise."""
    planner, asked = Planner(), {"epsilon": 1.0, "delta": 1e-5, "teachers": 100, "classes": 3}
    question = Question(samples=400, **asked)
    plan = anyio.run(planner.plan, question, silent)["chosen"]
    job = {"classes": 3, "min_teachers": 100, "epsilon": 1.0, "delta": 1e-5, "deadline": "7d"}
    job |= {"threshold": str(plan["threshold"]), "sigma": plan["sigma"]}
    planner.check(question, plan["asked"], JobRequest(**job))
    for changes in ({"epsilon": 1.9}, {"sigma": 2.0}, {"threshold": "2"}, {"min_teachers": 99}, {"votes": 2}):
        with pytest.raises(ConflictError, match="The form has changed"):
            planner.check(question, plan["asked"], JobRequest(**job | changes))
    with pytest.raises(ConflictError, match="The form has changed"):
        planner.check(question, plan["asked"] + 1, JobRequest(**job))
    # What the terms do not have is in the form too.
    for changes in ({"agreement": 0.9}, {"samples": 401}, {"min_accuracy": 0.8}):
        with pytest.raises(ConflictError, match="The form has changed"):
            planner.check(question.model_copy(update=changes), plan["asked"], JobRequest(**job))
    with pytest.raises(ConflictError, match="The form has changed"):
        Planner().check(question, plan["asked"], JobRequest(**job))


def test_a_plan_that_nobody_waits_for_is_given_up():
    planner, question, steps = Planner(), Question(**QUESTION), []
    goes_on = threading.Event()

    async def hang_up() -> None:
        with anyio.CancelScope() as scope:

            def progress(what: str, done: int, total: int) -> None:
                steps.append(done)
                anyio.from_thread.run_sync(scope.cancel)
                assert goes_on.wait(60)

            await planner.plan(question, progress)

    anyio.run(hang_up)
    goes_on.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and "AnyIO" in thread.name:
            thread.join(60)
    assert steps == [1]
