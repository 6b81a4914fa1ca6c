"""A teacher asks the servers for everything they will tell it, to find out how a job went.

Two worlds differ in the votes of the other teachers, and so in how many samples are answered. Whatever the teacher
asks, at whatever stage of the job, the answers must be the same; and so must the budgets that everybody is shown.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sedml.service.kits import token_hash
from sedml.service.messages import CohortStatus
from sedml.service.server.access import Caller
from sedml.service.server.http import App
from sedml.service.server.jobs import charges, lifecycle
from sedml.service.server.ops import accounts, health
from sedml.service.server_messages import Enrolment
from support.deployment import REQUESTER, deployment, fetch_labels, make_ballot, publish, terms_for
from support.http_drive import ask_raw
from support.open_base_ots import open_base_ots
from support.real_apps import RealDeployment

SPY = Caller("spy", "teacher")
TOKEN = "sedml_spy"
TERMS = terms_for(20, sigma=4.0, nonce="0" * 32)
TEACHERS = 16
UNANIMOUS, DIVIDED = np.zeros(20, np.int16), np.full(20, -1, np.int16)
DISK = 10 << 30
RANDOM = re.compile(rb'[0-9a-f]{64}|(?<="salt":")[0-9a-f]{32}|[A-Za-z0-9+/]{40,}=*')
LIMITS = {
    "processor_share": 1e3,
    "processor_burst": 1e3,
    "anonymous_rate_per_second": 1e6,
    "anonymous_rate_burst": 10**6,
}


@dataclass
class World:
    """What came of one deployment, and what the teacher saw of it: by stage and request, the whole answer."""

    answered: int = 0
    seen: dict[str, dict[str, tuple[int | None, dict[str, str], bytes]]] = field(default_factory=dict)
    shown: list[CohortStatus] = field(default_factory=list)
    """The budgets in the end."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sedml.protocol.task._BLOCK_ANDS", 8)
        patch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)
        patch.setattr(health.shutil, "disk_usage", lambda place: SimpleNamespace(free=DISK - size_of(place)))
        yield [live(tmp_path_factory.mktemp("world"), votes) for votes in (UNANIMOUS, DIVIDED)]


def size_of(place: Path) -> int:
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def live(folder: Path, votes: np.ndarray) -> World:
    """A job from its beginning to its end, with a look at every stage."""
    made = deployment(folder, keep_inputs="1d", **LIMITS)
    deployed, world, job = RealDeployment(made, folder / "kept"), World(), TERMS.id
    deployed.renew()
    for node in made.nodes:
        operator = Caller(f"operator-{node.kit.name}", "operator")
        accounts.enrol(node, operator, SPY.name, Enrolment(role="teacher", token_hash=token_hash(TOKEN)))

    def look(stage: str) -> None:
        world.seen[stage] = {}
        for node in made.nodes:
            world.seen[stage] |= everything_told(node)

    look("no job")
    rng = random.Random(1)
    for node in made.nodes:
        publish(node, TERMS)
    for teacher in (SPY.name, *(f"teacher-{number}" for number in range(1, TEACHERS))):
        # Its own ballot is the same in both worlds, and with it the name.
        ballot = make_ballot(teacher, UNANIMOUS if teacher == SPY.name else votes, TERMS, rng)
        for node in made.nodes:
            ballot.send(node, job)
    look("voted")
    deployed.cut_link(lambda: deployed.s1.status(job).blocks_done == 1)
    deployed.close(job)
    assert deployed.s1.status(job).state == "running"
    look("running")
    deployed.linked = True
    deployed.meet(job)
    made.clock.reset()
    deployed.later(hours=1)
    deployed.greet()
    look("done")
    world.answered = int((fetch_labels(made, job, deployed.task(job)) >= 0).sum())
    world.shown = charges.listed(made.nodes[0])
    for node in made.nodes:
        lifecycle.delete(node, REQUESTER, job)
    look("deleted")
    made.close()
    return world


def everything_told(node) -> dict[str, tuple[int | None, dict[str, str], bytes]]:
    """What the teacher gets from a server for every request that there is."""
    app, told = App(node), {}
    headers = {"Authorization": f"Bearer {TOKEN}", "Sedml-Ballot": "1" * 64}
    for route in app.routes:
        path = route.path.format(job=TERMS.id, block=0, name=SPY.name)
        answer = ask_raw(app, route.method, path, headers)
        # Salted hashes and signatures differ in two runs of one world: what is left is what they are about.
        body = RANDOM.sub(b"#", answer.body) if path.startswith("/v1/log") else answer.body
        told[f"{node.kit.name}: {route.method} {path}"] = answer.status, answer.headers, body
    return told


def test_the_worlds_differ_and_the_teacher_is_told_something(worlds):
    assert worlds[0].answered != worlds[1].answered
    for world in worlds:
        assert list(world.seen) == ["no job", "voted", "running", "done", "deleted"]
        statuses = [status for answers in world.seen.values() for status, _, _ in answers.values()]
        assert 500 not in statuses
        assert statuses.count(200) > 50


def test_a_budget_tells_nobody_the_number_of_answers(worlds):
    assert worlds[0].shown == worlds[1].shown


@pytest.mark.parametrize("stage", ["no job", "voted", "running", "done", "deleted"])
def test_a_teacher_sees_the_same_however_many_samples_are_answered(worlds, stage):
    one, other = (world.seen[stage] for world in worlds)
    assert [request for request in one if one[request] != other[request]] == []
