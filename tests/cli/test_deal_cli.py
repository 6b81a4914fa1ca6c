"""`sedml deal` as a dealer uses it: once, for one job, and day and night."""

import json

import numpy as np

from sedml.service.kits import ClientKit
from support.cli_calls import REQUESTER, create, document, exit_code, invoke, vote
from support.client_parties import VOTES
from support.wire import Fail

DEALER = ("--kit", "kits/dealer-1")


def voted(deployed, dealer="dealer-1", closed=True):
    """A job whose vote is over."""
    job = create("--dealer", dealer)
    vote(job, teachers=3)
    if closed:
        deployed.close(job)
    return job


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
    assert not deployed.s0.bodies(f"PUT .*({voting}|{other})/seed")
    result = document("job", "run", first, *REQUESTER)
    assert result["labels"] == deployed.expected(first, np.tile(VOTES, (3, 1))).tolist()


def test_one_job_is_dealt_for_again_and_says_the_same(here, deployed):
    job = voted(deployed)
    (found,) = document("deal", *DEALER, "--job", job[:6])["jobs"]
    assert (found["id"], found["terms"]["dealer"]) == (job, "dealer-1")
    assert document("deal", *DEALER, "--job", job)["jobs"][0]["state"] == "done"
    assert "requester-1, " in invoke("job", "status", create(), *REQUESTER).output


def test_a_job_that_cannot_be_dealt_for_does_not_keep_the_others_waiting(here, deployed):
    first, second = voted(deployed), voted(deployed)
    deployed.s1.take_seed(second, bytes(32))  # somebody else's
    result = invoke("deal", *DEALER)
    assert f"Dealt for job {first}" in result.output
    assert "correlations are" in str(result.exception)


def test_a_dealer_goes_on_until_it_is_stopped(here, deployed, monkeypatch, capsys):
    """Whatever happens between two looks: a new job, a server that is away, one job that cannot be dealt for."""
    bad = voted(deployed)
    deployed.s1.take_seed(bad, bytes(32))
    jobs, pauses = [], []

    def later(seconds):
        pauses.append(seconds)
        if len(pauses) in (1, 2):
            deployed.s1.fault("GET /v1/jobs$", Fail.REFUSE, times=4)
        if len(pauses) == 10:
            jobs.append(voted(deployed))
        if len(pauses) == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", later)
    assert exit_code(monkeypatch, "deal", *DEALER, "--watch", "--json") == 130
    said = capsys.readouterr()
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == jobs
    # Said once, and once more after something went well.
    assert said.err.count("correlations are") == 2
    assert said.err.count("cannot be reached") - said.err.count("Trying again") == 1
    assert pauses[:9] == sorted(pauses[:9])
    assert pauses[9] == 5.0
    assert pauses[10] < 1
    secret = ClientKit.load("kits/dealer-1").secret.hex()
    assert secret not in said.out + said.err


def test_what_makes_no_sense_is_refused(here, deployed, monkeypatch, capsys):
    assert invoke("deal", *DEALER, "--job", "0" * 32, "--watch").exit_code == 2
    assert exit_code(monkeypatch, "deal", *REQUESTER) == 2
    assert exit_code(monkeypatch, "deal", *DEALER, "--job", "0" * 32) == 1
    assert "kit of a requester" in capsys.readouterr().err
