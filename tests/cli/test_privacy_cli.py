"""The commands of `sedml privacy`, as a person or a script runs them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from sedml.cli.aggregate import aggregate
from sedml.cli.privacy import privacy
from sedml.errors import FileFormatError, PredictionsError, PrivacyError, SedmlError, TaskError
from sedml.files.documents import finite
from sedml.privacy.accounting import job_report
from sedml.privacy.unit import Unit

REPORT = ["report", "--samples", "1000", "--sigma", "40", "--delta", "1e-5"]
PLAN = ["plan", "--epsilon", "3", "--delta", "1e-5", "--samples", "200"]
SMALL = [*PLAN, "--teachers", "40", "--classes", "3"]


def invoke(*arguments):
    return CliRunner().invoke(privacy, [str(argument) for argument in arguments])


def document(*arguments):
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout, parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def planned():
    """One plan as a document."""
    return document(*SMALL)


# ---- report -----------------------------------------------------------------------------------------


def test_report_has_every_figure_of_the_account():
    assert document(*REPORT) == asdict(job_report(1000, 40.0, 1e-5, classes=10))


def test_report_says_which_figure_is_the_claim():
    output = " ".join(invoke(*REPORT).output.split())
    cost = job_report(1000, 40.0, 1e-5, classes=10)
    assert f"The claim is epsilon {cost.epsilon:.4g}" in output
    for figure in (cost.epsilon_apart, cost.epsilon_zcdp):
        assert f"{figure:.4g}" in output


def test_report_says_what_an_organisation_is_left_with():
    whom = ["--unit", "patient", "--votes", "31", "--spread", "2"]
    output = " ".join(invoke(*REPORT, *whom).output.replace("│", " ").split())
    cost = job_report(1000, 40.0, 1e-5, classes=10, unit=Unit("patient", 31, 2))
    assert document(*REPORT, *whom) == finite(asdict(cost))
    assert f"The claim is epsilon {cost.epsilon:.4g}" in output
    assert "one patient, whose data is in at most 2 parts" in output
    assert "in effect none" in output


# ---- plan -------------------------------------------------------------------------------------------


def test_plan_for_a_few_organisations_with_many_votes(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    whom = ["--teachers", "8", "--votes", "12", "--unit", "patient", "--classes", "3", "--agreement", "0.9"]
    output = invoke(*PLAN, *whom).output
    for text in (
        "for each patient",
        " of 96 votes",
        "one organisation",
        "8 x 24",
        "12 x 12",
        "--unit patient --votes 12",
    ):
        assert text in output
    tables = [line for line in output.splitlines() if not line.startswith("  sedml")]
    assert max(map(len, tables)) <= 80
    found = document(*PLAN, *whom, "--abstain", "0.2")
    assert found["privacy"]["unit"] == {"name": "patient", "votes": 12, "spread": 1}
    assert found["chosen"]["threshold"] > 12
    assert [(one["teachers"], one["votes"]) for one in found["by_votes"]] == [(8, 1), (8, 24), (12, 12), (16, 12)]
    assert "20% of the votes abstain" in found["source"]


def test_plan_counts_votes_that_abstain_in_a_sample(tmp_path):
    predictions = np.repeat([[0, 1, 2, 1]], 40, axis=0)
    predictions[:10] = -1
    np.save(tmp_path / "predictions.npy", predictions)
    told = document(*PLAN, "--classes", 3, "--sample", tmp_path / "predictions.npy", "--votes", 4, "--unit", "patient")
    assert (told["teachers"], told["privacy"]["unit"]["votes"]) == (10, 4)
    assert told["source"].startswith("40 public votes")


def test_plan_prints_terms_costs_and_the_curves(planned):
    told = planned
    chosen = told["chosen"]
    assert told["privacy"]["epsilon"] == chosen["epsilon"] <= 3
    assert chosen["accuracy"] >= told["min_accuracy"] == 0.9
    assert chosen["right"] <= chosen["answered"] <= chosen["asked"] <= told["samples"] == 200
    assert told["by_epsilon"][-1]["epsilon"] == pytest.approx(2 * chosen["epsilon"])
    assert chosen in told["by_asked"]


def test_plan_for_people(planned):
    told = planned
    output = invoke(*SMALL).output
    chosen = told["chosen"]
    for text in ("samples to ask about", "threshold T", "sigma", "neither operator", "the plan"):
        assert text in output
    assert f"{chosen['sigma']:g}" in output
    assert f"{told['privacy']['epsilon_apart']:.4g}" in output
    assert told["command"] in output


def test_the_command_line_of_a_plan_runs_and_costs_what_was_planned(planned, tmp_path, monkeypatch):
    told = planned
    monkeypatch.chdir(tmp_path)
    np.save("predictions.npy", np.zeros((40, told["chosen"]["asked"]), np.int8))
    app = typer.Typer()
    app.command()(aggregate)
    app.callback()(lambda: None)
    result = CliRunner().invoke(app, [*shlex.split(told["command"])[1:], "--json"])
    assert result.exit_code == 0, result.output
    ran = json.loads(result.stdout)
    assert [ran[name] for name in ("threshold", "sigma")] == [told["chosen"][name] for name in ("threshold", "sigma")]
    assert ran["privacy"] == told["privacy"]
    assert ran["privacy"]["epsilon"] <= 3


def test_plan_reads_public_votes_in_every_form(tmp_path):
    generator = np.random.default_rng(3)
    labels = generator.integers(3, size=400)
    wrong = (labels + generator.integers(1, 3, size=(40, 400))) % 3
    predictions = np.where(generator.random((40, 400)) < generator.beta(4, 1, size=400), labels, wrong)
    counts = np.stack([(predictions == c).sum(axis=0) for c in range(3)], axis=1)
    forms = {
        "predictions": {"predictions": predictions, "labels": labels},
        "rows": {"votes": counts.astype(np.uint8), "labels": labels},
    }
    plans = []
    for name, arrays in forms.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
        plans.append(document(*PLAN, "--classes", 3, "--sample", tmp_path / f"{name}.npz"))
    assert plans[0]["teachers"] == 40
    assert plans[0] == plans[1]
    assert "true label" in plans[0]["source"]


def test_plan_without_labels_takes_the_plurality(tmp_path):
    np.save(tmp_path / "predictions.npy", np.repeat([[0, 1, 2, 1]], 60, axis=0))
    told = document(*PLAN, "--classes", 3, "--sample", tmp_path / "predictions.npy", "--teachers", 30)
    assert told["teachers"] == 30
    assert "plurality" in told["source"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (PLAN, TaskError),
        ([*SMALL, "--agreement", "1.5"], TaskError),
        ([*SMALL, "--agreement", "0.7", "--sample", "votes.npz"], TaskError),
        ([*SMALL, "--abstain", "0.2", "--sample", "votes.npz"], TaskError),
        ([*SMALL, "--abstain", "1.2"], TaskError),
        ([*SMALL, "--votes", "65"], TaskError),
        ([*SMALL, "--spread", "65", "--unit", "patient"], TaskError),
        ([*SMALL, "--votes", "31", "--unit", "hospital"], TaskError),
        ([*PLAN, "--sample", "missing.npz"], FileFormatError),
        ([*PLAN, "--sample", "votes.npz", "--classes", "4"], PredictionsError),
        ([*PLAN, "--sample", "votes.npz", "--classes", "5"], PredictionsError),
        ([*SMALL, "--epsilon", "0"], TaskError),
        ([*SMALL, "--epsilon", "0.01"], PrivacyError),
        ([*SMALL, "--min-accuracy", "0.9999999"], SedmlError),
    ],
)
def test_plan_says_what_is_wrong(monkeypatch, tmp_path, arguments, error):
    monkeypatch.chdir(tmp_path)
    np.savez("votes.npz", votes=np.ones((5, 3), int))
    result = invoke(*arguments)
    assert isinstance(result.exception, error)
    assert result.exception.do


# ---- Help -------------------------------------------------------------------------------------------


def examples(command):
    """The command lines that a help text shows, without `sedml privacy`."""
    text = next(found.callback.__doc__ for found in privacy.registered_commands if _name(found) == command)
    lines = re.sub(r"\n *(?=--)", " ", text).splitlines()
    return [shlex.split(line.split("sedml privacy ", 1)[1]) for line in lines if "Example: sedml privacy " in line]


def _name(command):
    return command.name or command.callback.__name__.replace("_", "-")


@pytest.mark.parametrize("command", ["report", "audit", "plan"])
def test_every_help_text_has_an_example_and_says_what_epsilon_is(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert examples(command)
    assert "any one teacher's votes" in " ".join(result.output.replace("│", " ").split())
    assert not re.search(r"/work|TODO", result.output)


# ---- audit ------------------------------------------------------------------------------------------


def test_an_audit_tests_both_claims_and_says_how_near_it_came():
    told = document("audit", "--runs", "200000")
    assert told["passed"]
    assert [found["view"] for found in told["views"]] == ["collusion", "requester"]
    for found in told["views"]:
        assert 0 < found["epsilon_lower"] < found["claim"]
        assert found["reached"] == pytest.approx(found["epsilon_lower"] / found["claim"])


def test_a_disproved_claim_has_an_exit_code_of_its_own(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = invoke("audit", "--runs", "50000", "--fault", "repeated")
    assert result.exit_code == 3
    lines = result.output.splitlines()
    assert sum("DISPROVED" in line for line in lines) == 2
    assert max(map(len, lines)) <= 80
    assert not json.loads(invoke("audit", "--runs", "50000", "--fault", "repeated", "--json").stdout)["passed"]


# ---- absurd values ----------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [REPORT, SMALL])
@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--samples", "0", "The number of samples is 0"),
        ("--delta", "0.5", "well below 1 / number of teachers"),
        ("--delta", "1e-300", "nine sigmas"),
        ("--delta", "0", "above 0 and below 1"),
        ("--delta", "nan", "above 0 and below 1"),
        ("--classes", "1", "The number of classes is 1"),
    ],
)
def test_absurd_values_are_refused(command, option, value, text):
    result = invoke(*command, option, value)
    assert isinstance(result.exception, TaskError)
    assert text in str(result.exception)
    assert not result.output
