"""Two servers of a deployment inside the test: their stores on disk, their clock in our hands, faults at will.

A `Crash` is what kill -9 is to a process: it comes out of a write (before or after the commit) or of a message, nothing
of ours catches it, and all that is left of the server is its disk. `restart` opens it again from there.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from sedml.errors import ChannelError, NotCosignedError, NotFoundError, PeerGoneError, SedmlError
from sedml.mpc.channel import MemoryChannel, memory_pair
from sedml.mpc.channel.base import first_cause
from sedml.mpc.channel.lanes import Lane
from sedml.mpc.prg import Seed
from sedml.privacy.ledger import Ledger, State
from sedml.protocol.ballots import cast
from sedml.protocol.labels import from_bytes, reveal
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from sedml.service.kits import ServerKit, provision
from sedml.service.log.notes import Checkpoint, parse
from sedml.service.messages import RestoredLog
from sedml.service.server import peer_log
from sedml.service.server.access import Caller
from sedml.service.server.jobs import lifecycle, public_data, voting
from sedml.service.server.link.greeting import greet
from sedml.service.server.live.believed_time import BelievedTime
from sedml.service.server.live.label_fetches import LabelFetches
from sedml.service.server.live.link_delay import LinkDelay
from sedml.service.server.live.link_traffic import LinkTraffic
from sedml.service.server.live.log_tree import LogTree
from sedml.service.server.live.peer_contact import PeerContact
from sedml.service.server.live.worker_connections import WorkerConnections
from sedml.service.server.node import Node, now, open_node
from sedml.service.server.run import meeting
from sedml.service.server.run.runner import attempt, calling
from sedml.service.server.settings import load_settings
from sedml.service.server.storage import log_rows
from sedml.service.states import JobState
from sedml.service.terms import Terms, charge_at
from support.cosigned import cosign_for
from support.link_record import LinkRecord

REQUESTER = Caller("requester-1", "requester")
START = datetime(2030, 1, 1, tzinfo=UTC)
DATA = b"public samples"
WITHOUT_NOISE = Path(__file__).parent / "without_noise"
"""To put on the path of processes."""


class Crash(BaseException):
    """The process is gone, at once."""


@dataclass
class Faults:
    """When the next fault strikes: a countdown of writes and messages of one server."""

    after: int | None = None
    kind: str = "before"
    """"before" or "after" a commit or a message; "cut" loses the link and spares the server."""
    points: int = 0
    names: list[str] = field(default_factory=list)
    """Of the points since `arm`: the step of a message, or "write"."""
    struck: str | None = None
    """The point where the last fault struck."""

    def arm(self, after: int | None, kind: str = "before") -> None:
        """Count anew, and strike after so many points; or not at all."""
        self.after, self.kind, self.points, self.struck = after, kind, 0, None
        self.names.clear()

    @contextlib.contextmanager
    def point(self, name: str):
        """Around everything during which a fault can happen; one of them may lie within another."""
        self.points += 1
        self.names.append(name)
        number = self.points
        self._strike("before", number, name)
        yield
        self._strike("after", number, name)

    def _strike(self, moment: str, number: int, name: str) -> None:
        if self.after is not None and (moment, number) == (self.kind, self.after + 1):
            self.after, self.struck = None, name
            raise Crash

    def cuts(self, name: str) -> bool:
        if self.kind == "cut" and self.after is not None and self.points > self.after:
            self.after, self.struck = None, name
            return True
        return False


class FaultyStore:
    """A database whose writes may be the last thing that a server does."""

    def __init__(self, database, faults: Faults) -> None:
        self._database, self._faults = database, faults
        self.name = database.name

    def read(self):
        return self._database.read()

    @contextlib.contextmanager
    def write(self):
        with contextlib.ExitStack() as point, self._database.write() as connection:
            yield connection
            point.enter_context(self._faults.point("write"))

    def empty_log(self) -> bool:
        return self._database.empty_log()

    def close(self) -> None:
        self._database.close()


@lru_cache(maxsize=1)
def shared_kits() -> Path:
    """One pair of kits for all tests of a process: certificates take time, and nothing here depends on them."""
    folder = tempfile.mkdtemp(prefix="sedml-kits-")
    atexit.register(shutil.rmtree, folder)
    out = Path(folder) / "kits"
    provision(out, ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0, budget=(20.0, 1e-5))
    return out


class Clock:
    """Of both servers: it stands still at `start`, or goes on as clocks do if there is none.

    With `later` time passes; with `jump` only the clock is set.
    """

    def __init__(self, start: datetime | None = START) -> None:
        self._start, self._passed, self._wrong = start, timedelta(), timedelta()

    def __call__(self) -> datetime:
        return (self._start or datetime.now(UTC)) + self._passed + self._wrong

    def steady(self) -> float:
        return (0.0 if self._start else time.monotonic()) + self._passed.total_seconds()

    def later(self, **much: float) -> None:
        self._passed += timedelta(**much)

    def jump(self, **much: float) -> None:
        self._wrong += timedelta(**much)

    def reset(self) -> None:
        self._passed = self._wrong = timedelta()


def conflict_of(node: Node) -> RestoredLog:
    """What a server says that the other one shows it, and that it does not cosign."""
    with node.store.read() as connection:
        kept = log_rows.kept(connection, "conflict")
    shown = parse(kept[0])[0] if kept and kept[0] else Checkpoint("", 0, bytes(32))
    return RestoredLog(size=shown.size, root=shown.root.hex())


def fresh_memory(node: Node) -> dict:
    """What a server that was just started knows, by the fields of its node."""
    return {
        "time": BelievedTime(node.clock, node.steady),
        "peer": PeerContact(node.clock, node.steady),
        "link_delay": LinkDelay(),
        "traffic": LinkTraffic(),
        "fetches": LabelFetches(),
        "log": LogTree(),
        "worker_connections": WorkerConnections(),
    }


@dataclass
class Site:
    """One server: its kit, its disk, and the node while it is alive."""

    kit: ServerKit
    overrides: dict
    clock: Clock
    faults: Faults = field(default_factory=Faults)
    node: Node | None = None

    def start(self) -> Node:
        """Open what is on disk."""
        node = open_node(
            self.kit, load_settings(self.kit, **self.overrides), clock=self.clock, steady=self.clock.steady
        )
        node.time.hear(now(node))  # as after a greeting, in which the other server had the same clock
        node.ledger._database = FaultyStore(node.ledger._database, self.faults)
        self.node = replace(node, store=FaultyStore(node.store, self.faults))
        return self.node

    def restart(self) -> Node:
        """A new process: all that the old one had in memory is gone. (A database of ours keeps nothing there.)"""
        fresh = fresh_memory(self.node)
        self.node = replace(self.node, **fresh, work=threading.Event(), roster_turn=threading.Lock())
        self.node.time.hear(now(self.node))
        return self.node


@dataclass
class Deployment:
    """S0, S1 and what went over the link."""

    sites: tuple[Site, Site]
    clock: Clock
    link: LinkRecord = field(default_factory=LinkRecord)
    meetings: int = 0

    @property
    def sent(self) -> dict:
        """By (role, task, block, step), then by meeting: every message that was ever sent there."""
        return self.link.sent

    @property
    def nodes(self) -> tuple[Node, Node]:
        return self.sites[0].node, self.sites[1].node

    def later(self, **much: float) -> None:
        self.clock.later(**much)

    def meet(self, job: str) -> list:
        """One meeting, each server in a thread; what each came to: a word, an error, or a crash.

        None without one: it is S1 that calls, and it has nothing to call about.
        """
        if job not in calling(self.nodes[1]):
            return [None, None]
        ends = memory_pair(bytes(16), timeout=120.0)
        self.meetings += 1
        results: list = [None, None]

        def side(role: int) -> None:
            site, end = self.sites[role], ends[role]
            _spy(end, role, site.faults, partial(self.link.add, self.meetings))
            try:
                results[role] = attempt(site.node, job, lambda: meeting.meet(site.node, job, end))
            except BaseException as error:
                results[role] = error
            finally:
                end.close()

        threads = [threading.Thread(target=side, args=(role,)) for role in (0, 1)]
        lanes = patch.multiple(Lane, exchange=_spied_lane(Lane.exchange), _swap=_noted_lane(Lane._swap))
        with self.link.watching(), lanes:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        for role in (0, 1):
            if isinstance(results[role], Crash):
                self.sites[role].restart()
            elif isinstance(results[role], BaseException) and not isinstance(results[role], ChannelError):
                raise results[role]
        return results

    def greet(self) -> None:
        """S1 calls about no job in particular."""
        ends = memory_pair(bytes(16), timeout=120.0)

        def side(site: Site, end: MemoryChannel) -> None:
            with end:
                greet(site.node, end)

        with ThreadPoolExecutor(2) as threads:
            both = [threads.submit(side, site, end) for site, end in zip(self.sites, ends, strict=True)]
        errors = [error for one in both if (error := one.exception()) is not None]
        if errors:
            raise first_cause(errors)

    def accept_restored(self) -> None:
        """The operators have talked: whose log was put back goes on from there."""
        for node in self.nodes:
            with contextlib.suppress(NotFoundError, NotCosignedError):
                peer_log.accept_restored(node, Caller("operator", "operator"), conflict_of(node))

    def close(self) -> None:
        for site in self.sites:
            if site.node is not None:
                site.node.close()


@dataclass(frozen=True)
class _Spy:
    """Writes down every message that goes out of a server, and lets faults strike around it."""

    role: int
    faults: Faults
    note: Callable

    def exchanges(self, channel, exchange: Callable, block: int, step: str, arrays):
        with self.faults.point(step):
            if self.faults.cuts(step):
                channel.close()
                raise PeerGoneError("cut", "")
            return exchange(block, step, arrays)

    def swaps(self, channel, swap: Callable, frame):
        content = b"".join(array.tobytes() for array in frame.arrays)
        self.note((self.role, channel._task, frame.block, frame.step), content)
        return swap(frame)


def _spy(channel, role: int, faults: Faults, note: Callable) -> None:
    spy = channel.spy = _Spy(role, faults, note)
    channel.exchange = partial(spy.exchanges, channel, channel.exchange)
    channel._swap = partial(spy.swaps, channel, channel._swap)


def _spied_lane(exchange: Callable) -> Callable:
    return lambda lane, *what: lane.link.spy.exchanges(lane, partial(exchange, lane), *what)


def _noted_lane(swap: Callable) -> Callable:
    return lambda lane, frame: lane.link.spy.swaps(lane, partial(swap, lane), frame)


def deployment(folder: Path, kits: Path | None = None, clock: Clock | None = None, **settings) -> Deployment:
    """Two servers on this folder, freshly started; of these kits, or of some that all tests share."""
    kits, clock = kits or shared_kits(), clock or Clock()
    sites = tuple(
        Site(ServerKit.load(kits / name), {"data_dir": folder / name, **settings}, clock) for name in ("s0", "s1")
    )
    made = Deployment(sites, clock)
    for site in sites:
        site.start()
    return made


def terms_for(samples: int, **values) -> Terms:
    defaults = {
        "requester": REQUESTER.name,
        "classes": 3,
        "samples": samples,
        "threshold": "0.5",
        "sigma": 20.0,
        "epsilon": 20.0,
        "delta": 1e-5,
        "min_teachers": 1,
        "deadline": int((START + timedelta(days=1)).timestamp()),
        "data_bytes": len(DATA),
        "data_sha256": hashlib.sha256(DATA).hexdigest(),
    }
    return Terms(**defaults | values)


def publish(node: Node, terms: Terms) -> None:
    lifecycle.create(node, REQUESTER, terms.id, terms)
    cosign_for(node)
    file = node.incoming / "upload"
    file.write_bytes(DATA)
    public_data.accept(node, REQUESTER, terms.id, file)


@dataclass(frozen=True)
class Ballot:
    teacher: str
    votes: np.ndarray
    name: str
    halves: tuple[bytes, bytes]

    def send(self, node: Node, job: str):
        return accept_ballot(node, Caller(self.teacher, "teacher"), job, self.name, self.halves[node.role])


def accept_ballot(node: Node, caller: Caller, job: str, name: str, half: bytes, parts: str | None = None):
    """One half of a ballot on its own: its receipt, and whether it is new."""
    [outcome] = voting.accept_ballots(node, [voting.Arrived(caller, job, name, half, parts)])
    if isinstance(outcome, SedmlError):
        raise outcome
    return outcome


def make_ballot(teacher: str, votes: np.ndarray, terms: Terms, rng: random.Random) -> Ballot:
    made = cast(np.atleast_2d(votes), terms.ballot, bytes.fromhex(terms.id), teacher, Seed(rng.randbytes(32)))
    return Ballot(teacher, votes, made.name.hex(), made.halves)


def open_job(deployed: Deployment, cast_by: Mapping[str, np.ndarray] | None = None, **values) -> Terms:
    """A job at both servers with these teachers' ballots in; if none are given, one of a teacher who says 0 to 8."""
    cast_by = cast_by or {"teacher": np.zeros(values.get("samples", 8))}
    terms, rng = terms_for(**{"samples": np.shape(next(iter(cast_by.values())))[-1]} | values), random.Random(1)
    for node in deployed.nodes:
        publish(node, terms)
    for name, rows in cast_by.items():
        ballot = make_ballot(name, rows.astype(np.int16), terms, rng)
        for node in deployed.nodes:
            ballot.send(node, terms.id)
    return terms


def closed_job(deployed: Deployment, cast_by: Mapping[str, np.ndarray] | None = None, **values) -> Terms:
    """The same, with its vote ended at both."""
    terms = open_job(deployed, cast_by, **values)
    for node in deployed.nodes:
        lifecycle.close(node, REQUESTER, terms.id)
    return terms


def _share(deployed: Deployment, node: Node, job: str, block: int) -> bytes:
    try:
        return lifecycle.label_share(node, REQUESTER, job, block)
    except NotCosignedError:  # the link broke just then: the requester asks again, after their next greeting
        deployed.greet()
        return lifecycle.label_share(node, REQUESTER, job, block)


def fetch_labels(deployed: Deployment, job: str, task: Task) -> np.ndarray:
    """What the requester puts together from both servers."""
    parts = []
    for block in task.blocks:
        documents = [_share(deployed, node, job, block.index) for node in deployed.nodes]
        shares = (from_bytes(task, block.samples, document) for document in documents)
        parts.append(reveal(task, block.samples, *shares))
    return np.concatenate(parts)


def recorded_noise(deployed: Deployment, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """What S0 and S1 drew for the attempts that count, int[N, Q] each."""
    return deployed.link.noises(task)


def expected_labels(task: Task, votes: np.ndarray, noises: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    from sedml.protocol.ideal import ideal_labels

    return ideal_labels(task, histogram(votes, task.classes), noises)


def labels_without_noise(task: Task, votes: np.ndarray) -> np.ndarray:
    """What servers answer that add none."""
    nothing = np.zeros((task.classes, task.samples), np.int64)
    return expected_labels(task, votes, (nothing, nothing))


def check_charged_once(ledger: Ledger, terms: Terms) -> None:
    """In full, whatever was answered, and nothing else is reserved or spent than what is on record."""
    entries = ledger.jobs(terms.cohort)
    (entry,) = (one for one in entries if one.job == terms.id)
    assert entry.state is State.STARTED
    cost = charge_at(terms, ledger.status(terms.cohort).order)
    assert np.isclose(entry.rho, cost.rho, rtol=1e-6)
    used, charged = ledger.status(terms.cohort).rho, [one for one in entries if one.state is not State.CANCELLED]
    assert np.isclose(used.spent + used.reserved, sum(one.rho for one in charged), rtol=1e-9)


def status(deployed: Deployment, role: int, job: str):
    return lifecycle.status(deployed.nodes[role], REQUESTER, job)


def states(deployed: Deployment, job: str) -> tuple[JobState, JobState]:
    return tuple(status(deployed, role, job).state for role in (0, 1))
