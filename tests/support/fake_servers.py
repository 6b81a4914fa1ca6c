"""Two servers of the interface in memory, with the protocol really run, and faults on order.

They keep the rules that clients rely on (who may do what, what is the same again, what is a conflict) and write down
every request, so that a test can say which bytes went where.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import httpx2
import numpy as np
import pytest
import stamina
from stamina.instrumentation import set_on_retry_hooks

from sedml.errors import (
    BodyTruncatedError,
    ConflictError,
    ForbiddenError,
    InvalidTokenError,
    JobStateError,
    MissingTokenError,
    NotFoundError,
    RevokedError,
    SedmlError,
    TermsMismatchError,
    TooFewTeachersError,
)
from sedml.mpc.bits import pack, to_planes
from sedml.mpc.channel import memory_pair
from sedml.mpc.correlations import Correlations, corrections_size
from sedml.mpc.party import Party
from sedml.mpc.prg import Seed
from sedml.protocol.ballots import index_shares
from sedml.protocol.block import plan_block, run_block
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.ideal import ideal_labels
from sedml.protocol.labels import label_ring
from sedml.service.kits import ClientKit, provision, token_hash
from sedml.service.messages import (
    SUBMISSION_HEADER,
    TASK_HEADER,
    Account,
    AccountList,
    CohortStatus,
    Enrolment,
    JobList,
    JobStatus,
    NewToken,
    Problem,
    Readiness,
    Receipt,
    Roster,
    ServerInfo,
)
from sedml.service.problems import problem_of
from sedml.service.states import JobState
from sedml.service.terms import Terms, task_of


@dataclass
class FakeJob:
    terms: Terms
    created_at: datetime
    state: JobState = JobState.CREATED
    data: bytes | None = None
    ballots: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    roster: Roster | None = None
    names: list[str] = field(default_factory=list)
    seed: bytes | None = None
    corrections: dict[int, bytes] = field(default_factory=dict)
    labels: dict[int, bytes] = field(default_factory=dict)
    answered: int = 0
    problem: Problem | None = None
    deleted: bool = False

    @property
    def task(self):
        return None if self.roster is None else task_of(self.terms, self.roster.teachers, self.roster.digest)


@dataclass
class Fault:
    """What happens to the next requests that match: "lose" the answer, "refuse" the connection, or a response."""

    pattern: str
    act: str | httpx2.Response | Callable[[httpx2.Response], httpx2.Response]
    times: int = 1


@dataclass
class Seen:
    method: str
    path: str
    body: bytes
    headers: httpx2.Headers

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class FakeServer:
    def __init__(self, name: str, deployment: FakeDeployment) -> None:
        self.name, self.deployment = name, deployment
        self.role = int(name[1])
        self.accounts: dict[str, Account] = {}
        self.hashes: dict[str, str] = {}
        self.jobs: dict[str, FakeJob] = {}
        self.seen: list[Seen] = []
        self.faults: list[Fault] = []
        self.info: dict = {}
        self.ready = Readiness(ready=True, checks={"store": "ok"})

    # ---- What a test says ----------------------------------------------------------------------------

    def fault(self, pattern: str, act, times: int = 1) -> None:
        self.faults.append(Fault(pattern, act, times))

    def bodies(self, pattern: str) -> list[bytes]:
        return [seen.body for seen in self.seen if re.search(pattern, str(seen))]

    def enrol(self, name: str, role: str, digest: str) -> None:
        self.accounts[name] = Account(name=name, role=role, created_at=datetime.now(UTC))
        self.hashes[digest] = name

    # ---- The interface -------------------------------------------------------------------------------

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        assert request.extensions["sni_hostname"] == self.name
        seen = Seen(request.method, request.url.path, request.content, request.headers)
        self.seen.append(seen)
        act = self._fault(str(seen))
        if act == "refuse":
            raise httpx2.ConnectError("nobody listens")
        if isinstance(act, httpx2.Response):
            return act
        response = self._answer(seen)
        if act == "lose":
            raise httpx2.ReadError("the answer was lost")
        return act(response) if callable(act) else response

    def _fault(self, text: str):
        for fault in self.faults:
            if fault.times and re.search(fault.pattern, text):
                fault.times -= 1
                return fault.act
        return None

    def _answer(self, seen: Seen) -> httpx2.Response:
        if seen.path == "/healthz":
            return httpx2.Response(200, json={"status": "ok"})
        if seen.path == "/readyz":
            return _json(self.ready, 200 if self.ready.ready else 503)
        try:
            return self._route(seen, self._caller(seen))
        except SedmlError as error:
            problem = problem_of(error)
            return httpx2.Response(problem.status, content=problem.model_dump_json())

    def _caller(self, seen: Seen) -> Account:
        header = seen.headers.get("Authorization", "")
        if not header.startswith("Bearer "):
            raise MissingTokenError("No token.", "Send one.")
        name = self.hashes.get(token_hash(header.removeprefix("Bearer ")))
        if name is None:
            raise InvalidTokenError("The token is unknown here.", "Check the kit.")
        if self.accounts[name].revoked_at is not None:
            raise RevokedError("The account was revoked.", "Ask the operator.")
        return self.accounts[name]

    def _route(self, seen: Seen, caller: Account) -> httpx2.Response:
        match seen.method, seen.path.strip("/").split("/")[1:]:
            case "GET", ["server"]:
                return _json(self._info(caller))
            case "GET", ["jobs"]:
                return _json(JobList(jobs=[self.status(id_) for id_ in self.jobs if self._visible(id_, caller)]))
            case "PUT", ["jobs", id_]:
                return self._create(id_, Terms.model_validate_json(seen.body), caller)
            case "GET", ["jobs", id_]:
                self._job(id_, caller)
                self.deployment.advance(id_)
                return _json(self.status(id_))
            case "DELETE", ["jobs", id_]:
                job = self._job(id_, caller, owner=True)
                job.deleted, job.data = True, None
                job.labels.clear()
                return _json(self.status(id_))
            case "PUT", ["jobs", id_, "data"]:
                return self._take_data(id_, seen.body, caller)
            case "GET", ["jobs", id_, "data"]:
                self._need(caller, "teacher", "requester", "operator")
                return httpx2.Response(200, content=self._job(id_, caller).data)
            case "PUT", ["jobs", id_, "ballot"]:
                return self._take_ballot(id_, seen, caller)
            case "GET", ["jobs", id_, "ballot"]:
                return _json(self._receipt(id_, caller.name))
            case "POST", ["jobs", id_, "close"]:
                job = self._job(id_, caller, owner=True)
                if job.state == JobState.OPEN:
                    job.state = JobState.CLOSED
                return _json(self.status(id_))
            case "PUT", ["jobs", id_, "seed"]:
                return self._take_seed(id_, seen, caller)
            case "PUT", ["jobs", id_, "corrections", number]:
                return self._take_corrections(id_, int(number), seen, caller)
            case "GET", ["jobs", id_, "labels", number]:
                return httpx2.Response(200, content=self._job(id_, caller, owner=True).labels[int(number)])
        return self._route_accounts(seen, caller)

    def _route_accounts(self, seen: Seen, caller: Account) -> httpx2.Response:
        match seen.method, seen.path.strip("/").split("/")[1:]:
            case "GET", ["accounts"]:
                self._need(caller, "operator")
                return _json(AccountList(accounts=list(self.accounts.values())))
            case "PUT", ["accounts", name]:
                self._need(caller, "operator")
                wish = Enrolment.model_validate_json(seen.body)
                new = name not in self.accounts
                self.enrol(name, wish.role, wish.token_hash)
                return _json(self.accounts[name], 201 if new else 200)
            case "DELETE", ["accounts", name]:
                self._need(caller, "operator")
                self.accounts[name] = self.accounts[name].model_copy(update={"revoked_at": datetime.now(UTC)})
                return _json(self.accounts[name])
            case "PUT", ["token"]:
                digest = NewToken.model_validate_json(seen.body).token_hash
                self.hashes = {key: name for key, name in self.hashes.items() if name != caller.name}
                self.hashes[digest] = caller.name
                return _json(caller)
        raise NotFoundError("There is no such thing here.", "Look again.")

    def status(self, id_: str) -> JobStatus:
        job = self.jobs[id_]
        done = job.terms.samples if job.state == JobState.DONE else 0
        return JobStatus(
            id=id_,
            server=self.name,
            state=job.state,
            terms=job.terms,
            votes=len(job.ballots),
            roster=job.roster,
            task=None if job.task is None else job.task.id.hex(),
            blocks=0 if job.task is None else len(list(job.task.blocks)),
            blocks_dealt=len(job.corrections),
            samples_done=done,
            answered=job.answered,
            created_at=job.created_at,
            expires_at=datetime.fromtimestamp(job.terms.deadline, UTC) + timedelta(days=7),
            deleted=job.deleted,
            budget=CohortStatus(
                cohort="teachers", epsilon=10, delta=1e-5, rho_limit=4.0, rho_spent=1.0, rho_reserved=0.5
            ),
            problem=job.problem,
        )

    def _info(self, caller: Account) -> ServerInfo:
        from sedml import __version__

        values = {
            "server": self.name,
            "version": __version__,
            "api": 1,
            "time": datetime.now(UTC),
            "account": caller.name,
            "role": caller.role,
            "certificate_expires": datetime.now(UTC) + timedelta(days=300),
            "max_data_bytes": 1 << 20,
            "disk_free_bytes": 1 << 40,
            "peer_seen": datetime.now(UTC),
        }
        return ServerInfo(**values | self.info)

    def _need(self, caller: Account, *roles: str) -> None:
        if caller.role not in roles:
            raise ForbiddenError(f"A {caller.role} may not do this.", "Use another kit.")

    def _visible(self, id_: str, caller: Account) -> bool:
        job = self.jobs[id_]
        if caller.role == "teacher":
            return job.state == JobState.OPEN
        return caller.name == (job.terms.dealer if caller.role == "dealer" else job.terms.requester)

    def _job(self, id_: str, caller: Account, owner: bool = False) -> FakeJob:
        job = self.jobs.get(id_)
        if job is None or (caller.role in ("requester", "dealer") and not self._visible(id_, caller)):
            raise NotFoundError("There is no such job here.", "Check the id.")
        if owner:
            self._need(caller, "requester")
        return job

    def _create(self, id_: str, terms: Terms, caller: Account) -> httpx2.Response:
        self._need(caller, "requester")
        if terms.id != id_:
            raise TermsMismatchError("The terms have another hash.", "Send the right ones.")
        new = id_ not in self.jobs
        if new:
            self.jobs[id_] = FakeJob(terms, datetime.now(UTC))
        return _json(self.status(id_), 201 if new else 200)

    def _take_data(self, id_: str, body: bytes, caller: Account) -> httpx2.Response:
        job = self._job(id_, caller, owner=True)
        if (len(body), hashlib.sha256(body).hexdigest()) != (job.terms.data_bytes, job.terms.data_sha256):
            raise TermsMismatchError("These are other data.", "Send the right ones.")
        new = job.data is None
        if new:
            job.data, job.state = body, JobState.OPEN
        return _json(self.status(id_), 201 if new else 200)

    def _take_ballot(self, id_: str, seen: Seen, caller: Account) -> httpx2.Response:
        self._need(caller, "teacher")
        job = self._job(id_, caller)
        submission = seen.headers[SUBMISSION_HEADER]
        assert re.fullmatch(r"[0-9a-f]{32}", submission)
        if len(seen.body) != job.terms.ballot.sizes[self.role]:
            raise BodyTruncatedError("The ballot has the wrong size.", "Send all of it.")
        new = caller.name not in job.ballots
        if new and job.state != JobState.OPEN:
            raise JobStateError(f"The job is {job.state}.", "It takes no votes.")
        if not new and job.ballots[caller.name] != (submission, seen.body):
            raise ConflictError("Another ballot of yours is on record.", "It stands.")
        job.ballots[caller.name] = submission, seen.body
        return _json(self._receipt(id_, caller.name), 201 if new else 200)

    def _receipt(self, id_: str, teacher: str) -> Receipt:
        if teacher not in self.jobs[id_].ballots:
            raise NotFoundError("There is no ballot of yours here.", "Vote.")
        submission, _ = self.jobs[id_].ballots[teacher]
        return Receipt(
            job=id_,
            teacher=teacher,
            server=self.name,
            submission=submission,
            received_at=datetime(2030, 1, 1, tzinfo=UTC),
        )

    def _dealt(self, id_: str, seen: Seen, caller: Account) -> FakeJob:
        job = self._job(id_, caller)
        self._need(caller, "requester" if job.terms.dealer is None else "dealer")
        if job.state not in (JobState.CLOSED, JobState.DEALT, JobState.RUNNING) or job.task is None:
            raise JobStateError(f"The job is {job.state}.", "It takes no randomness.")
        if seen.headers[TASK_HEADER] != job.task.id.hex():
            raise TermsMismatchError("Dealt for another task.", "Deal again.")
        return job

    def _take_seed(self, id_: str, seen: Seen, caller: Account) -> httpx2.Response:
        job = self._dealt(id_, seen, caller)
        assert len(seen.body) == 32
        if job.seed not in (None, seen.body):
            raise ConflictError("Another seed is on record.", "It stands.")
        new, job.seed = job.seed is None, seen.body
        self._move(job)
        return _json(self.status(id_), 201 if new else 200)

    def _take_corrections(self, id_: str, number: int, seen: Seen, caller: Account) -> httpx2.Response:
        assert self.role == 1
        job = self._dealt(id_, seen, caller)
        block = list(job.task.blocks)[number]
        assert len(seen.body) == corrections_size(plan_block(job.task, block.samples))
        if job.corrections.get(number, seen.body) != seen.body:
            raise ConflictError("Other corrections are on record.", "They stand.")
        new = number not in job.corrections
        job.corrections[number] = seen.body
        self._move(job)
        return _json(self.status(id_), 201 if new else 200)

    def _move(self, job: FakeJob) -> None:
        blocks = len(list(job.task.blocks)) if self.role == 1 else 0
        if job.state == JobState.CLOSED and job.seed is not None and len(job.corrections) == blocks:
            job.state = JobState.DEALT


class FakeDeployment:
    """Both servers, and the noise that they draw."""

    def __init__(self) -> None:
        self.s0, self.s1 = FakeServer("s0", self), FakeServer("s1", self)
        self.runs = 0

    @property
    def servers(self) -> tuple[FakeServer, FakeServer]:
        return self.s0, self.s1

    def enrol(self, kit) -> None:
        for name, access in kit.servers.items():
            getattr(self, name).enrol(kit.name, kit.role, token_hash(access.token))

    def transport(self, url: str, _authority: bytes) -> httpx2.MockTransport:
        """In place of `sedml.service.client.connection.https`."""
        return httpx2.MockTransport(self.s0 if "s0" in url else self.s1)

    def noises(self, task) -> tuple[DrawnNoise, DrawnNoise]:
        return tuple(DrawnNoise(task, role, Seed(bytes([role]) * 32)) for role in (0, 1))

    def expected(self, id_: str, votes: np.ndarray) -> np.ndarray:
        """The labels of these votes int[K, Q]: what the ideal functionality says for the noise that was drawn."""
        from sedml.protocol.votes import histogram

        task = self.s0.jobs[id_].task
        return ideal_labels(task, histogram(votes, task.classes), self.noises(task))

    def advance(self, id_: str) -> None:
        """What the two servers do between themselves, when somebody looks."""
        jobs = [server.jobs.get(id_) for server in self.servers]
        if None in jobs:
            return
        states = {job.state for job in jobs}
        if states == {JobState.CLOSED} and jobs[0].roster is None:
            self._agree(jobs)
        if states == {JobState.DEALT}:
            self._run(jobs)

    def _agree(self, jobs: list[FakeJob]) -> None:
        both = {
            name
            for name, (submission, _) in jobs[0].ballots.items()
            if jobs[1].ballots.get(name, ("", b""))[0] == submission
        }
        if len(both) < jobs[0].terms.min_teachers:
            for job in jobs:
                job.state = JobState.REFUSED
                job.problem = problem_of(TooFewTeachersError(f"{len(both)} teachers took part.", "Ask again."))
            return
        digest = hashlib.sha256(",".join(sorted(both)).encode()).hexdigest()
        for job in jobs:
            job.names, job.roster = sorted(both), Roster(teachers=len(both), digest=digest)

    def _run(self, jobs: list[FakeJob]) -> None:
        self.runs += 1
        task = jobs[0].task
        noises, common = self.noises(task), Seed(b"c" * 32)
        for block in task.blocks:
            plan = plan_block(task, block.samples)
            corrections = np.frombuffer(jobs[1].corrections[block.index], np.uint8)
            given = [
                Correlations(plan, block.index, Seed(jobs[0].seed), None),
                Correlations(plan, block.index, Seed(jobs[1].seed), corrections),
            ]
            channels = memory_pair(task.id, timeout=20.0)

            def side(role: int, given=given, block=block, channels=channels):
                halves = [jobs[role].ballots[name][1] for name in jobs[role].names]
                party = Party(role, channels[role], given[role])
                return run_block(party, task, lambda: index_shares(role, halves, task, block), noises[role], common)

            with ThreadPoolExecutor(2) as threads:
                outcomes = list(threads.map(side, (0, 1)))
            for job, outcome in zip(jobs, outcomes, strict=True):
                shares = pack(outcome.labels, label_ring(task).width)
                job.labels[block.index] = to_planes(outcome.consensus).tobytes() + shares.tobytes()
                job.answered += int(outcome.consensus.sum())
        for job in jobs:
            job.state = JobState.DONE


def _json(document, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, content=document.model_dump_json())


@pytest.fixture(scope="session")
def provisioned(tmp_path_factory):
    out = tmp_path_factory.mktemp("deployment") / "kits"
    provision(out, ("s0.example:8440", "s1.example:8441"), None, 4, 2, dealers=2)
    return out


@pytest.fixture
def kits(provisioned, tmp_path):
    """The kits of four teachers, two requesters, two dealers and both operators, in folders of the test's own."""
    return shutil.copytree(provisioned, tmp_path / "kits")


@pytest.fixture
def deployed(kits, monkeypatch):
    """Two servers that know all of them; calls are tried four times, and at once."""
    servers = FakeDeployment()
    for folder in sorted(kits.iterdir()):
        if folder.name.startswith(("teacher", "requester", "dealer", "operator")):
            servers.enrol(ClientKit.load(folder))
    monkeypatch.setattr("sedml.service.client.connection.https", servers.transport)
    set_on_retry_hooks([])
    with stamina.set_testing(True, attempts=4, cap=True):
        yield servers
    set_on_retry_hooks(None)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 16 samples, so that small jobs have several."""
    monkeypatch.setattr("sedml.protocol.task._BLOCK_SAMPLES", 16)


def busy(status: int, after: str | None = None) -> httpx2.Response:
    """A server that has no time now."""
    return httpx2.Response(status, headers={} if after is None else {"Retry-After": after})
