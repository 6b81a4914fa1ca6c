"""How long a job will still take, by what its blocks took, whatever else they had."""

from secrets import token_hex

import pytest
import sqlalchemy as sa

from sedml.mpc.channel import PhaseCost
from sedml.protocol import task as task_module
from sedml.protocol.labels import share_size
from sedml.service.kits import ServerKit
from sedml.service.server.jobs.records import get, update
from sedml.service.server.jobs.remaining_time import seconds_left
from sedml.service.server.run import blocks
from sedml.service.server.run.repetition import Row
from sedml.service.server.storage import tables
from sedml.service.states import JobState
from support.deployment import Clock, Deployment, Site, publish, shared_kits, status, terms_for
from support.tiers import DATABASES

SAMPLES = 800


@pytest.fixture(params=DATABASES)
def deployed(request, tmp_path):
    """S0 alone, which is enough to ask."""
    place = {}
    if request.param == "postgresql":
        place = {"database": request.getfixturevalue("postgres").new(f"pace_{token_hex(4)}")}
    clock = Clock()
    site = Site(ServerKit.load(shared_kits() / "s0"), {"data_dir": tmp_path, **place}, clock)
    site.start()
    yield Deployment((site, site), clock)
    site.node.close()


@pytest.fixture
def running(deployed, monkeypatch):
    """A job of 100 blocks that runs; and a function that says that one is done which took so many seconds."""
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)
    terms, node = terms_for(SAMPLES), deployed.nodes[0]
    publish(node, terms)
    with node.store.write() as connection:
        roster = {"roster_teachers": 5, "roster_digest": "00" * 32}
        update(connection, terms.id, state=JobState.RUNNING.value, **roster)
        record = get(connection, terms.id)
        blocks.lay_out(connection, terms.id, record.task)
    every = list(record.task.blocks)
    assert len(every) == 100

    def done(index, seconds):
        block = every[index]
        attempt = blocks.Attempt(block, Row(), 1)
        blocks.begin(node, record, attempt)
        share = bytes(share_size(record.task, block.samples))
        blocks.save(node, record, attempt, share, PhaseCost(seconds, 20, 1000))
        blocks.make_final(node, record, [(index, 1)])
        return status(deployed, 0, terms.id).eta_seconds

    done.job = terms.id
    return done


def test_blocks_in_turn(running, deployed):
    for index in range(10):
        deployed.clock.later(seconds=2)
        left = running(index, 2.0)
    assert left == pytest.approx(180.0)


def test_blocks_under_way_together_count_once(running, deployed):
    for index in range(24):
        deployed.clock.later(seconds=8 if index % 4 == 0 else 0)
        left = running(index, 8.0)
    assert left == pytest.approx(152.0)


def test_time_in_which_nothing_ran_does_not_count(running, deployed):
    for index in range(10):
        deployed.clock.later(hours=1)
        left = running(index, 2.0)
    assert left == pytest.approx(180.0)


@pytest.mark.parametrize("statement", [1, 2, 3])
@pytest.mark.parametrize("before", [0, 70])
@pytest.mark.parametrize("change", ["a block more", "deleted"])
def test_a_job_may_change_between_two_statements(running, deployed, statement, before, change):
    """PostgreSQL shows each of them what there is by then."""
    for index in range(before):
        running(index, 1.0)
    node = deployed.nodes[0]

    class Interrupted:
        statements = 0

        def execute(self, *asked):
            self.statements += 1
            if self.statements == statement and change == "deleted":
                with node.store.write() as writing:
                    writing.execute(sa.delete(tables.blocks))
            elif self.statements == statement:
                running(before, 1.0)
            return connection.execute(*asked)

    with node.store.read() as connection:
        record = get(connection, running.job)
        left = seconds_left(Interrupted(), record)
    assert left is None or left >= 0


def test_it_follows_a_machine_that_gets_busier(running, deployed):
    for index in range(80):
        seconds = 1.0 if index < 40 else 5.0
        deployed.clock.later(seconds=seconds)
        left = running(index, seconds)
    assert left == pytest.approx(100.0)


def test_a_machine_that_is_now_fast_and_now_slow_is_told_within_a_factor_of_two(running, deployed):
    took = [1.0 if index % 20 < 10 else 4.0 for index in range(100)]
    for index in range(10, 90):
        deployed.clock.later(seconds=took[index])
        left = running(index, took[index])
        assert index < 30 or 0.5 < left / (sum(took[index + 1 :]) + sum(took[:10])) < 2
