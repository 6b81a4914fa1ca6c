"""Backs up a server of a deployment while it runs, checks the backup, and puts it back into an empty data folder.

Run it with the Python that the server runs with, as the user of the server:

    /opt/sedml/bin/python backup.py store /etc/sedml/s0 --to /var/backups/sedml/s0 --keep 14
    /opt/sedml/bin/python backup.py kit /etc/sedml/s0 --to /media/safe/s0
    /opt/sedml/bin/python backup.py check /var/backups/sedml/s0/20300101T031500Z --kit /etc/sedml/s0
    /opt/sedml/bin/python backup.py restore /var/backups/sedml/s0/20300101T031500Z --kit /etc/sedml/s0

`store` takes the store, then the ledger: so the ledger never knows of less spending than the store. `restore` writes
them the other way round: cut off in between, it leaves no store that would run without its ledger.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

import sedml
from sedml.errors import InputError, SedmlError, StoreError
from sedml.files import flush
from sedml.privacy.ledger import Ledger, State
from sedml.privacy.ledger.schema import TABLES as LEDGER_TABLES
from sedml.privacy.ledger.schema import cohorts
from sedml.service.kits import ServerKit
from sedml.service.kits.folder import locked
from sedml.service.server.settings import Settings, load_settings
from sedml.service.server.storage import log_rows, rekeying
from sedml.service.server.storage.folder_lock import hold
from sedml.service.server.storage.tables import SCHEMA, blocks, jobs
from sedml.service.server.storage.vault import Vault
from sedml.service.states import UNFINISHED, JobState

_MANIFEST = "manifest.json"
_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"\d{8}T\d{6}Z")


@dataclass(frozen=True)
class Part:
    """The store or the ledger: where it is, and which tables it has."""

    name: str
    url: sa.URL
    tables: tuple[str, ...]

    @property
    def is_file(self) -> bool:
        """SQLite; else PostgreSQL."""
        return self.url.get_backend_name() == "sqlite"

    @property
    def saved_as(self) -> str:
        """Its name in a backup."""
        return f"{self.name}.db" if self.is_file else f"{self.name}.dump"


def parts_of(settings: Settings) -> tuple[Part, Part]:
    """Store and ledger, in the order in which they are backed up."""
    store, ledger = (_url(where) for where in (settings.database, settings.ledger))
    return Part("server", store, _names(SCHEMA.tables)), Part("ledger", ledger, _names(LEDGER_TABLES))


def _names(tables: sa.MetaData) -> tuple[str, ...]:
    return tuple(sorted(tables.tables))


def _url(where: str) -> sa.URL:
    if "://" not in where:
        return sa.URL.create("sqlite", database=where)
    url = sa.make_url(where)
    url = url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise InputError(f"No backup can be made of {url.get_backend_name()}.", "Use the tools of that database.")
    return url


@contextmanager
def _connected(url: sa.URL) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url, poolclass=sa.NullPool, hide_parameters=True)
    try:
        with engine.connect() as connection:
            yield connection
    except sa.exc.DBAPIError as error:  # its text may show values
        name = url.render_as_string(hide_password=True)
        raise StoreError(
            f"The database {name} cannot be read ({type(error.orig).__name__}).",
            "Check that it runs, and that this user may read it.",
        ) from None


# ---- Making a backup -----------------------------------------------------------------------------------------------


def back_up(kit: ServerKit, to: Path, keep: int | None) -> Path:
    """A new folder below `to` with store and ledger, whole and checked, or none; older ones than `keep` are removed."""
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(to):
        made = _make(kit, to, datetime.now(UTC))
        if keep is not None:
            for folder in backups_in(to, kit.name)[:-keep]:
                shutil.rmtree(folder)
    return made


def _make(kit: ServerKit, to: Path, now: datetime) -> Path:
    parts = parts_of(load_settings(kit))
    target = to / now.strftime(_STAMP)
    partial = to / f".{target.name}.partial"
    for half in to.glob(".*.partial"):  # of a backup that was cut off
        shutil.rmtree(half)
    if target.exists():
        raise InputError(f"{target} exists already.", "Wait a second, then try again.")
    partial.mkdir(mode=0o700)
    try:
        with _connected(parts[0].url) as connection:
            last, leaf = log_rows.newest(connection) or (-1, b"")
            number, digest = last + 1, leaf.hex()
            vault = _vault(kit, connection)
        for part in parts:
            _copy(part, partial / part.saved_as)
        document = {
            "server": kit.name,
            "made": now.isoformat(timespec="seconds"),
            "release": sedml.__version__,
            "log_end": f"{number}:{digest}",
            "key_check": _key_check(vault, number, digest),
            "files": {part.saved_as: _fingerprint(partial / part.saved_as) for part in parts},
        }
        (partial / _MANIFEST).write_text(json.dumps(document, indent=2) + "\n")
        for path in (*partial.iterdir(), partial):
            flush(path)
        check(partial)
        partial.rename(target)
        flush(to)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _vault(kit: ServerKit, connection: sa.Connection) -> Vault:
    """Of the key that the store is under: the old one, while `sedml rekey` waits for the end of a job."""
    for key in _keys(kit):
        if log_rows.kept(connection, "storage") is None or rekeying.is_under(connection, Vault(key)):
            return Vault(key)
    raise StoreError("The store is under another storage.key.", "Give the kit that this store belongs to.")


def _keys(kit: ServerKit) -> list[bytes]:
    return [key for key in (kit.storage_key, kit.old_storage_key) if key is not None]


def _key_check(vault: Vault, number: int, digest: str) -> str:
    """By it a kit is recognised as the right one; it tells nothing about the key."""
    return vault.digest("backup", "key", f"{number}:{digest}".encode())


def _copy(part: Part, target: Path) -> None:
    if not part.is_file:
        with _connected(part.url) as connection:
            schema = connection.execute(sa.text("SELECT current_schema()")).scalar_one()
        wanted = [f'--table="{schema}"."{name}"' for name in part.tables]
        _postgres("pg_dump", part.url, "--format=custom", f"--file={target}", "--no-owner", "--no-privileges", *wanted)
        return
    source = Path(part.url.database or "")
    if not source.is_file():
        raise StoreError(f"{source} does not exist.", "Start the server once, or check `data_dir`.")
    # Not read-only: SQLite cannot read a write-ahead log without its own small file beside it.
    try:
        live = sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True, timeout=30.0)
        with closing(live), closing(sqlite3.connect(target)) as copy:
            live.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, without a log of its own
    except sqlite3.Error as error:
        code = error.sqlite_errorname
        raise StoreError(f"{source} could not be copied ({code}).", "Check the disk, and who may read it.") from None


def _postgres(program: str, url: sa.URL | None, *arguments: str) -> str:
    """A program of PostgreSQL; the password goes by the environment, where other users cannot see it."""
    environment, address = dict(os.environ), []
    if url is not None:
        from psycopg.conninfo import make_conninfo

        values: dict[str, Any] = url.translate_connect_args(username="user", database="dbname") | dict(url.query)
        if password := values.pop("password", None):
            environment["PGPASSWORD"] = str(password)
        address = [f"--dbname={make_conninfo(**values)}"]
    try:
        done = subprocess.run(  # noqa: S603 - PostgreSQL's own, with a list of arguments
            [program, *address, *arguments], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise InputError(
            f"{program} is not installed.", "Install the client of PostgreSQL (postgresql-client)."
        ) from None
    if done.returncode:
        first = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise StoreError(
            f"{program} failed: {first}", "Check that the database runs and that its version is not newer."
        )
    return done.stdout


def backups_in(to: Path, server: str) -> list[Path]:
    """Backups of this server in a folder, the oldest first."""
    found = sorted(path for path in to.iterdir() if _NAME.fullmatch(path.name) and (path / _MANIFEST).is_file())
    return [path for path in found if _manifest(path)["server"] == server]


def back_up_kit(kit: ServerKit, to: Path) -> Path:
    """A copy of the kit, keys and all, without the data folder."""
    if to.is_dir() and any((path / _MANIFEST).exists() for path in to.iterdir()):
        raise InputError(
            f"{to} has backups of the store, which storage.key decrypts.", "Keep the kit in another place."
        )
    to.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = to / f"kit-{datetime.now(UTC).strftime(_STAMP)}"
    target.mkdir(mode=0o700)
    with locked(kit.folder):  # against a renewal that is under way
        for path in sorted(kit.folder.iterdir()):
            if path.is_file():
                shutil.copyfile(path, target / path.name)
                (target / path.name).chmod(0o600)
                flush(target / path.name)
    ServerKit.load(target)
    flush(target)
    return target


# ---- Checking one --------------------------------------------------------------------------------------------------


def check(backup: Path, kit: ServerKit | None = None) -> dict[str, Any]:
    """The manifest; raises unless every file is whole and, if a kit is given, the backup is of that server."""
    document = _manifest(backup)
    for name, expected in document["files"].items():
        path = backup / name
        if not path.is_file() or _fingerprint(path) != expected:
            raise StoreError(f"{path} is missing, or not as it was written.", "Use another backup.")
        tables = _tables_in(path)
        part = _names(SCHEMA.tables if path.stem == "server" else LEDGER_TABLES)
        if missing := sorted(set(part) - tables):
            raise StoreError(f"{path} lacks the table {missing[0]}.", "Use another backup.")
    if kit is not None:
        if document["server"] != kit.name:
            raise InputError(
                f"{backup} is of {document['server']}, and {kit.folder} of {kit.name}.", "Give the right one."
            )
        number, _, digest = document["log_end"].partition(":")
        if document["key_check"] not in [_key_check(Vault(key), int(number), digest) for key in _keys(kit)]:
            raise InputError(
                f"{backup} was encrypted with another storage.key than that in {kit.folder}.",
                "Put back the copy of the kit from the time of the backup.",
            )
    return document


def _manifest(backup: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads((backup / _MANIFEST).read_text())
        if {"server", "made", "log_end", "key_check", "files"} <= document.keys():
            return document
    except (OSError, ValueError):
        pass
    raise StoreError(f"{backup} is not a whole backup.", f"Give a folder that has a {_MANIFEST}.")


def _fingerprint(path: Path) -> dict[str, str | int]:
    with path.open("rb") as stream:
        return {"sha256": hashlib.file_digest(stream, "sha256").hexdigest(), "bytes": path.stat().st_size}


def _tables_in(path: Path) -> set[str]:
    if path.suffix == ".dump":
        listed = _postgres("pg_restore", None, "--list", str(path))
        return set(re.findall(r" TABLE DATA \S+ (\S+) ", listed))
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as copy:
            if copy.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                raise StoreError(f"SQLite finds errors in {path}.", "Use another backup.")
            return {row[0] for row in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be read ({error.sqlite_errorname}).", "Use another backup.") from None


# ---- Putting one back ----------------------------------------------------------------------------------------------


def restore(backup: Path, kit: ServerKit, keep_ledger: bool) -> dict[str, Any]:
    """Store and ledger as they were, in an empty data folder; the manifest of the backup. Nothing is overwritten."""
    document = check(backup, kit)
    settings = load_settings(kit)
    data = settings.data_dir
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    held = hold(data)  # no server may start meanwhile, or be running
    try:
        store, ledger = parts_of(settings)
        _check_empty(data, ledger, keep_ledger)
        wanted = [store] if keep_ledger else [ledger, store]
        for part in wanted:
            if part.saved_as not in document["files"]:
                raise InputError(
                    f"{backup} has no {part.saved_as}: the settings name another kind of database than then.",
                    "Set `database` and `ledger` as they were.",
                )
            _check_absent(part)
        if keep_ledger and not _present(ledger):
            raise StoreError("There is no ledger to keep.", "Put it there, or leave --keep-ledger out.")
        for part in wanted:
            _put_back(backup / part.saved_as, part)
        _forget_running(store)
        if not keep_ledger:
            _charge_reserved(settings.ledger, ledger)
        _give_to_owner(kit.folder, data)
        flush(data)
    finally:
        held.release()
    return document


def _check_empty(data: Path, ledger: Part, keep_ledger: bool) -> None:
    own = {"server.lock", "lost+found"}
    if keep_ledger and ledger.is_file:
        name = Path(ledger.url.database or "").name
        own |= {name, f"{name}-wal", f"{name}-shm"}
    if found := sorted(path.name for path in data.iterdir() if path.name not in own):
        raise InputError(
            f"{data} is not empty: there is {found[0]}.",
            "Stop the server and move the whole folder away; a restore never overwrites anything. If the ledger in it "
            "is sound, put that back alone and add --keep-ledger.",
        )


def _present(part: Part) -> bool:
    if part.is_file:
        return Path(part.url.database or "").exists()
    with _connected(part.url) as connection:
        return any(sa.inspect(connection).has_table(name) for name in part.tables)


def _check_absent(part: Part) -> None:
    if _present(part):
        name = part.url.render_as_string(hide_password=True)
        raise InputError(f"{name} has a {part.name} already.", "A restore never overwrites anything: move it away.")


def _put_back(saved: Path, part: Part) -> None:
    if part.is_file:
        target = Path(part.url.database or "")
        shutil.copyfile(saved, target)
        target.chmod(0o600)
        flush(target)
    else:
        options = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
        _postgres("pg_restore", part.url, *options, str(saved))


def _forget_running(part: Part) -> None:
    """A job that ran may have come further since: without its blocks it is refused, as the ledger knows that it began.

    Going on from here could hand out a second share of a block that was finished after the backup.
    """
    running = sa.select(jobs.c.id).where(jobs.c.state == JobState.RUNNING.value)
    with _connected(part.url) as connection:
        connection.execute(sa.delete(blocks).where(blocks.c.job.in_(running)))
        connection.commit()


def _charge_reserved(where: str, part: Part) -> None:
    """A job that had only been reserved may have begun since the backup was made: what it was for stays charged."""
    with Ledger.open(where) as ledger:
        with _connected(part.url) as connection:
            names = connection.execute(sa.select(cohorts.c.name)).scalars().all()
        for cohort in names:
            for entry in ledger.jobs(cohort, State.RESERVED):
                ledger.start(cohort, entry.job)


def _give_to_owner(kit: Path, data: Path) -> None:
    """Whoever owns the keys runs the server; what root has put back is theirs."""
    if os.geteuid() == 0:
        owner = (kit / "storage.key").stat()
        for path in (data, *data.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)


def unfinished(kit: ServerKit) -> list[str]:
    """Jobs of the store that have not ended."""
    with _connected(parts_of(load_settings(kit))[0].url) as connection:
        return list(connection.execute(sa.select(jobs.c.id).where(jobs.c.state.in_(UNFINISHED))).scalars())


def _advice(kit: ServerKit, document: dict[str, Any], keep_ledger: bool) -> list[str]:
    open_jobs, operator = unfinished(kit), f"operator-{kit.name}"
    spent = (
        []
        if keep_ledger
        else [
            f"The ledger is that of {document['made']} and has forgotten what was spent since. Before you take new "
            "jobs, find out from the log of the other server which jobs were done after that. If you cannot, stop "
            "asking these teachers."
        ]
    )
    return [
        f"{kit.name} is as it was at {document['made']}. Jobs that are not finished: {len(open_jobs)}. Now:",
        *spent,
        "Tell the other operator before you start the server.",
        f"Start it; then run `sedml doctor --kit {kit.folder}`.",
        f"Its log has {document['log_end'].partition(':')[0]} entries, fewer than the other server has cosigned, which "
        "raises an alarm there. No job runs until its operator runs `sedml log --accept-restored` with their kit.",
        f"Run `sedml log --kit {operator}`, which checks every entry.",
        "Revoke, enrol and rotate again whatever has changed since: accounts are in the store.",
        "Ask requesters to run `sedml job create --resume ID` for jobs whose public data is missing, and to create "
        "again what has ended.",
    ]


# ---- The command ---------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; 1 if it cannot be done."""
    os.umask(0o077)
    words = _parser().parse_args(arguments)
    try:
        _say(_run(words))
    except SedmlError as error:
        sys.stderr.write(f"{error.what}\n{error.do}\n")
        return 1
    except OSError as error:
        sys.stderr.write(f"{error.filename or 'A file'} cannot be used ({error.strerror}).\n")
        return 1
    return 0


def _run(words: argparse.Namespace) -> list[str]:
    if words.command == "check":
        document = check(words.backup, None if words.kit is None else ServerKit.load(words.kit))
        return [f"{words.backup} is whole: {document['server']} at {document['made']}."]
    kit = ServerKit.load(words.kit)
    if words.command == "store":
        made = back_up(kit, words.to, words.keep)
        return [f"Store and ledger of {kit.name} are in {made}, and were checked. storage.key is not in it."]
    if words.command == "kit":
        made = back_up_kit(kit, words.to)
        return [
            f"The kit of {kit.name} is in {made}.",
            "It is not encrypted. Whoever has it can pose as this server, and read every backup of its store: "
            "keep it offline, and apart from those.",
        ]
    return _advice(kit, restore(words.backup, kit, words.keep_ledger), words.keep_ledger)


def _say(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("keep one at least")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Back up a server, check a backup, put one back.")
    commands = parser.add_subparsers(dest="command", required=True)
    store = commands.add_parser("store", help="Back up store and ledger, while the server runs or not.")
    store.add_argument("kit", type=Path, help="The kit of the server, such as /etc/sedml/s0.")
    store.add_argument("--to", type=Path, required=True, help="A folder for backups of this server.")
    store.add_argument("--keep", type=_positive, help="Remove all but so many of the newest. Default: keep all.")
    kit = commands.add_parser("kit", help="Back up the kit with its keys, to a place apart.")
    kit.add_argument("kit", type=Path, help="The kit of the server.")
    kit.add_argument("--to", type=Path, required=True, help="A folder without backups of the store.")
    checking = commands.add_parser("check", help="Is this backup whole?")
    checking.add_argument("backup", type=Path, help="A backup, such as /var/backups/sedml/s0/20300101T031500Z.")
    checking.add_argument("--kit", type=Path, help="Is it of this kit, and can that decrypt it?")
    back = commands.add_parser("restore", help="Put a backup back, into an empty data folder.")
    back.add_argument("backup", type=Path, help="A backup.")
    back.add_argument("--kit", type=Path, required=True, help="The kit of the server, which is stopped.")
    back.add_argument("--keep-ledger", action="store_true", help="Keep the ledger that is there: it is newer.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
