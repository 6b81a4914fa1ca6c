"""`sedml deal` as a dealer uses it: once, for one job, and day and night."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from sedml.cli import app, main
from sedml.service.kits import ClientKit
from sedml.service.states import JobState
from support.fake_servers import deployed, kits, provisioned, small_blocks

__all__ = ["deployed", "kits", "provisioned", "small_blocks"]

DEALER, REQUESTER = ("--kit", "kits/dealer-1"), ("--kit", "kits/requester-1")
TERMS = {"classes": 3, "threshold": 0.5, "epsilon": 30, "delta": 1e-5, "min-teachers": 3, "deadline": "7d"}
CREATE = [f"--{name}={value}" for name, value in TERMS.items()] + ["--data", "public.npy"]


@pytest.fixture
def here(kits, deployed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SEDML_KIT", raising=False)
    np.save("public.npy", np.zeros((50, 2), np.float32))
    np.save("preds.npy", np.arange(50) % 3)
    return tmp_path


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def document(*arguments):
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output + repr(result.exception)
    return json.loads(result.stdout)


def voted(deployed, dealer="dealer-1", closed=True):
    """A job whose vote is over."""
    job = document("job", "create", *REQUESTER, *CREATE, "--dealer", dealer)["id"]
    for number in range(1, 5):
        document("vote", "--kit", f"kits/teacher-00{number}", "--job", job, "--predictions", "preds.npy")
    if closed:
        close(deployed, job)
    return job


def close(deployed, job):
    for server in deployed.servers:
        server.jobs[job].state = JobState.CLOSED
    deployed.advance(job)


def test_a_dealer_deals_for_all_jobs_that_wait_for_it(here, deployed, small_blocks):
    first, second, voting = voted(deployed), voted(deployed), voted(deployed, closed=False)
    other = voted(deployed, "dealer-2")
    text = invoke("job", "status", first, *DEALER).output
    assert "dealt by" in text
    assert "dealer-1" in text
    assert {job["id"] for job in document("job", "list", *DEALER)["jobs"]} == {first, second, voting}
    result = invoke("deal", *DEALER)
    assert result.exit_code == 0, result.output
    assert {line.split()[3] for line in result.stdout.splitlines()} == {first, second}
    assert "No job is waiting" in invoke("deal", *DEALER).output
    assert document("deal", *DEALER) == {"jobs": []}
    assert deployed.s0.jobs[voting].seed is deployed.s0.jobs[other].seed is None
    result = document("job", "run", first, *REQUESTER)
    assert result["labels"] == deployed.expected(first, np.tile(np.arange(50) % 3, (4, 1))).tolist()


def test_one_job_is_dealt_for_again_and_says_the_same(here, deployed):
    job = voted(deployed)
    (found,) = document("deal", *DEALER, "--job", job[:6])["jobs"]
    assert (found["id"], found["terms"]["dealer"]) == (job, "dealer-1")
    assert document("deal", *DEALER, "--job", job)["jobs"][0]["state"] == "done"
    assert "requester-1, who asks" in invoke("job", "create", *REQUESTER, *CREATE).output


def test_a_job_that_cannot_be_dealt_for_does_not_keep_the_others_waiting(here, deployed, monkeypatch):
    first, second = voted(deployed), voted(deployed)
    deployed.s0.jobs[second].seed = bytes(32)  # somebody else's
    result = invoke("deal", *DEALER)
    assert f"Dealt for job {first}" in result.output
    assert "Another seed is on record" in str(result.exception)


def test_a_dealer_goes_on_until_it_is_stopped(here, deployed, monkeypatch, capsys):
    """Whatever happens between two looks: a new job, a server that is away, one job that cannot be dealt for."""
    bad = voted(deployed)
    deployed.s0.jobs[bad].seed = bytes(32)
    jobs, pauses = [], []

    def later(seconds):
        pauses.append(seconds)
        if len(pauses) in (1, 2):
            deployed.s1.fault("GET /v1/jobs$", "refuse", times=4)
        if len(pauses) == 10:
            jobs.append(voted(deployed))
        if len(pauses) == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", later)
    monkeypatch.setattr("sys.argv", ["sedml", "deal", *DEALER, "--watch", "--json"])
    with pytest.raises(SystemExit) as exit_:
        main()
    assert exit_.value.code == 130
    said = capsys.readouterr()
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == jobs
    # Said once, and once more after something went well.
    assert said.err.count("Another seed is on record") == 2
    assert said.err.count("cannot be reached") - said.err.count("Trying again") == 1
    assert pauses[:9] == sorted(pauses[:9])
    assert pauses[9] == 5.0
    assert pauses[10] < 1
    secret = ClientKit.load("kits/dealer-1").secret.hex()
    assert secret not in said.out + said.err


def test_what_makes_no_sense_is_refused(here, deployed, monkeypatch, capsys):
    assert invoke("deal", *DEALER, "--job", "0" * 32, "--watch").exit_code == 2
    for arguments, code in ((["deal", *REQUESTER], 2), (["deal", *DEALER, "--job", "0" * 32], 1)):
        monkeypatch.setattr("sys.argv", ["sedml", *arguments])
        with pytest.raises(SystemExit) as exit_:
            main()
        assert exit_.value.code == code
    assert "kit of a requester" in capsys.readouterr().err
