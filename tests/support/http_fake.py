"""A core in memory, put in place of the real one, so that the interface is tested by itself."""

from __future__ import annotations

import secrets
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sedml.errors import (
    BodyTooLargeError,
    BodyTruncatedError,
    ConflictError,
    InvalidTokenError,
    MissingTokenError,
    NotFoundError,
    RevokedError,
    SedmlError,
    TermsMismatchError,
)
from sedml.service.messages import (
    CohortStatus,
    JobList,
    JobStatus,
    LogEntry,
    LogHead,
    LogLine,
    LogPage,
    OwnBudget,
    OwnLimit,
    Receipt,
    RestoredLog,
)
from sedml.service.server import peer_log, public_log
from sedml.service.server.access import Caller, require
from sedml.service.server.jobs import charges, lifecycle, listing, public_data, voting
from sedml.service.server.ops import accounts, health
from sedml.service.server.settings import Settings
from sedml.service.server_messages import Account, AccountList, Health, Readiness, ServerInfo
from sedml.service.states import JobState
from sedml.service.terms import Terms

BALLOT = 300
TIME = datetime(2030, 1, 1, tzinfo=UTC)
BALLOT_NAME = "ab" * 32
TERMS = Terms(
    requester="requester-1",
    classes=10,
    samples=100,
    threshold="0.6",
    sigma=5.0,
    epsilon=1e5,
    delta=1e-6,
    min_teachers=10,
    deadline=2_000_000_000,
    data_bytes=200_000,
    data_sha256="00" * 32,
    nonce="11" * 16,
)
JOB = TERMS.id


def settings(data_dir: Path, **changes: Any) -> Settings:
    """Settings without a kit; no request is too many unless a test says so."""
    generous = {"processor_share": 1e3, "processor_burst": 1e3}
    generous |= {"anonymous_rate_per_second": 1e6, "anonymous_rate_burst": 10**6}
    places = {"host": "127.0.0.1", "port": 0, "link_host": "127.0.0.1", "link_port": 0}
    books = {"database": "none", "ledger": "none"}
    return Settings(**places, data_dir=data_dir, **books, **(generous | changes))


def token(name: str) -> str:
    """The token of one of the callers below."""
    return f"sedml_{name}-secret"


def bearer(name: str) -> dict[str, str]:
    """The header with it."""
    return {"Authorization": f"Bearer {token(name)}"}


def _outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except SedmlError as error:
        return error


@dataclass
class FakeCore:
    """What the core would keep."""

    callers: dict[str, Caller] = field(
        default_factory=lambda: {
            token(name): Caller(name, role)
            for name, role in (
                ("teacher-1", "teacher"),
                ("teacher-2", "teacher"),
                ("requester-1", "requester"),
                ("operator-s0", "operator"),
            )
        }
    )
    revoked: set[str] = field(default_factory=lambda: {token("teacher-9")})
    terms: dict[str, Terms] = field(default_factory=dict)
    data: dict[str, Path] = field(default_factory=dict)
    stored: dict[tuple[str, ...], bytes] = field(default_factory=dict)
    audited: list[tuple[str, str, str, str]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    ready: bool = True

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Take the place of the core's functions."""
        places = {
            accounts: {"authenticate_all", "enrol", "revoke", "listed", "replace_token"},
            peer_log: {"accept_restored"},
            public_log: {"head", "page", "record"},
            charges: {"listed", "own_budget", "set_limit"},
            health: {"life", "readiness", "info", "figures"},
            lifecycle: {"create", "label_share", "status", "teachers_statuses", "close", "delete"},
            listing: {"page"},
            public_data: {"expect", "accept", "file_of"},
            voting: {"expect_ballot", "accept_ballots", "receipt"},
        }
        for module, names in places.items():
            for name in names:
                assert callable(getattr(module, name))
                own = f"{module.__name__.rpartition('.')[2]}_{name}"
                patch.setattr(module, name, self._counted(own))

    def node(self, config: Settings, **kit: Any) -> Any:
        """A node as far as the interface looks into it."""
        incoming = config.data_dir / "incoming"
        incoming.mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(settings=config, kit=SimpleNamespace(name="s0", **kit), incoming=incoming)

    def _counted(self, name: str) -> Any:
        function = getattr(self, name)

        def counted(*args: Any) -> Any:
            self.calls[name] += 1
            return function(*args)

        return counted

    def accounts_authenticate_all(self, node: Any, shown: list[str | None]) -> list[Caller | SedmlError]:
        return [_outcome(self._authenticate, given) for given in shown]

    def _authenticate(self, given: str | None) -> Caller:
        if not given:
            raise MissingTokenError("No token.", "Send one.")
        if given in self.revoked:
            raise RevokedError("Revoked.", "Ask.")
        if given not in self.callers:
            raise InvalidTokenError("Not known.", "Use another.")
        return self.callers[given]

    def accounts_enrol(self, node: Any, caller: Caller, name: str, enrolment: Any) -> tuple[Account, bool]:
        require(caller, "operator")
        new = ("account", name) not in self.stored
        if self.stored.setdefault(("account", name), enrolment.token_hash.encode()) != enrolment.token_hash.encode():
            raise ConflictError("Other.", "Revoke it first.")
        return Account(name=name, organisation=name, role=enrolment.role, created_at=TIME), new

    def accounts_revoke(self, node: Any, caller: Caller, name: str) -> Account:
        require(caller, "operator")
        return Account(name=name, organisation=name, role="teacher", created_at=TIME, revoked_at=TIME)

    def accounts_listed(self, node: Any, caller: Caller) -> AccountList:
        require(caller, "operator")
        return AccountList(
            accounts=[
                Account(name=c.name, organisation=c.organisation, role=c.role, created_at=TIME)
                for c in self.callers.values()
            ]
        )

    def accounts_replace_token(self, node: Any, caller: Caller, token_hash: str) -> Account:
        self.stored["token", caller.name] = token_hash.encode()
        return Account(name=caller.name, organisation=caller.organisation, role=caller.role, created_at=TIME)

    def public_log_page(self, node: Any, caller: Caller, start: int) -> LogPage:
        names = ("actor", "action", "subject", "outcome")
        lines = [LogLine(at=0.0, salt="", **dict(zip(names, told, strict=True))) for told in self.audited]
        entries = [LogEntry(number=number, opened=line) for number, line in enumerate(lines)]
        return LogPage(server="s0", entries=entries[start:][:100], size=len(entries))

    def public_log_head(self, node: Any, seen: int) -> LogHead:
        return LogHead(server="s0", checkpoint="", consistency=[], certificates={})

    def peer_log_accept_restored(self, node: Any, caller: Caller, wanted: RestoredLog) -> RestoredLog:
        require(caller, "operator")
        return wanted

    def public_log_record(self, node: Any, actor: str, action: str, subject: str, outcome: str) -> None:
        self.audited.append((actor, action, subject, outcome))

    def charges_listed(self, node: Any) -> list[CohortStatus]:
        limits = {"rho_limit": 1.0, "rho_spent": 0.25, "rho_reserved": 0.0}
        return [CohortStatus(cohort="teachers", epsilon=8.0, delta=1e-6, unit="organisation", **limits)]

    def charges_own_budget(self, node: Any, caller: Caller) -> OwnBudget:
        require(caller, "teacher")
        limit = self.stored.get(("limit", caller.name))
        promise = {"cohort": "teachers", "epsilon": 8.0, "delta": 1e-6, "used": 0.5, "used_epsilon": 4.0}
        return OwnBudget(**promise, unit="organisation", limit=None if limit is None else float(limit))

    def charges_set_limit(self, node: Any, caller: Caller, wanted: OwnLimit) -> OwnBudget:
        require(caller, "teacher")
        if wanted.limit is not None:
            self.stored["limit", caller.name] = str(wanted.limit).encode()
        return self.charges_own_budget(node, caller)

    def health_life(self, node: Any) -> Health:
        return Health(server="s0", version="1", time=TIME)

    def health_readiness(self, node: Any) -> Readiness:
        return Readiness(ready=self.ready, checks={"store": "ok" if self.ready else "StoreError"})

    def health_info(self, node: Any, caller: Caller) -> ServerInfo:
        return ServerInfo(
            server="s0",
            version="1",
            api=1,
            time=TIME,
            account=caller.name,
            role=caller.role,
            certificate_expires=TIME,
            max_data_bytes=1,
            disk_free_bytes=1,
            peer_seen=None,
        )

    def health_figures(self, node: Any) -> dict[str, float]:
        return {"jobs_open": 2.0, "jobs_done": 1.0, "ballots_total": 7.0, "peer_seen_seconds": 0.5}

    def lifecycle_create(self, node: Any, caller: Caller, job: str, terms: Terms) -> tuple[JobStatus, bool]:
        require(caller, "requester")
        if terms.id != job:
            raise TermsMismatchError("Other terms.", "Compute the id.")
        new = job not in self.terms
        self.terms[job] = terms
        return self._status(job), new

    def listing_page(self, node: Any, caller: Caller, after: str) -> bytes:
        return JobList(jobs=[self._status(job) for job in self.terms]).model_dump_json().encode()

    def lifecycle_status(self, node: Any, caller: Caller, job: str, seen: int) -> JobStatus:
        return self._status(job)

    def lifecycle_teachers_statuses(
        self, node: Any, asked: list[tuple[Caller, str, int]]
    ) -> list[JobStatus | SedmlError]:
        return [_outcome(self.lifecycle_status, node, *one) for one in asked]

    def lifecycle_close(self, node: Any, caller: Caller, job: str) -> JobStatus:
        require(caller, "requester")
        return self._status(job, state=JobState.CLOSED)

    def lifecycle_delete(self, node: Any, caller: Caller, job: str) -> JobStatus:
        require(caller, "requester", "operator")
        return self._status(job, state=JobState.EXPIRED, deleted=True)

    def public_data_expect(self, node: Any, caller: Caller, job: str) -> int:
        require(caller, "requester")
        return self._status(job).terms.data_bytes

    def public_data_accept(self, node: Any, caller: Caller, job: str, file: Path) -> tuple[JobStatus, bool]:
        body = file.read_bytes()
        new = self._keep(("data", job), body)
        self.data[job] = file.rename(node.settings.data_dir / f"{secrets.token_hex(8)}.data")
        return self._status(job, state=JobState.OPEN), new

    def public_data_file_of(self, node: Any, caller: Caller, job: str) -> Path:
        require(caller, "teacher", "requester", "operator")
        if job not in self.data:
            raise NotFoundError("No data.", "Wait.")
        return self.data[job]

    def voting_expect_ballot(self, node: Any, caller: Caller, job: str, name: str) -> int:
        require(caller, "teacher")
        self._status(job)
        return BALLOT

    def voting_accept_ballots(
        self, node: Any, arrived: list[voting.Arrived]
    ) -> list[tuple[Receipt, bool] | SedmlError]:
        return [_outcome(self._accept, node, one.caller, one.job, one.name, one.body) for one in arrived]

    def _accept(self, node: Any, caller: Caller, job: str, name: str, body: bytes) -> tuple[Receipt, bool]:
        size = self.voting_expect_ballot(node, caller, job, name)
        if len(body) != size:
            raise (BodyTruncatedError if len(body) < size else BodyTooLargeError)("Another size.", "Cast it again.")
        new = self._keep(("ballot", job, caller.name), name.encode() + body)
        return self._receipt(job, caller, name), new

    def voting_receipt(self, node: Any, caller: Caller, job: str) -> Receipt:
        require(caller, "teacher")
        if ("ballot", job, caller.name) not in self.stored:
            raise NotFoundError("No ballot.", "Cast it.")
        return self._receipt(job, caller, self.stored["ballot", job, caller.name][:64].decode())

    def lifecycle_label_share(self, node: Any, caller: Caller, job: str, block: int) -> bytes:
        require(caller, "requester")
        self._status(job)
        return bytes(range(100))

    def _keep(self, key: tuple[str, ...], body: bytes) -> bool:
        new = key not in self.stored
        if self.stored.setdefault(key, body) != body:
            raise ConflictError("Other bytes are on record.", "They stand.")
        return new

    def _status(self, job: str, **changes: Any) -> JobStatus:
        if job not in self.terms:
            raise NotFoundError("No such job.", "Look.")
        known = {"id": job, "server": "s0", "state": JobState.OPEN, "terms": self.terms[job], "votes": 0}
        return JobStatus(**(known | {"created_at": TIME, "expires_at": TIME} | changes))

    def _receipt(self, job: str, caller: Caller, name: str) -> Receipt:
        return Receipt(job=job, teacher=caller.name, server="s0", ballot=name, received_at=TIME)
