"""A new storage key: everything is sealed under it at the next start, whatever interrupts, and all of it still fits."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
import sqlalchemy as sa

from sedml.errors import StoreError
from sedml.service.kits import ServerKit, new_storage_key, provision
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle
from sedml.service.server.storage import rekeying
from sedml.service.server.storage.tables import SCHEMA
from sedml.service.server.storage.vault import Vault
from sedml.service.states import JobState
from support.deployment import REQUESTER, Crash, deployment, make_ballot, publish, states, terms_for

OPERATOR = Caller("operator", "operator")


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory):
    out = tmp_path_factory.mktemp("rekeyed") / "kits"
    provision(out, ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0, budget=(20.0, 1e-5))
    return out


@pytest.fixture
def deployed(provisioned, tmp_path):
    made = deployment(tmp_path, shutil.copytree(provisioned, tmp_path / "kits"), keep_inputs="1d")
    yield made
    made.close()


def start(site):
    site.kit = ServerKit.load(site.kit.folder)
    return site.start()


def rekey(deployed):
    for site in deployed.sites:
        site.node.close()
        new_storage_key(site.kit.folder)


def job_with_a_ballot(deployed):
    terms = terms_for(8)
    ballot = make_ballot("teacher-1", np.zeros(8, np.int16), terms, random.Random(1))
    for node in deployed.nodes:
        publish(node, terms)
        ballot.send(node, terms.id)
    return terms.id, ballot


def close(deployed, job):
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, job)


def shares(deployed, job):
    return [lifecycle.label_share(node, REQUESTER, job, 0) for node in deployed.nodes]


def pieces(node):
    """Everything that is sealed in a store."""
    with node.store.read() as connection:
        for table in SCHEMA.tables.sorted_tables:
            for column in table.columns:
                if column.name.startswith("sealed"):
                    yield from (bytes(one) for one in connection.execute(sa.select(column)).scalars() if one)


def lines(node):
    return [entry.opened for entry in public_log.page(node, OPERATOR, 0).entries]


def check_settled(deployed, old):
    for site, before in zip(deployed.sites, old, strict=True):
        assert site.node.vault == Vault(site.kit.storage_key) != before
        assert not (site.kit.folder / "storage.key.old").exists()
        assert [line.action for line in lines(site.node)].count("rekey") == 1


def test_everything_is_sealed_under_the_new_key(deployed):
    done, _ = job_with_a_ballot(deployed)
    close(deployed, done)
    assert deployed.meet(done) == ["done", "done"]
    job, ballot = job_with_a_ballot(deployed)
    labels = shares(deployed, done)
    old = [node.vault for node in deployed.nodes]
    sealed = [set(pieces(node)) for node in deployed.nodes]
    rekey(deployed)
    for site in deployed.sites:
        start(site)
    check_settled(deployed, old)
    for node, before in zip(deployed.nodes, sealed, strict=True):
        assert len(before) == len(set(pieces(node))) > 2
        assert before.isdisjoint(pieces(node))
        assert not ballot.send(node, job)[1], "the same ballot again gets its receipt"
    assert shares(deployed, done) == labels
    close(deployed, job)
    assert deployed.meet(job) == ["done", "done"]


@pytest.mark.parametrize("where", ["_seal_anew", "forget_old_storage_key"])
def test_a_crash_at_any_point_is_healed_by_the_next_start(deployed, monkeypatch, where):
    job, ballot = job_with_a_ballot(deployed)
    old = [node.vault for node in deployed.nodes]
    rekey(deployed)

    def crash(*_):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(rekeying, where, crash)
        for site in deployed.sites:
            with pytest.raises(Crash):
                start(site)
    for site in deployed.sites:
        start(site)
    check_settled(deployed, old)
    for node in deployed.nodes:
        assert not ballot.send(node, job)[1]


def test_a_command_that_was_cut_off_before_the_new_key_changes_nothing(deployed):
    site = deployed.sites[0]
    site.node.close()
    folder = site.kit.folder
    shutil.copy(folder / "storage.key", folder / "storage.key.old")
    start(site)
    assert not (folder / "storage.key.old").exists()
    shutil.copy(folder / "storage.key", folder / "storage.key.old")
    new_storage_key(folder)
    assert ServerKit.load(folder).storage_key != ServerKit.load(folder).old_storage_key == site.kit.storage_key


def test_in_the_middle_of_a_job_too(deployed):
    job, _ = job_with_a_ballot(deployed)
    close(deployed, job)
    faults = deployed.sites[0].faults
    faults.after, faults.kind = faults.points + 20, "cut"
    deployed.meet(job)
    faults.arm(None)
    assert states(deployed, job) == (JobState.RUNNING, JobState.RUNNING)
    old = [node.vault for node in deployed.nodes]
    rekey(deployed)
    for site in deployed.sites:
        start(site)
    check_settled(deployed, old)
    assert deployed.meet(job) == ["done", "done"]
    assert all(shares(deployed, job))


def test_a_store_under_another_key_is_refused_before_anything_is_touched(deployed):
    job_with_a_ballot(deployed)
    site = deployed.sites[0]
    site.node.close()
    (site.kit.folder / "storage.key").write_text("ab" * 32)
    with pytest.raises(StoreError, match=r"another storage\.key"):
        start(site)
    new_storage_key(site.kit.folder)
    with pytest.raises(StoreError, match=r"another storage\.key"):
        start(site)
