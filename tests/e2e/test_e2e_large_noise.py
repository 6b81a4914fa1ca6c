"""Terms with large noise, many at once: they are checked at little cost, and nobody else waits for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, time

import pytest

from support.deployment import terms_for
from support.live_servers import Live

AT_ONCE = 40
TEACHER_WAITS = 3.0
"""Seconds, at most, on a busy machine."""
GROWS = 100 << 20


@pytest.mark.parametrize(("largest", "answers"), [(131_072, {422}), (16_384, {201, 429})])
def test_a_flood_of_large_sigmas_holds_nobody_up(served: Live, largest: int, answers: set[int]):
    server, token = served.s0, served.token("requester-2", "s0")
    over = threading.Event()

    def create(number: int) -> tuple[str, int]:
        terms = terms_for(
            8,
            requester="requester-2",
            sigma1=largest - number,
            sigma2=largest - number - 0.5,
            deadline=int(time()) + 900,
        )
        return terms.id, server.ask("PUT", f"/v1/jobs/{terms.id}", token, terms.model_dump(mode="json")).status

    def wait_as_a_teacher() -> float:
        slowest, teacher = 0.0, served.token("teacher-001", "s0")
        while not over.is_set():
            start = perf_counter()
            assert server.ask("GET", "/v1/jobs", teacher).status == 200
            slowest = max(slowest, perf_counter() - start)
        return slowest

    before = server.resident
    with ThreadPoolExecutor(AT_ONCE + 1) as pool:
        waited = pool.submit(wait_as_a_teacher)
        try:
            created = list(pool.map(create, range(AT_ONCE)))
        finally:
            over.set()
    grown = server.resident - before
    for job, status in created:
        if status == 201:
            assert server.ask("DELETE", f"/v1/jobs/{job}", token).status == 200
    # One account has so many requests under way at once, and is told to wait with the others.
    assert {status for _, status in created} - {429} == answers - {429}
    assert waited.result() < TEACHER_WAITS
    assert grown < GROWS
