"""One store is put back to what it was some time ago: whatever had happened since, the job ends, or goes on, at once.

"At once" is a greeting and a few meetings: S1 greets when it starts, and calls again within seconds.
"""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import LogError
from sedml.mpc.channel import MemoryChannel
from sedml.protocol import task as task_module
from sedml.service.server.jobs import lifecycle
from sedml.service.server.jobs.records import find
from sedml.service.states import ENDED, JobState
from support.deployment import REQUESTER, deployment, fetch_labels, make_ballot, publish, states, terms_for
from support.open_base_ots import open_base_ots
from support.tiers import ROLES, thorough

MOMENTS = ["unknown", "created", "voted", "closed", "roster", "a block", "all blocks", "done"]
"""Up to which a job has come."""


@pytest.fixture
def deployed(tmp_path, monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)
    monkeypatch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)
    made = deployment(tmp_path / "servers")
    yield made
    made.close()


def stop_before(deployed, job, step, block=0):
    """A meeting that ends before this message of S0."""
    exchange = MemoryChannel.exchange

    def cut(self, at, name, arrays):
        if (at, name) == (block, step):
            self.close()
        return exchange(self, at, name, arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryChannel, "exchange", cut)
        deployed.meet(job)


def live(deployed, terms, until, note):
    """A job up to this moment; `note` is called at every moment on the way."""
    rng, job = random.Random(1), terms.id
    ballots = [make_ballot(f"t{number}", np.zeros(24, np.int16), terms, rng) for number in range(2)]
    steps = {
        "unknown": lambda: None,
        "created": lambda: [lifecycle.create(node, REQUESTER, job, terms) for node in deployed.nodes],
        "voted": lambda: [
            [publish(node, terms), *(ballot.send(node, job) for ballot in ballots)] for node in deployed.nodes
        ],
        "closed": lambda: [lifecycle.close(node, REQUESTER, job) for node in deployed.nodes],
        "roster": lambda: stop_before(deployed, job, "progress"),
        "a block": lambda: stop_before(deployed, job, "saved", 1),
        "all blocks": lambda: stop_before(deployed, job, "done"),
        "done": lambda: deployed.meet(job),
    }
    for moment in MOMENTS[: MOMENTS.index(until) + 1]:
        steps[moment]()
        note(moment)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("back", [2, *(pytest.param(n, marks=thorough) for n in range(1, len(MOMENTS)) if n != 2)])
def test_a_job_ends_or_goes_on(deployed, tmp_path, role, back):
    for until in MOMENTS[back:]:
        terms, site = terms_for(24), deployed.sites[role]
        wanted, backup = MOMENTS[MOMENTS.index(until) - back], tmp_path / f"{until}-{back}"
        folder = Path(site.overrides["data_dir"])

        def copy(moment, wanted=wanted, backup=backup, site=site, folder=folder):
            if moment == wanted:
                site.node.close()
                shutil.copytree(folder, backup)
                site.start()

        live(deployed, terms, until, copy)
        before = states(deployed, terms.id) if until != "unknown" else None
        site.node.close()
        for name in ("server.db", "server.db-wal", "server.db-shm"):
            (folder / name).unlink(missing_ok=True)
            if (backup / name).exists():
                shutil.copy(backup / name, folder / name)
        site.start()
        for _ in range(3):
            with suppress(LogError):  # a log that was put back is noticed, and somebody has to say that this is so
                deployed.greet()
            deployed.accept_restored()
            for _ in range(2):
                deployed.meet(terms.id)
        check_end(deployed, terms, (wanted, until), before)


def check_end(deployed, terms, moments, before):
    found = []
    for node in deployed.nodes:
        with node.store.read() as connection:
            record = find(connection, terms.id)
            found.append(None if record is None else record.state)
    here = f"{moments}: {before} -> {found}"
    if MOMENTS.index(moments[1]) < MOMENTS.index("closed"):
        return  # nothing to hurry about: it takes votes, and closes by its deadline
    waits = {JobState.CREATED, JobState.OPEN, None}
    if set(found) <= {*waits, JobState.CLOSED} and MOMENTS.index(moments[1]) == MOMENTS.index("closed"):
        # Not closed at the one that was put back: the requester closes it there, or the deadline does.
        assert None not in found, here
        return
    assert all(state in ENDED or state is None for state in found), here
    if found == [JobState.DONE, JobState.DONE]:
        with deployed.nodes[0].store.read() as connection:
            fetch_labels(deployed, terms.id, find(connection, terms.id).task)
    for node, state in zip(deployed.nodes, found, strict=True):
        entries = [entry for entry in node.ledger.jobs("teachers") if entry.job == terms.id]
        # A reservation for a job that is not on record any more is for the operator to give back.
        assert state is None or "reserved" not in [entry.state.value for entry in entries], here
