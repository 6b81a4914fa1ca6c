"""deploy/backup.py on servers that run: what was backed up comes back, and what must not come back does not."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import sqlite3
import sys
import threading
from contextlib import closing, redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from sedml.errors import InputError, LedgerError, NotFoundError, StoreError
from sedml.privacy.ledger import Ledger, State
from sedml.service.kits import ServerKit
from sedml.service.server.node import open_node
from sedml.service.server.settings import load_settings
from support.deployment import shared_kits
from support.live_servers import Live, make_kits, on_postgres, settings_of
from support.server_process import until
from support.tiers import DATABASES, thorough

SCRIPT = Path(__file__).parents[2] / "deploy" / "backup.py"


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sedml_deploy_backup", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


backup = load()


def command(*words: object) -> str:
    """As an operator types it; what it printed. (`test_systemd.py` runs it as a process.)"""
    said, wrong, mask = io.StringIO(), io.StringIO(), os.umask(0o022)
    try:
        with redirect_stdout(said), redirect_stderr(wrong):
            status = backup.main([*map(str, words)])
    finally:
        os.umask(mask)
    assert (status, wrong.getvalue()) == (0, "")
    return said.getvalue()


def votes_of(samples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 3, (6, samples))


@pytest.fixture
def kit(tmp_path: Path) -> ServerKit:
    """A server that was started once, on a disk of its own."""
    shutil.copytree(shared_kits() / "s0", tmp_path / "s0", ignore=shutil.ignore_patterns("data"))
    kit = ServerKit.load(tmp_path / "s0")
    open_node(kit, load_settings(kit)).close()
    return kit


# ---- On servers that run -------------------------------------------------------------------------------------------


@pytest.fixture(params=DATABASES)
def live(request: pytest.FixtureRequest, tmp_path: Path):
    settings = settings_of(budgets={"teachers": (50.0, 1e-05)})
    if request.param == "postgresql":
        if shutil.which("pg_dump") is None:
            pytest.skip("pg_dump is not installed")
        postgres = request.getfixturevalue("postgres")
        settings = on_postgres(settings, postgres, "backup")
    live = Live(make_kits(tmp_path / "kits", settings))
    with live.running():
        yield live
    if request.param == "postgresql":
        for name in ("s0", "s1"):
            drop_schema(live, name)


def drop_schema(live: Live, name: str) -> None:
    import sqlalchemy as sa

    with backup._connected(backup._url(load_settings(getattr(live, name).kit).database)) as connection:
        connection.execute(sa.text(f"DROP SCHEMA backup_{name} CASCADE"))
        connection.commit()


def destroy(live: Live) -> None:
    """The disk of S0 is gone, and its database with it."""
    live.s0.kill()
    shutil.rmtree(live.s0.kit.folder / "data")
    if "://" in load_settings(live.s0.kit).database:
        import sqlalchemy as sa

        drop_schema(live, "s0")
        with backup._connected(backup._url(load_settings(live.s0.kit).database)) as connection:
            connection.execute(sa.text("CREATE SCHEMA backup_s0"))
            connection.commit()


def test_a_disk_is_lost_and_put_back(live: Live, tmp_path: Path):
    """A job that is done stays charged, one that takes votes goes on, and one that the backup lacks is not found."""
    kit, place = live.s0.kit, tmp_path / "backups"
    done = live.create(64, epsilon=20.0)
    first = votes_of(64, 1)
    live.vote(done.id, first)
    labels = live.finish(done.id)
    voting = live.create(32)
    later = votes_of(32, 2)
    live.vote(voting.id, later[:4])
    said = command("store", kit.folder, "--to", place)
    assert "were checked" in said
    [made] = backup.backups_in(place, "s0")
    assert {path.stat().st_mode & 0o777 for path in made.iterdir()} == {0o600}
    assert "is whole" in command("check", made, "--kit", kit.folder)
    unknown = live.create(16)
    live.vote(unknown.id, votes_of(16, 3))

    destroy(live)
    said = command("restore", made, "--kit", kit.folder)
    assert "not finished: 1." in said
    assert "stop asking these teachers" in " ".join(said.split())
    live.s0.restart()
    live.accept_restored("s0")

    live.check_labels(done, first, labels)
    live.check_charged_once(done)
    live.vote(voting.id, later[4:], first=5)
    found = live.finish(voting.id)
    live.check_labels(voting, later, found)
    live.check_charged_once(voting)
    answer = live.s0.ask("GET", f"/v1/jobs/{unknown.id}", live.token("requester-1", "s0"))
    assert answer.status == 404
    with pytest.raises(NotFoundError):
        live.finish(unknown.id, patience=1.0)


@thorough
@pytest.mark.parametrize("live", ["sqlite"], indirect=True)  # for its time; the others try both stores
def test_a_newer_ledger_is_kept_and_nothing_runs_twice(live: Live, tmp_path: Path):
    """The store has forgotten that a job ran; the ledger has not."""
    kit = live.s0.kit
    terms = live.create(64)
    live.vote(terms.id, votes_of(64, 1))
    command("store", kit.folder, "--to", tmp_path / "backups")
    [made] = backup.backups_in(tmp_path / "backups", "s0")
    live.finish(terms.id)
    live.s0.stop()
    _, ledger = backup.parts_of(load_settings(kit))
    if ledger.is_file:
        (tmp_path / "aside").mkdir()
        for path in (kit.folder / "data").glob("ledger.db*"):
            path.rename(tmp_path / "aside" / path.name)
        shutil.rmtree(kit.folder / "data")
        (tmp_path / "aside").rename(kit.folder / "data")
    else:
        import sqlalchemy as sa

        shutil.rmtree(kit.folder / "data")
        with backup._connected(ledger.url) as connection:
            for name in backup.parts_of(load_settings(kit))[0].tables:
                connection.execute(sa.text(f"DROP TABLE {name} CASCADE"))
            connection.commit()
    said = command("restore", made, "--kit", kit.folder, "--keep-ledger")
    assert "forgotten what was spent" not in said
    live.s0.restart()
    live.accept_restored("s0")
    live.check_charged_once(terms)
    # It is open, until S1 comes to say that it is not.
    live.s0.ask("POST", f"/v1/jobs/{terms.id}/close", live.token("requester-1", "s0"))
    until(lambda: live.status(terms.id, live.s0)["state"] == "failed", "the ledger knows the job, so it ends")
    live.check_charged_once(terms)


@thorough
def test_a_job_that_was_running_ends_at_both(tmp_path: Path):
    """Of what was said in it there is no record any more, and to say something else would be to open it twice."""
    live = Live(make_kits(tmp_path / "kits", settings_of()), small_blocks=True)
    with live.running():
        terms = live.create(128)
        live.vote(terms.id, votes_of(128, 1))
        for server in live.servers:
            server.ask("POST", f"/v1/jobs/{terms.id}/close", live.token("requester-1", server.name))
        until(lambda: live.status(terms.id, live.s0)["state"] == "running", "it runs", pause=0.001)
        live.s1.kill()  # so that it does not end before its time
        made = backup.back_up(live.s0.kit, tmp_path / "backups", None)
        assert backup.unfinished(live.s0.kit) == [terms.id]
        destroy(live)
        command("restore", made, "--kit", live.s0.kit.folder)
        live.start()
        for server in live.servers:
            until(lambda server=server: live.status(terms.id, server)["state"] != "running", "it ends")
            assert live.status(terms.id, server)["state"] == "failed"
        with Ledger.open(load_settings(live.s0.kit).ledger) as ledger:
            used = ledger.status("teachers").rho
        assert used.left < used.budget, "what may have been started stays charged"


def test_what_was_acknowledged_before_a_backup_is_in_it(tmp_path: Path):
    """While teachers go on voting: no copy is half of a vote, and none is damaged."""
    live = Live(make_kits(tmp_path / "kits", settings_of()))
    with live.running():
        terms = live.create(64)
        votes = np.random.default_rng(5).integers(-1, 3, (18, 64))
        live.vote(terms.id, votes[:6])
        crowd = threading.Thread(target=live.vote, args=(terms.id, votes[6:]), kwargs={"first": 7})
        crowd.start()
        made = backup.back_up(live.s0.kit, tmp_path / "backups", None)
        crowd.join()
        with closing(sqlite3.connect(made / "server.db")) as copy:
            teachers = {row[0] for row in copy.execute("SELECT teacher FROM sedml_store_ballots")}
        assert {f"teacher-{number:03}" for number in range(1, 7)} <= teachers
        backup.check(made, live.s0.kit)


# ---- Refusals ------------------------------------------------------------------------------------------------------


def test_nothing_is_overwritten(kit: ServerKit, tmp_path: Path):
    made = backup.back_up(kit, tmp_path / "backups", None)
    before = (kit.folder / "data" / "server.db").read_bytes()
    with pytest.raises(InputError, match="is not empty"):
        backup.restore(made, kit, keep_ledger=False)
    assert (kit.folder / "data" / "server.db").read_bytes() == before


def test_not_while_a_server_runs(kit: ServerKit, tmp_path: Path):
    made = backup.back_up(kit, tmp_path / "backups", None)
    node = open_node(kit, load_settings(kit))
    try:
        with pytest.raises(StoreError, match="Another server is running"):
            backup.restore(made, kit, keep_ledger=False)
    finally:
        node.close()


@pytest.mark.parametrize("name", ["server.db", "ledger.db"])
@pytest.mark.parametrize("fault", ["changed", "cut", "gone"])
def test_a_damaged_backup_is_noticed(kit: ServerKit, tmp_path: Path, name: str, fault: str):
    made = backup.back_up(kit, tmp_path / "backups", None)
    path = made / name
    content = bytearray(path.read_bytes())
    if fault == "changed":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif fault == "cut":
        path.write_bytes(content[:-1])
    else:
        path.unlink()
    shutil.rmtree(kit.folder / "data")
    with pytest.raises(StoreError, match="not as it was written"):
        backup.restore(made, kit, keep_ledger=False)
    assert not list((kit.folder / "data").glob("*.db")) if (kit.folder / "data").exists() else True


def test_a_source_that_is_damaged_makes_no_backup(kit: ServerKit, tmp_path: Path):
    """And older backups stay, however few are to be kept."""
    good = backup.back_up(kit, tmp_path / "backups", 1)
    path = kit.folder / "data" / "ledger.db"
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError):
        backup._make(kit, tmp_path / "backups", backup.datetime(2031, 1, 1))
    assert list((tmp_path / "backups").iterdir()) == [good]


def test_a_manifest_is_needed(tmp_path: Path):
    with pytest.raises(StoreError, match="not a whole backup"):
        backup.check(tmp_path)


def test_of_another_server_or_key(kit: ServerKit, tmp_path: Path):
    made = backup.back_up(kit, tmp_path / "backups", None)
    with pytest.raises(InputError, match="is of s0, and"):
        backup.check(made, ServerKit.load(shared_kits() / "s1"))
    (kit.folder / "storage.key").write_text("ab" * 32 + "\n")
    with pytest.raises(InputError, match=r"another storage\.key"):
        backup.check(made, ServerKit.load(kit.folder))


# ---- Rotation, and the kit -----------------------------------------------------------------------------------------


def test_the_newest_are_kept_and_what_is_not_ours_stays(kit: ServerKit, tmp_path: Path):
    place = tmp_path / "backups"
    place.mkdir()
    days = [backup._make(kit, place, backup.datetime(2030, 1, day)) for day in (1, 2, 3)]
    (place / "notes").mkdir()
    foreign = place / "20290101T000000Z"
    shutil.copytree(days[0], foreign)
    document = json.loads((foreign / "manifest.json").read_text())
    (foreign / "manifest.json").write_text(json.dumps(document | {"server": "s1"}))
    (place / ".20290101T000000Z.partial").mkdir()
    newest = backup.back_up(kit, place, 2)
    assert sorted(path.name for path in place.iterdir()) == sorted(
        ["notes", foreign.name, *sorted([*(day.name for day in days), newest.name])[-2:]]
    )


def test_the_kit_goes_to_a_place_apart(kit: ServerKit, tmp_path: Path):
    backup.back_up(kit, tmp_path / "backups", None)
    with pytest.raises(InputError, match="another place"):
        backup.back_up_kit(kit, tmp_path / "backups")
    said = command("kit", kit.folder, "--to", tmp_path / "safe")
    assert "not encrypted" in said
    [copy] = (tmp_path / "safe").iterdir()
    assert ServerKit.load(copy).storage_key == kit.storage_key
    assert {path.stat().st_mode & 0o777 for path in copy.iterdir()} == {0o600}
    assert not (copy / "data").exists()
    for path in (tmp_path / "backups").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert kit.storage_key not in content
            assert kit.storage_key.hex().encode() not in content


def test_a_restored_ledger_is_the_one_that_was_saved(kit: ServerKit, tmp_path: Path):
    settings = load_settings(kit)
    with Ledger.open(settings.ledger) as ledger:
        before = ledger.status("teachers")
    made = backup.back_up(kit, tmp_path / "backups", None)
    shutil.rmtree(kit.folder / "data")
    backup.restore(made, kit, keep_ledger=False)
    with Ledger.open(settings.ledger) as ledger:
        assert ledger.status("teachers") == before
    open_node(kit, settings).close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_puts_back_belongs_to_whom_the_keys_belong_to(kit: ServerKit, tmp_path: Path):
    made = backup.back_up(kit, tmp_path / "backups", None)
    shutil.rmtree(kit.folder / "data")
    os.chown(kit.folder / "storage.key", 12345, 12345)
    backup.restore(made, kit, keep_ledger=False)
    data = kit.folder / "data"
    assert {path.stat().st_uid for path in (data, *data.iterdir())} == {12345}


def test_errors_are_said_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = os.umask(0o022)
    try:
        assert backup.main(["check", str(tmp_path)]) == 1
    finally:
        os.umask(before)
    said = capsys.readouterr()
    assert said.out == ""
    assert "is not a whole backup" in said.err


def test_what_was_only_reserved_stays_charged(kit: ServerKit, tmp_path: Path):
    """Whether a job began after the backup was made, nobody knows."""
    with Ledger.open(load_settings(kit).ledger) as ledger:
        ledger.reserve("teachers", "job", 0.1)
    made = backup.back_up(kit, tmp_path / "backups", None)
    shutil.rmtree(load_settings(kit).data_dir)
    backup.restore(made, kit, keep_ledger=False)
    with Ledger.open(load_settings(kit).ledger) as ledger:
        assert ledger.job("teachers", "job").state is State.STARTED
        with pytest.raises(LedgerError):
            ledger.cancel("teachers", "job")
