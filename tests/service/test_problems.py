"""Errors over HTTP and back: every one of ours, and nothing else that a lying server may name."""

import pytest

from sedml import errors
from sedml.errors import SedmlError, ServerError
from sedml.service.messages import Problem
from sedml.service.problems import PREFIX, code_of, error_of, problem_of

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SedmlError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_comes_back_as_itself(kind):
    assert type(error_of(problem_of(kind("What happened.", "What to do.")))) is kind


@pytest.mark.parametrize("name", [name for name in vars(errors) if getattr(errors, name) not in KINDS])
def test_what_is_not_an_error_is_never_called(name):
    for code in (name, name.replace("_", "-"), code_of(type(name, (), {}))):
        found = error_of(Problem(type=PREFIX + code, title="What.", status=500, detail="Do."))
        assert type(found) is ServerError
