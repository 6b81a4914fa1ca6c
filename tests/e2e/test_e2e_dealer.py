"""An independent dealer at real servers: it deals, the requester cannot, and another dealer sees nothing."""

from __future__ import annotations

import anyio
import numpy as np
import pytest

from sedml.errors import NotFoundError, TaskError
from sedml.service.client import AsyncDealer, AsyncRequester, Dealer
from sedml.service.client.dealer import seeds_for
from sedml.service.terms import task_of
from support.live_servers import Live
from support.server_process import WITHIN

pytestmark = pytest.mark.xdist_group("e2e")  # one pair of servers for all of them


def test_a_dealer_deals_while_the_requester_waits(live: Live):
    votes = np.random.default_rng(3).integers(-1, 3, (5, 64))
    terms = live.create(64, dealer="dealer-1")
    live.vote(terms.id, votes)
    told, refused = [], []

    def tell(what: str, done: int, total: int) -> None:
        if what.startswith("waiting for the dealer") and what not in told:
            refused.extend(attempts(live, terms))
        told.append(what)

    async def both() -> np.ndarray:
        with anyio.fail_after(WITHIN):
            async with anyio.create_task_group() as group:
                # It begins once the requester has seen that it must wait.
                group.start_soon(deal_once_told, live, terms.id, told)
                return (await AsyncRequester(live.kits / "requester-1").run(terms.id, tell)).labels

    labels = anyio.run(both)
    live.check_labels(terms, votes, labels)
    live.check_charged_once(terms, labels)
    assert "waiting for the dealer dealer-1" in told
    assert "dealing" not in told
    assert set(refused) == {(403, "forbidden")}
    for name in ("s0", "s1"):
        assert {actor for actor, action, _ in live.actions(name) if action == "deal"} >= {"dealer-1"}
    assert Dealer(live.kits / "dealer-1").deal(terms.id).done


async def deal_once_told(live: Live, job: str, told: list[str]) -> None:
    while not any(what.startswith("waiting for the dealer") for what in told):
        await anyio.sleep(0.02)
    await AsyncDealer(live.kits / "dealer-1").deal(job)


def attempts(live: Live, terms) -> list[tuple[int, str]]:
    """What the requester and another dealer get who try to deal, with a request that is right in all else."""
    answers = []
    for server, half in zip(live.servers, ("s0", "s1"), strict=True):
        roster = live.status(terms.id, server)["roster"]
        task = task_of(terms, roster["teachers"], roster["digest"])
        for name in ("requester-1", "dealer-2"):
            key = getattr(seeds_for(live.kit(name).secret, task), half).key
            headers = {"Sedml-Task": task.id.hex()}
            for path, body in (("seed", key), ("corrections/0", bytes(8))):
                token = live.token(name, server.name)
                answer = server.ask("PUT", f"/v1/jobs/{terms.id}/{path}", token, body, headers)
                answers.append((answer.status, answer.code))
    return answers


def test_a_dealer_sees_its_jobs_and_nothing_in_them(served: Live):
    plain, mine = served.create(8), served.create(8, dealer="dealer-1")
    assert mine.id in [view.id for view in Dealer(served.kits / "dealer-1").jobs()]
    assert plain.id not in [view.id for view in Dealer(served.kits / "dealer-1").jobs()]
    assert mine.id not in [view.id for view in Dealer(served.kits / "dealer-2").jobs()]
    for job, name in ((plain.id, "dealer-1"), (mine.id, "dealer-2")):
        with pytest.raises(NotFoundError):
            Dealer(served.kits / name).status(job)
    for server in served.servers:
        for path in ("data", "ballot", "labels/0"):
            answer = server.ask("GET", f"/v1/jobs/{mine.id}/{path}", served.token("dealer-1", server.name))
            assert (answer.status, answer.code) == (403, "forbidden")
    with pytest.raises(TaskError, match="no dealer teacher-001"):
        served.create(8, dealer="teacher-001")
