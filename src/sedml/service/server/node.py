"""One server: its kit, its settings, and the places where it keeps things."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING

import sqlalchemy as sa

from sedml.database import Database
from sedml.errors import StoreError
from sedml.mpc.channel import Credentials
from sedml.privacy.ledger import Ledger
from sedml.service.kits import ServerKit
from sedml.service.server.link.worker_connections import WorkerConnections
from sedml.service.server.settings import Settings
from sedml.service.server.storage import audit_chain, rekeying, tables
from sedml.service.server.storage.folder_lock import Hold, hold
from sedml.service.server.storage.vault import Vault

if TYPE_CHECKING:
    from sedml.service.server.run.stock import Stock
    from sedml.service.server.run.workers import WorkerPool

__all__ = ["Activity", "Anchor", "Node", "Shelf", "at", "now", "open_node"]


@dataclass(frozen=True)
class Anchor:
    """A moment by the clock and by time that only passes, since when the clock has gone steadily."""

    wall: float
    steady: float
    peer_ahead: float | None = None
    """How far the other server's clock was ahead when it was last heard, if it was heard since."""


@dataclass
class Shelf:
    """Stocks of open jobs (`stock`), by job: never written anywhere, and used by whoever takes them off."""

    stocks: dict[str, Stock] = field(default_factory=dict, repr=False)
    votes: dict[str, tuple[int, float]] = field(default_factory=dict)
    """How many ballots there were at the last look, and since when."""
    made: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    """For how many teachers each stock of a job was; None for one that broke off."""
    making: Lock = field(default_factory=Lock, repr=False)
    """Held while one is made."""
    lock: Lock = field(default_factory=Lock, repr=False)


@dataclass
class Activity:
    """What changes while the server runs, and is not kept."""

    credentials: Credentials | None = None
    """Renewed since the kit was read."""
    anchor: Anchor | None = None
    """Since when the clock has gone steadily (`believed_time`)."""
    heard: float | None = None
    """When the other server was last heard of (`peer_contact`)."""
    asked: set[str] = field(default_factory=set)
    """Jobs of which the other server knows something else, by the last greeting; S1 calls about them."""
    fetched: dict[str, set[int]] = field(default_factory=dict)
    """By job, the blocks whose labels were handed out since a fetch of them was last put on record."""
    leads: bool = True
    """Whether it drives the jobs: of several replicas, one does (`leadership`)."""
    link_delays: tuple[float, ...] = ()
    """Between the servers one way, in seconds, at the last greetings (`link_quality`)."""
    link_bits: float | None = None
    """How many go through a second, each way."""
    link_measured: float | None = None
    """When that was found."""
    shelf: Shelf = field(default_factory=Shelf, repr=False)
    workers: WorkerPool | None = field(default=None, repr=False)
    """Who works on the blocks of large jobs; None if the server does that itself."""
    worker_connections: WorkerConnections = field(default_factory=WorkerConnections, repr=False)
    """Where S0 expects workers of S1."""
    link_rounds: int = 0
    link_bytes: int = 0
    roster: Lock = field(default_factory=Lock, repr=False)
    """Held while a roster is agreed on."""
    _lock: Lock = field(default_factory=Lock, repr=False)

    def count(self, rounds: int, size: int) -> None:
        """Add to what went over the link; from any thread."""
        with self._lock:
            self.link_rounds += rounds
            self.link_bytes += size

    def begins_fetch(self, job: str, block: int) -> bool:
        """Whether to ask for this block begins a fetch of the labels; from any thread. If not, it is part of the last.

        A fetch has each block once, so that none is handed out a second time without an entry in the audit log, and
        a large job does not fill it.
        """
        with self._lock:
            blocks = self.fetched.get(job)
            if blocks is None or block in blocks:
                return True
            blocks.add(block)
            return False


@dataclass(frozen=True)
class Node:
    """Everything that the functions of a server share. They take it as their first argument."""

    kit: ServerKit
    settings: Settings
    store: Database = field(repr=False)
    ledger: Ledger = field(repr=False)
    vault: Vault = field(repr=False)
    clock: Callable[[], datetime] = field(default=lambda: datetime.now(UTC), repr=False)
    steady: Callable[[], float] = field(default=time.monotonic, repr=False)
    """Seconds that only pass, whatever happens to the clock."""
    started: float = field(default_factory=time.monotonic, repr=False)
    """When, in these seconds."""
    work: Event = field(default_factory=Event, repr=False)
    """Set when a job may have something to do; the runner waits for it."""
    activity: Activity = field(default_factory=Activity, repr=False)
    held: Hold | None = field(default=None, repr=False)
    """Keeps other servers off the data folder."""

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

    @property
    def transcripts(self) -> Path:
        """Where the records of what was said in running jobs lie."""
        return self.settings.data_dir / "transcripts"

    @property
    def credentials(self) -> Credentials:
        """What the server proves itself with."""
        return self.activity.credentials or self.kit.credentials

    def renew(self, credentials: Credentials) -> None:
        """Use a renewed certificate for every connection from now on."""
        self.activity.credentials = credentials

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
    steady: Callable[[], float] = time.monotonic,
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
        for folder in ("", "incoming", "public", "transcripts"):
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
    activity = Activity(anchor=Anchor(clock().timestamp(), steady()))
    node = Node(kit, settings, store, ledger, vault, clock, steady, steady(), activity=activity)
    try:
        for cohort, budget in settings.budgets.items():
            ledger.set_budget(cohort, budget.epsilon, budget.delta)
        _enrol_kit(node)
        _recall_seats(node)
        with store.write() as connection:
            audit_chain.chain_older(connection, node.vault, now(node), kit.name)
    except BaseException:
        node.close()
        raise
    return node


def _recall_seats(node: Node) -> None:
    """Tell the ledger whom jobs have counted that it has on record without, as those of its version 1."""
    ballots = tables.ballots
    for cohort, job in node.ledger.unseated():
        counted = sa.select(ballots.c.teacher).where(ballots.c.job == job, ballots.c.seat.is_not(None))
        with node.store.read() as connection:
            teachers = connection.execute(counted).scalars().all()
        if teachers:
            node.ledger.record_seats(cohort, job, teachers)


def _enrol_kit(node: Node) -> None:
    accounts = tables.accounts
    with node.store.write() as connection:
        # One replica after the other, of those that start at once.
        connection.execute(sa.select(tables.SCHEMA.versions).with_for_update())
        known = set(connection.execute(sa.select(accounts.c.name)).scalars())
        rows = [
            {"name": one.name, "role": one.role, "token_hash": one.token_hash, "created_at": now(node)}
            for one in node.kit.accounts
            if one.name not in known
        ]
        if rows:
            connection.execute(sa.insert(accounts), rows)
