"""Whose console it is, and what every role can ask: who am I, how are the servers, what is left of the budgets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sedml.console.live_plan import Planner
from sedml.console.replies import document
from sedml.console.uploads import MOST_PREDICTIONS, MOST_SAMPLES
from sedml.service.client.async_client import AsyncClient
from sedml.service.client.budgets import Budgets, read_budgets
from sedml.service.client.checkup import examine
from sedml.service.client.evidence_document import evidence as gathered
from sedml.service.client.evidence_page import page
from sedml.service.kits import ClientKit
from sedml.service.messages import Role

QUICK = 5.0
"""Seconds of patience with a server, where somebody only wants to look."""


@dataclass(frozen=True)
class Session:
    """One party, and the files that it sends while the console is open."""

    folder: Path
    """The folder of the kit."""
    role: Role
    scratch: Path
    """Files that are gone when the console is closed."""
    planner: Planner = field(default_factory=Planner)
    samples: dict[str, Path] = field(default_factory=dict)
    """The file of samples that was sent last, by what the page calls it."""
    ids: dict[str, list[str] | None] = field(default_factory=dict)
    """What the samples of a job are called, where that was asked: a job's data never changes."""

    @property
    def kit(self) -> ClientKit:
        """The kit as it is now: its tokens may have been replaced since the console was opened."""
        return ClientKit.load(self.folder, self.role)


@contextmanager
def opened_session(folder: Path) -> Iterator[Session]:
    """The session of whoever has this kit."""
    with TemporaryDirectory(prefix="sedml-console-") as scratch:
        yield Session(folder, ClientKit.load(folder).role, Path(scratch))


def session_of(request: Request) -> Session:
    """The session that a request is for: there is one."""
    session: Session = request.app.state.session
    return session


async def who(request: Request) -> Response:
    """Whose kit it is, and which servers it leads to."""
    kit = session_of(request).kit
    return document(
        {
            "name": kit.name,
            "role": kit.role,
            "servers": {name: access.url for name, access in kit.servers.items()},
            "most_bytes": {"samples": MOST_SAMPLES, "predictions": MOST_PREDICTIONS},
        }
    )


async def checks(request: Request) -> Response:
    """What `sedml doctor` finds."""
    return document({"checks": [asdict(check) for check in await examine(session_of(request).folder)]})


async def list_budgets(request: Request) -> Response:
    """Every cohort's budget at every server that the kit leads to, and a teacher's own account."""
    found = await budgets(session_of(request))
    return document(
        {
            "budgets": [asdict(line) | {"used_share": line.used_share} for line in found.lines],
            "own": [{"server": server, **account.model_dump()} for server, account in found.own.items()],
        }
    )


async def evidence(request: Request) -> Response:
    """The page about a job that an auditor asks for, as a file."""
    job = request.path_params["job"]
    found = await gathered(AsyncClient(session_of(request).kit, patience=QUICK), job)
    named = {"Content-Disposition": f'attachment; filename="evidence-{job[:8]}.html"'}
    return Response(page(found), media_type="text/html", headers=named)


async def budgets(session: Session) -> Budgets:
    """What all servers of the kit have on record; raises if one of them does not say."""
    found = await read_budgets(session.kit, QUICK)
    for problem in found.problems.values():
        raise problem
    return found


def common_routes() -> list[Route]:
    """What every role has."""
    return [
        Route("/api/who", who, methods=["GET"]),
        Route("/api/checks", checks, methods=["GET"]),
        Route("/api/budgets", list_budgets, methods=["GET"]),
        Route("/api/jobs/{job:str}/evidence", evidence, methods=["GET"]),
    ]
