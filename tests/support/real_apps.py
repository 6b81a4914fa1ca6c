"""The real applications of S0 and S1 inside the test, for clients to call: real stores, real kits, no network.

The servers meet when they would: S1 looks whether there is something to call about when it is woken, and whenever
somebody asks how a job stands. A meeting is over before the request that caused it is answered, so a test says in
which order things happen, and waits for nothing; to see a job half done it cuts the link.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import httpx2
import numpy as np

from sedml.errors import LogError
from sedml.mpc.prg import Seed
from sedml.protocol.ballots import Ballot, cast
from sedml.protocol.task import Task
from sedml.service.kits import token_hash
from sedml.service.messages import JobList, JobStatus
from sedml.service.server import public_log
from sedml.service.server.access import Caller
from sedml.service.server.http import App
from sedml.service.server.http.limits import Limits
from sedml.service.server.jobs import lifecycle, listing, public_data
from sedml.service.server.jobs.records import find
from sedml.service.server.node import Node
from sedml.service.server.ops import accounts
from sedml.service.server.run.runner import calling
from sedml.service.states import JobState
from sedml.service.terms import task_of
from support.deployment import (
    Deployment,
    Faults,
    Site,
    accept_ballot,
    check_charged_once,
    expected_labels,
    recorded_noise,
)
from support.snapshots import keep, put_back
from support.wire import Seen, Wire

_LOOK = re.compile(r"GET /v1/jobs/([0-9a-f]{32})(\?.*)?")

T = TypeVar("T")


class RealServer(Wire):
    """One server: how clients reach it, and what a test does to it or asks of it without them."""

    def __init__(self, site: Site, deployed: RealDeployment) -> None:
        super().__init__(site.kit.name, App(site.node))
        self.node: Node = site.node
        self._deployed = deployed

    def calm(self) -> None:
        super().calm()
        self._app.web.limits = Limits.of(self.node.settings)  # nobody has done anything yet

    def before(self, request: Seen) -> None:
        self._deployed.cosign()
        if found := _LOOK.fullmatch(str(request)):
            self._deployed.meet(found[1])

    def after(self) -> None:
        self._deployed.attend()

    def state(self, job: str) -> JobState | None:
        with self.node.store.read() as connection:
            record = find(connection, job)
        return None if record is None else record.state

    def status(self, job: str) -> JobStatus:
        return lifecycle.status(self.node, self._operator, job)

    @property
    def jobs(self) -> list[str]:
        """All that it has on record, newest first."""
        page = JobList.model_validate_json(listing.page(self.node, self._operator))
        assert not page.more
        return [status.id for status in page.jobs]

    @property
    def accounts(self) -> set[str]:
        return {account.name for account in accounts.listed(self.node, self._operator).accounts}

    def data(self, job: str) -> bytes:
        return public_data.file_of(self.node, self._operator, job).read_bytes()

    def close(self, job: str) -> None:
        """As the requester, who ends the vote here."""
        lifecycle.close(self.node, Caller(self.status(job).terms.requester, "requester"), job)

    def take_ballot(self, job: str, teacher: str, ballot: Ballot | None = None) -> None:
        """Half of a vote of this teacher, of abstentions unless given, as a second machine of its would send it."""
        shape = self.status(job).terms.ballot
        ballot = ballot or cast(np.full((1, shape.samples), -1), shape, bytes.fromhex(job), teacher, Seed(bytes(32)))
        half = ballot.halves[self.node.role]
        accept_ballot(self.node, Caller(teacher, "teacher"), job, ballot.name.hex(), half)

    def replace_token(self, name: str, token: str) -> None:
        """An account has this token from now on."""
        (account,) = (one for one in accounts.listed(self.node, self._operator).accounts if one.name == name)
        accounts.replace_token(self.node, Caller(account.name, account.role), token_hash(token))

    @property
    def _operator(self) -> Caller:
        return Caller(f"operator-{self.name}", "operator")


class _Cut(Faults):
    """The link breaks once, instead of the first message for which `when` holds."""

    def __init__(self, when: Callable[[], bool], deployed: RealDeployment) -> None:
        super().__init__()
        self._when, self._deployed = when, deployed

    def cuts(self, name: str) -> bool:
        if self.struck is not None or not self._when():
            return False
        self.struck, self._deployed.linked = name, False
        return True


class RealDeployment:
    """Both servers, the clock of both, and the link between them."""

    linked: bool
    """Whether the servers can reach each other."""
    runs: int
    """How many meetings brought a job to its end at S1, which is the last to know."""

    def __init__(self, made: Deployment, folder: Path) -> None:
        self._made, self._folder = made, folder
        self.s0, self.s1 = (RealServer(site, self) for site in made.sites)
        self._prepared: dict[str, object] = {}
        self._keep("new", None)

    @property
    def servers(self) -> tuple[RealServer, RealServer]:
        return self.s0, self.s1

    def renew(self) -> None:
        """As at their first start: no job, and the accounts of their kits."""
        self._put_back("new")

    def prepared(self, name: str, prepare: Callable[[], T]) -> T:
        """What `prepare` gives, and the servers as it leaves them; it is called once, and put back after that."""
        if name not in self._prepared:
            self._keep(name, prepare())
        return self._put_back(name)

    def _keep(self, name: str, result: object) -> None:
        keep(self._made, self._folder / name)
        self._prepared[name] = result

    def _put_back(self, name: str):
        put_back(self._made, self._folder / name)
        self._met: dict[str, tuple[JobState | None, ...]] = {}
        self.linked, self.runs = True, 0
        self._made.sites[1].faults = Faults()
        for server in self.servers:
            server.calm()
        return self._prepared[name]

    def transport(self, url: str, _authority: bytes) -> httpx2.AsyncBaseTransport:
        """In place of `sedml.service.client.connection.https`."""
        return self.s0 if "//s0" in url else self.s1

    def later(self, **much: float) -> None:
        self._made.later(**much)

    def cut_link(self, when: Callable[[], bool]) -> None:
        """From the first message for which this holds until `linked` is set, the servers cannot reach each other."""
        self._made.sites[1].faults = _Cut(when, self)

    def close(self, job: str) -> None:
        """The vote ends at both servers, and they meet."""
        for server in self.servers:
            server.close(job)
        self.meet(job)

    def attend(self) -> None:
        """S1 looks for something to do, if it was woken."""
        if self.s1.node.work.is_set():
            self.s1.node.work.clear()
            self.cosign()
            for job in calling(self.s1.node):
                self.meet(job)

    def cosign(self) -> None:
        """The servers cosign each other's logs, if a job waits for that."""
        for server in self.servers:
            with server.node.store.read() as connection:
                due = self.linked and public_log.due(connection)
            if due:
                with suppress(LogError):  # a log that gets no cosignature: jobs wait, as they say
                    self._made.greet()

    def meet(self, job: str) -> None:
        """The servers meet about a job, if S1 has something to call about and something has changed since."""
        states = tuple(server.state(job) for server in self.servers)
        if not self.linked or self._met.get(job) == states:
            return
        self._met[job] = states
        results = self._made.meet(job)
        # One that heard too late that a job is done says so as well.
        self.runs += results[1] == "done" and states[1] is not JobState.DONE
        if isinstance(results[1], BaseException):
            del self._met[job]
        elif None not in results:
            self.greet()

    def greet(self) -> None:
        """Both servers have just heard of each other, as over their link."""
        for node in self._made.nodes:
            node.peer.hear()

    def task(self, job: str) -> Task:
        status = self.s0.status(job)
        assert status.roster == self.s1.status(job).roster
        return task_of(status.terms, status.roster.teachers, status.roster.digest)

    def expected(self, job: str, votes: np.ndarray) -> np.ndarray:
        """The labels of these votes int[K, Q]: what the ideal functionality says for the noise that was drawn."""
        task = self.task(job)
        assert task.teachers == len(votes)
        return expected_labels(task, votes, recorded_noise(self._made, task))

    def check_run_once(self, job: str) -> None:
        """It was run and charged once: a second run would have drawn other noise."""
        task = self.task(job)
        for role, server in enumerate(self.servers):
            check_charged_once(server.node.ledger, server.status(job).terms)
            assert {self._made.link.attempts(role, task, block.index) for block in task.blocks} == {1}
        self._made.link.check()
