"""One server: its kit, its settings, and the places where it keeps things."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from time import monotonic
from typing import Any

import sqlalchemy as sa

import sedml
from sedml.database import Database
from sedml.errors import KitError, SedmlError, StoreError
from sedml.mpc.certificates import Credentials
from sedml.privacy.ledger import Ledger
from sedml.release import kernel_hash, release_hash
from sedml.service.kits import ServerKit
from sedml.service.kits.server_kit import Enrolled
from sedml.service.log.entries import entry_text
from sedml.service.server.live.believed_time import BelievedTime
from sedml.service.server.live.label_fetches import LabelFetches
from sedml.service.server.live.link_delay import LinkDelay
from sedml.service.server.live.link_traffic import LinkTraffic
from sedml.service.server.live.log_tree import LogTree
from sedml.service.server.live.peer_contact import PeerContact
from sedml.service.server.live.worker_connections import WorkerConnections
from sedml.service.server.live.written_jobs import WrittenJobs
from sedml.service.server.settings import Settings
from sedml.service.server.storage import log_rows, rekeying, tables
from sedml.service.server.storage.folder_lock import Hold, hold
from sedml.service.server.storage.vault import Vault

_RULES = ("min_teachers", "max_teachers", "min_sigma", "grace", "keep_labels", "keep_inputs")
"""Settings, besides the budgets, that teachers may want to know."""


@dataclass
class _Renewed:
    """Credentials in place of those of the kit, since they were renewed."""

    credentials: Credentials | None = None


@dataclass(frozen=True)
class Node:
    """Everything that the functions of a server share. They take it as their first argument."""

    kit: ServerKit
    settings: Settings
    store: Database = field(repr=False)
    ledger: Ledger = field(repr=False)
    vault: Vault = field(repr=False)
    time: BelievedTime = field(repr=False)
    peer: PeerContact = field(repr=False)
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)
    steady: Callable[[], float] = field(default=monotonic, repr=False)
    """Seconds that only pass, whatever happens to the clock."""
    work: Event = field(default_factory=Event, repr=False)
    """Set when a job may have something to do; the runner waits for it."""
    leads: Event = field(default_factory=Event, repr=False)
    """Set while it drives the jobs: of several replicas, one does (`leadership`)."""
    roster_turn: Lock = field(default_factory=Lock, repr=False)
    """Held while a roster is agreed on."""
    condemned: dict[str, SedmlError] = field(default_factory=dict, repr=False)
    """Jobs that must not go on, and why, until that is on disk."""
    link_delay: LinkDelay = field(default_factory=LinkDelay, repr=False)
    traffic: LinkTraffic = field(default_factory=LinkTraffic, repr=False)
    log: LogTree = field(default_factory=LogTree, repr=False)
    fetches: LabelFetches = field(default_factory=LabelFetches, repr=False)
    worker_connections: WorkerConnections = field(default_factory=WorkerConnections, repr=False)
    """Where S0 expects workers of S1."""
    written_jobs: WrittenJobs = field(default_factory=WrittenJobs, repr=False)
    held: Hold | None = field(default=None, repr=False)
    """Keeps other servers off the data folder."""
    _renewed: _Renewed = field(default_factory=_Renewed, repr=False)

    @property
    def role(self) -> int:
        """0 for S0, 1 for S1."""
        return self.kit.role

    @property
    def incoming(self) -> Path:
        """Where uploads lie until they are complete."""
        return self.settings.data_dir / "incoming"

    @property
    def public_data(self) -> Path:
        """Where the public data of jobs lies."""
        return self.settings.data_dir / "public"

    def data_of(self, job: str) -> Path:
        """Where that of one job lies."""
        return self.public_data / f"{job}.data"

    @property
    def credentials(self) -> Credentials:
        """What the server proves itself with."""
        return self._renewed.credentials or self.kit.credentials

    def renew(self, credentials: Credentials) -> None:
        """Use a renewed certificate for every connection from now on."""
        self._renewed.credentials = credentials

    def wake(self) -> None:
        """Tell the runner to look."""
        self.work.set()

    def close(self) -> None:
        """Close all databases, and leave the data folder to others."""
        self.ledger.close()
        self.store.close()
        if self.held is not None:
            self.held.release()


def now(node: Node) -> float:
    """Seconds since 1970 by the server's clock."""
    return node.clock().timestamp()


def at(seconds: float | None) -> datetime | None:
    """A stored time."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def open_node(
    kit: ServerKit,
    settings: Settings,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    steady: Callable[[], float] = monotonic,
) -> Node:
    """Open or create what the server keeps, and enrol those of its kit that it does not know yet."""
    _make_folders(settings.data_dir)
    held = hold(settings.data_dir, shared=settings.replicated)
    try:
        if kit.old_storage_key is not None and not held.alone:
            raise StoreError(
                "There is a new storage key, and replicas that use the old one are running.",
                "Stop all of them, then start one, which takes up the new key, and then the others.",
            )
        node = _open(kit, settings, clock, steady)
        if held.alone:
            for leftover in node.incoming.iterdir():  # of uploads that a crash has cut off
                leftover.unlink(missing_ok=True)
        held.share()
        return replace(node, held=held)
    except BaseException:
        held.release()
        raise


def _make_folders(data_dir: Path) -> None:
    try:
        for folder in ("", "incoming", "public"):
            (data_dir / folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The data folder {data_dir} cannot be created ({error.strerror}).",
            "Check `data_dir` in server.toml, and that this user may write there.",
        ) from None


def _open(kit: ServerKit, settings: Settings, clock: Callable[[], datetime], steady: Callable[[], float]) -> Node:
    store = Database(settings.database, settings.database_timeout, tables.SCHEMA)
    store.empty_log()  # a crash leaves in it what was deleted
    try:
        vault = rekeying.settle(kit, store, clock().timestamp())
        ledger = Ledger.open(settings.ledger, timeout=settings.database_timeout)
    except BaseException:
        store.close()
        raise
    believed, peer = BelievedTime(clock, steady), PeerContact(clock, steady)
    node = Node(kit, settings, store, ledger, vault, believed, peer, clock, steady)
    node.leads.set()
    try:
        for cohort, budget in settings.budgets.items():
            ledger.set_budget(cohort, budget.epsilon, budget.delta, budget.unit)
        _begin_log(node)
    except BaseException:
        node.close()
        raise
    return node


def _check_new(connection: sa.Connection, new: Iterable[Enrolled], found: Sequence[sa.Row[Any]]) -> None:
    """Raise if an older accounts.json would make a token good again that was revoked or replaced, or a second teacher
    of an organisation."""
    voters = {row.organisation: row.name for row in found if row.role == "teacher" and row.revoked_at is None}
    used = {
        *(row.token_hash for row in found),
        *connection.execute(sa.select(tables.spent_tokens.c.token_hash)).scalars(),
    }
    for one in new:
        if one.token_hash in used:
            raise KitError(
                f"accounts.json gives {one.name} a token that somebody has or had under another name.",
                "Take it out of the file; its owner makes a new kit with `sedml enrol`.",
            )
        if one.role == "teacher" and one.name in voters:
            raise KitError(
                f"accounts.json has a teacher {one.name}, and its organisation has the account {voters[one.name]}, and "
                "an organisation votes once.",
                f"Take it out of the file. To enrol it, revoke {voters[one.name]} first.",
            )


def _begin_log(node: Node) -> None:
    """Enrol those of the kit that are not known yet, and put on record what the server runs, and under which rules."""
    accounts, settings = tables.accounts, node.settings
    rules = {
        "budgets": {name: promise.model_dump() for name, promise in settings.budgets.items()},
        **{name: getattr(settings, name) for name in _RULES},
    }
    software = {"version": sedml.__version__, "release": release_hash(), "kernel": kernel_hash()}
    with node.store.write() as connection:
        # One replica after the other, of those that start at once.
        connection.execute(sa.select(tables.SCHEMA.versions).with_for_update())
        found = connection.execute(sa.select(accounts)).all()
        known = {row.name for row in found}
        new = [one for one in node.kit.accounts if one.name not in known]
        if known and new:
            _check_new(connection, new, found)
        rows = [
            {
                "name": one.name,
                "organisation": one.name,
                "role": one.role,
                "token_hash": one.token_hash,
                "created_at": now(node),
            }
            for one in new
        ]
        if rows:
            connection.execute(sa.insert(accounts), rows)
        lines: list[tuple[str, str, str, dict[str, object]]] = [
            ("enrol", one.name, one.role, {"kind": "account", "change": "added", "role": one.role}) for one in new
        ]
        for kind, values in (("software", software), ("settings", rules)):
            digest = node.vault.digest("log", kind, entry_text(values).encode())
            last = sa.select(tables.log.c.outcome).where(tables.log.c.action == kind)
            if connection.execute(last.order_by(tables.log.c.number.desc()).limit(1)).scalar() != digest:
                lines.append((kind, node.kit.name, digest, {"kind": kind, **values}))
        moment, actor = now(node), node.kit.name
        log_rows.append(
            connection,
            [
                {
                    "at": moment,
                    "actor": actor,
                    "action": action,
                    "subject": subject,
                    "outcome": outcome,
                    "entry": entry_text({"at": int(moment), **entry}),
                }
                for action, subject, outcome, entry in lines
            ],
        )
