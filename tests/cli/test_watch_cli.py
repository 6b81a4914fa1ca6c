"""`sedml vote --watch` as a person sees it; that it stops on signals from outside is seen in `tests/e2e`."""

import json
import signal
import threading

import anyio
import pytest

from support.cli_calls import CREATE, REQUESTER, create, document, done, exit_code, invoke
from support.wire import Fail

WATCH = ("vote", "--kit", "kits/teacher-001", "--watch", "--model", "model.joblib")


@pytest.fixture
def stops(monkeypatch):
    """Ctrl-C comes at the pause of this number."""

    def after(pauses: int) -> None:
        seen = []

        async def pause(_seconds):
            seen.append(1)
            if len(seen) == pauses:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                await anyio.sleep_forever()

        monkeypatch.setattr("sedml.service.client.watching.anyio.sleep", pause)

    return after


def test_a_person_reads_what_was_voted_on_what_not_and_why(here, deployed, stops):
    done("job", "create", *REQUESTER, "--data", "public.npz", *CREATE, "--title", "[red]digits")
    job = create()
    dear = document("job", "create", *REQUESTER, "--data", "public.npz", *CREATE, "--epsilon", 40)["id"]
    deployed.s0.fault("GET /v1/jobs$", Fail.REFUSE)
    stops(2)
    text = done(*WATCH, "--max-epsilon", 31, "--max-total-epsilon", 60)
    first, away, *middle, back, last = text.splitlines()
    limits = "epsilon 31 a job and 60 in all, for each organisation at delta 1e-05"
    assert first == f"Waiting for jobs, to vote on those within {limits}. Ctrl-C stops."
    assert "S0 at https://s0.example:8440 cannot be reached" in away
    assert away.endswith("Trying again until it works.")
    assert len(middle) == 3
    assert any("([red]digits): epsilon " in line for line in middle)
    assert any(f"voted {job}: epsilon " in line and line.endswith(" of 60 in all.") for line in middle)
    assert any(f"skipped {dear}: It costs each organisation epsilon 3" in line for line in middle)
    assert back.endswith("The servers answer again.")
    assert last == "Stopped. What was voted on stays voted on."


def test_a_machine_reads_one_document_a_line(here, deployed, stops):
    job = create()
    stops(1)
    result = invoke(*WATCH, "--max-epsilon", 31, "--json")
    assert result.exit_code == 0, result.output
    (event,) = [json.loads(line) for line in result.stdout.splitlines()]
    assert (event["event"], event["job"], event["reason"]) == ("voted", job, None)
    assert 29 < event["epsilon"] == pytest.approx(event["total_epsilon"])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--watch", "--max-epsilon", 1], "--model"),
        (["--watch", "--model", "model.joblib"], "--max-epsilon"),
        (["--watch", "--model", "model.joblib", "--max-epsilon", 1, "--job", "0" * 32], "--job"),
        (["--watch", "--model", "model.joblib", "--max-epsilon", 0], "max_epsilon is 0"),
        (["--watch", "--model", "none.joblib", "--max-epsilon", 1], "none.joblib"),
        (["--predictions", "preds.npy", "--max-total-epsilon", 1], "--max-total-epsilon"),
        (["--predictions", "preds.npy", "--delta", 1e-5], "--delta"),
        (["--predictions", "preds.npy", "--unit", "patient", "--interval", 5], "--unit, --interval"),
    ],
)
def test_options_that_do_not_go_together_are_explained(here, monkeypatch, capsys, options, text):
    assert exit_code(monkeypatch, "vote", "--kit", "kits/teacher-001", *options) == 2
    assert text in capsys.readouterr().err


def test_a_job_need_not_be_named_where_there_is_only_one(here, deployed, monkeypatch, capsys):
    assert exit_code(monkeypatch, "vote", "--kit", "kits/teacher-001", "--predictions", "preds.npy") == 2
    assert "no unfinished job" in capsys.readouterr().err
    job = create()
    for number in range(1, 5):
        found = document("vote", "--kit", f"kits/teacher-00{number}", "--predictions", "preds.npy")
        assert found["job"] == job
    create()
    assert exit_code(monkeypatch, "job", "run", *REQUESTER) == 2
    assert "2 jobs that are not over" in capsys.readouterr().err
    document("job", "run", job, *REQUESTER)
    assert exit_code(monkeypatch, "job", "run", *REQUESTER) == 1
    assert "0 teachers have voted" in capsys.readouterr().err
