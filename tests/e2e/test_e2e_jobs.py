"""Whole jobs on two real servers: run by the Python calls, refused, repeated call by call, past their deadline."""

from __future__ import annotations

import time

import anyio
import numpy as np
import pytest

import sedml
from sedml.errors import (
    BudgetExceededError,
    ConflictError,
    DeadlineError,
    InvalidTokenError,
    JobStateError,
    RevokedError,
    TooFewTeachersError,
)
from sedml.privacy.ledger import Ledger
from sedml.service.client import Operator
from sedml.service.client.administration import rotate
from sedml.service.kits import enrol
from sedml.service.server.settings import load_settings
from sedml.service.terms import Terms
from support.live_servers import FIRST_TIGHT, Live
from support.server_process import until
from support.tiers import DATABASES, thorough


def votes_for(samples: int, teachers: int = 5, classes: int = 3) -> np.ndarray:
    """Any votes at all, abstentions among them."""
    return np.random.default_rng(samples).integers(-1, classes, (teachers, samples))


# ---- To the end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("database", DATABASES)
def test_a_job_is_what_the_algorithm_makes_of_the_votes(request, database):
    live: Live = request.getfixturevalue(f"{database}_servers")
    votes = votes_for(64)
    terms = live.create(64)
    live.vote(terms.id, votes)
    labels = live.finish(terms.id)
    live.check_labels(terms, votes, labels)
    live.check_charged_once(terms)
    live.check_logs()


# ---- Refused ----------------------------------------------------------------------------------------------------


def test_too_few_teachers_end_a_job_and_cost_nothing(live: Live):
    before = reserved(live)
    terms = live.create(8, min_teachers=4)
    live.vote(terms.id, votes_for(8, 3))
    for server in live.servers:
        answer = server.ask("POST", f"/v1/jobs/{terms.id}/close", live.token("requester-1", server.name))
        assert answer.status == 200
    for server in live.servers:
        status = until(lambda server=server: in_state(live, terms.id, server, "refused"), "refused")
        assert status["problem"]["type"] == "urn:sedml:too-few-teachers"
        assert status["roster"] is None
    with pytest.raises(TooFewTeachersError, match="3 teachers took part"):
        live.finish(terms.id)
    assert reserved(live) == before


def test_a_budget_that_is_short_at_one_server_ends_the_job_at_both(live: Live):
    first, second = (live.create(64, cohort="tight") for _ in range(2))
    votes = votes_for(64)
    for terms in (first, second):
        live.vote(terms.id, votes, FIRST_TIGHT)
    close(live, first)
    for server in live.servers:
        until(lambda server=server: live.status(first.id, server)["roster"], "the roster of the first")
    close(live, second)
    for server in live.servers:
        status = until(lambda server=server: in_state(live, second.id, server, "refused"), "refused")
        assert status["problem"]["type"] == "urn:sedml:budget-exceeded"
        assert ("The other server" in status["problem"]["title"]) == (server.name == "s0")
    with pytest.raises(BudgetExceededError):
        live.finish(second.id)
    # What S0 had set aside for the second is free again, and the first had what it needed.
    labels = live.finish(first.id)
    live.check_labels(first, votes, labels)
    live.check_charged_once(first)
    with pytest.raises(BudgetExceededError):
        live.create(512, cohort="tight")


@thorough
def test_a_vote_ends_at_its_deadline_by_itself(served: Live):
    votes = votes_for(8, 4)
    for seconds in (3, 12, 48):  # a busy machine may be late for the first
        terms = served.create(8, deadline=f"{seconds}s")
        try:
            served.vote(terms.id, votes[:3])
            break
        except (DeadlineError, JobStateError):
            continue
    until(lambda: time.time() > terms.deadline + 0.1, "the deadline")
    with pytest.raises((DeadlineError, JobStateError)):
        served.vote(terms.id, votes[3:], first=4)
    for server in served.servers:
        until(lambda server=server: in_state(served, terms.id, server, "done"), "done, and nobody asked for it")
    labels = served.finish(terms.id)
    served.check_labels(terms, votes[:3], labels)


# ---- Who may call, while the servers run ------------------------------------------------------------------------


def test_teachers_come_and_go_without_a_restart(served: Live, tmp_path):
    operators = [Operator(served.kit(f"operator-{name}")) for name in ("s0", "s1")]
    addresses = tuple(f"127.0.0.1:{server.kit.port}" for server in served.servers)

    def join(folder: str):
        made = enrol(served.kits / folder, "clinic-7", "teacher", addresses, served.kits / "authority" / "ca.pem")
        return made, served.kits / folder

    votes = votes_for(8)
    terms, later = served.create(8), served.create(8)
    served.vote(terms.id, votes[:4])
    document, kit = join("clinic")
    with pytest.raises(InvalidTokenError):
        sedml.Teacher(kit).vote(terms.id, predictions=votes[4])
    for operator in operators:
        operator.add_account(document)
        operator.add_account(document)
    assert sedml.Teacher(kit).vote(terms.id, predictions=votes[4]).complete

    old = served.token("clinic", "s0")
    anyio.run(rotate, served.kit("clinic"))
    assert served.token("clinic", "s0") != old
    assert served.s0.ask("GET", "/v1/server", old).code == "invalid-token"
    assert sedml.Teacher(kit).receipt(terms.id).complete

    operators[0].revoke_account("clinic-7")
    operators[0].revoke_account("clinic-7")
    with pytest.raises(RevokedError):
        sedml.Teacher(kit).vote(later.id, predictions=votes[4])
    # The other operator has not yet heard of it.
    assert served.s1.ask("GET", "/v1/server", served.token("clinic", "s1")).status == 200
    with pytest.raises(ConflictError):
        operators[1].add_account(join("clinic-again")[0])
    operators[1].revoke_account("clinic-7")
    anew, new_kit = join("clinic-anew")
    for operator in operators:
        operator.add_account(anew)
    assert sedml.Teacher(new_kit).vote(later.id, predictions=votes[4]).complete
    # What was acknowledged before stays, whatever became of the account.
    labels = served.finish(terms.id)
    served.check_labels(terms, votes, labels)
    done = {(action, outcome) for _, action, outcome in served.actions("s0")}
    assert {("enrol", "teacher"), ("rotate", "done"), ("revoke", "done"), ("access", "revoked")} <= done


# ---- Looking ----------------------------------------------------------------------------------------------------


def in_state(live: Live, job: str, server, state: str):
    status = live.status(job, server)
    assert status["state"] not in {"failed", "expired"}, status["problem"]
    return status if status["state"] == state else None


def close(live: Live, terms: Terms) -> None:
    for server in live.servers:
        assert server.ask("POST", f"/v1/jobs/{terms.id}/close", live.token("requester-1", server.name)).status == 200


def reserved(live: Live) -> list[tuple[float, float]]:
    found = []
    for server in live.servers:
        with Ledger.open(load_settings(server.kit).ledger) as ledger:
            status = ledger.status("teachers")
            found.append((status.rho.spent, status.rho.reserved))
    return found
