"""A store of version 2, in which a block had several runs: what is finished stays, what had begun ends."""

import sqlalchemy as sa

from sedml.service.server import audit_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle
from sedml.service.server.storage.tables import SCHEMA, audit, blocks
from sedml.service.states import JobState
from support.deployment import REQUESTER, closed_job, states, status

OPERATOR = Caller("operator", "operator")


def put_back_to_version_2(site, begun):
    """The tables as they were, with a block of this job marked as begun and not finished."""
    with site.node.store.write() as connection:
        for column in ("inputs VARCHAR(64) NOT NULL DEFAULT ''", "runs INTEGER NOT NULL DEFAULT 1", "run VARCHAR(32)"):
            connection.exec_driver_sql(f"ALTER TABLE {blocks.name} ADD COLUMN {column}")
        connection.execute(sa.insert(blocks).values(job=begun, block=0, samples=8))
        connection.exec_driver_sql(f"ALTER TABLE {audit.name} DROP COLUMN digest")
        for index in audit.indexes:
            index.drop(connection)
        connection.exec_driver_sql("ALTER TABLE sedml_store_jobs DROP COLUMN times_doubted")
        connection.exec_driver_sql("UPDATE sedml_store_jobs SET commitment = 'of version 2' WHERE id = ?", (begun,))
        connection.execute(sa.update(SCHEMA.versions).values(version=2))
    site.node.close()


def test_finished_jobs_stay_and_begun_ones_end(deployed):
    done, begun = closed_job(deployed).id, closed_job(deployed).id
    assert deployed.meet(done) == ["done", "done"]
    faults = deployed.sites[0].faults
    faults.after, faults.kind = faults.points + 20, "cut"
    deployed.meet(begun)
    faults.arm(None)
    assert states(deployed, begun) == (JobState.RUNNING, JobState.RUNNING)
    labels = [lifecycle.label_share(node, REQUESTER, done, 0) for node in deployed.nodes]
    lines = [entry.action for entry in audit_log.page(deployed.nodes[0], OPERATOR, 0).entries]
    for site in deployed.sites:
        put_back_to_version_2(site, begun)
        site.start()
    assert [lifecycle.label_share(node, REQUESTER, done, 0) for node in deployed.nodes] == labels
    assert status(deployed, 0, begun).blocks_done == 0
    deployed.meet(begun)
    assert states(deployed, begun) == (JobState.FAILED, JobState.FAILED)
    assert status(deployed, 0, begun).problem.type == "urn:sedml:replay"
    for node in deployed.nodes:
        found = audit_log.page(node, OPERATOR, 0)
        assert found.wrong is None
        assert [entry.action for entry in found.entries][: len(lines) + 1] == [*lines, "chain"]
        with node.store.read() as connection:
            assert {"inputs", "runs", "run"}.isdisjoint(
                column["name"] for column in sa.inspect(connection).get_columns(blocks.name)
            )
