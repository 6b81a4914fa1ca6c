"""The commands of a deployment as people and scripts call them."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sedml.cli import app, main
from support.client_parties import TERMS

CREATE = [f"--{name.replace('_', '-')}={value}" for name, value in TERMS.items()]
"""The options of a job that can be run with three teachers."""
REQUESTER = ("--kit", "kits/requester-1")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def done(*arguments: object) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.output


def document(*arguments: object) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output + repr(result.exception)
    return json.loads(result.stdout)


def exit_code(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Through `main`, which turns errors into messages and exit codes."""
    monkeypatch.setattr(sys, "argv", ["sedml", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    return caught.value.code


def create(*more: str) -> str:
    """A new job; its id."""
    return document("job", "create", *REQUESTER, "--data", "public.npz", *CREATE, *more)["id"]


def vote(job: str) -> None:
    for number in range(1, 5):
        done("vote", "--kit", f"kits/teacher-00{number}", "--job", job, "--predictions", "preds.npy")
