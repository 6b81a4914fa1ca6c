"""Sends a server what its description allows, and much that it does not, and checks every answer against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

__all__ = ["check_api"]

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def check_api(
    app: Any, callers: Sequence[str], *, examples: int = 6, seed: int | None = None, **known: str | int
) -> Counter[int]:
    """Raise unless every answer is one that the interface describes, and none is an error of the server.

    Requests are sent by any of the callers, who are named by their tokens, and by nobody. `known` are path parameters
    of things that exist: two requests in three are about those. Returned is how often each status came. Without a seed
    the requests are always the same.
    """
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    answered: Counter[int] = Counter()
    tokens, existing = st.sampled_from([*callers, None]), st.sampled_from([True, True, False])
    for result in schema.get_all_operations():
        operation = result.ok()
        takes_something = bool(
            operation.definition.raw.get("parameters") or operation.definition.raw.get("requestBody")
        )
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)[: 1 + takes_something]:
            run = settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=seed is None,
                suppress_health_check=[*HealthCheck],
            )

            @run
            @given(case=operation.as_strategy(generation_mode=mode), token=tokens, exists=existing)
            def send(case: schemathesis.Case, token: str | None, exists: bool) -> None:
                if exists and case.path_parameters:
                    case.path_parameters |= {key: known[key] for key in case.path_parameters if key in known}
                case.headers.pop("Authorization", None)
                if token is not None:
                    case.headers["Authorization"] = f"Bearer {token}"
                answer = case.call()
                answered[answer.status_code] += 1
                case.validate_response(answer, checks=CHECKS)

            (send if seed is None else hypothesis.seed(seed)(send))()
    return answered
