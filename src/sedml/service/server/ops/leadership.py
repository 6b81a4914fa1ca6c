"""Which of several replicas of a server does what only one may: drive the jobs, keep the link, sweep.

Whoever has the lease, a row of the store with a time until which it is good. Its holder renews it three times before
that; one that was killed, or is cut off from the store, does not, and another replica takes its place. Times are those
of the database, so that no replica's clock matters; a holder that cannot renew counts for itself how long it has left.

A holder that was only asleep may go on for a moment after it was replaced. That does no harm: of two who make attempts
at the same block, the row of the block lets one go on (`run.blocks`).
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from typing import Protocol

import sqlalchemy as sa
import structlog

from sedml.errors import SedmlError
from sedml.service.server.node import Node
from sedml.service.server.storage.tables import leases

_NAME = "lead"
_RENEWALS = 3
_HERE = leases.c.name == _NAME

_log = structlog.get_logger("sedml.leadership")


class _Work(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


def take(node: Node, holder: str) -> bool:
    """Take the lease or renew it, if nobody else has it; whether this is its holder now.

    With it goes when the other server was last heard of, which only the holder knows by itself.
    """
    with node.store.write() as connection:
        row = connection.execute(sa.select(leases).where(_HERE).with_for_update()).one_or_none()
        time = _time(connection)
        if row is not None and row.holder != holder and row.until > time:
            if row.heard_at is not None:
                node.peer.hear(max(0.0, time - row.heard_at))
            return False
        heard = time - node.peer.silent_seconds() if node.peer.heard else None
        values = {"holder": holder, "until": time + node.settings.lease, "heard_at": heard}
        if row is None:
            connection.execute(sa.insert(leases).values(name=_NAME, **values))
        else:
            connection.execute(sa.update(leases).where(_HERE).values(**values))
    return True


def let_go(node: Node, holder: str) -> None:
    """Leave it to others at once, if this is its holder."""
    with node.store.write() as connection:
        connection.execute(sa.update(leases).where(_HERE, leases.c.holder == holder).values(until=0.0))


def _time(connection: sa.Connection) -> float:
    """Seconds since 1970 by the clock of the database."""
    if connection.dialect.name == "sqlite":
        return float(connection.execute(sa.select((sa.func.julianday("now") - 2440587.5) * 86400.0)).scalar_one())
    return float(connection.execute(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))).scalar_one())


class Leadership:
    """Works whenever this replica has the lease, between `start` and `stop`."""

    def __init__(self, node: Node, make_work: Callable[[], _Work]) -> None:
        self._node, self._make_work = node, make_work
        self._holder = secrets.token_hex(16)
        self._work: _Work | None = None
        self._until = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="sedml-leadership", daemon=True)
        node.leads.clear()

    def start(self) -> None:
        """Begin to ask for the lease."""
        self._thread.start()

    def stop(self) -> None:
        """Stop working, and leave the lease to others."""
        self._stop.set()
        if self._thread.ident is not None:  # or it was never started
            self._thread.join()
        self._rest()

    def _loop(self) -> None:
        while not self._stop.is_set():
            self.turn()
            self._stop.wait(self._node.settings.lease / _RENEWALS)

    def turn(self) -> None:
        """Ask for the lease, and work or rest by what comes of it."""
        asked = self._node.steady()
        try:
            self._until = asked + self._node.settings.lease if take(self._node, self._holder) else 0.0
            if self._until:
                self._begin()
        except SedmlError as error:
            _log.warning("lease", error=type(error).__name__, what=error.what)
        except Exception as error:  # a fault of ours
            _log.error("lease", error=type(error).__name__)
        if self._node.steady() >= self._until:
            self._rest()

    def _begin(self) -> None:
        if self._work is not None:
            return
        try:
            work = self._make_work()
            work.start()
        except BaseException:  # such as a port that is taken: perhaps another replica can
            self._until = 0.0
            let_go(self._node, self._holder)
            raise
        self._work = work
        self._node.leads.set()
        _log.info("leads", process=os.getpid())

    def _rest(self) -> None:
        work, self._work = self._work, None
        if work is None:
            return
        self._node.leads.clear()
        work.stop()
        _log.info("leads no more", process=os.getpid())
        try:
            let_go(self._node, self._holder)
        except SedmlError as error:
            _log.warning("lease", error=type(error).__name__, what=error.what)
