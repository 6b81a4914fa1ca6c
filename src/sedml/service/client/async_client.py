"""What every client asks the servers: which jobs there are, and how one of them stands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from os import PathLike
from typing import ClassVar, TypeAlias

import anyio

from sedml import Progress, silent
from sedml.errors import InputError, KitError, SedmlError, ServerError
from sedml.protocol.task import Task
from sedml.service.client.arguments import number, path_of
from sedml.service.client.connection import PATIENCE, Connection
from sedml.service.client.log_reading import LogReading, read_log
from sedml.service.client.pair import Pair, asked, from_both, paired
from sedml.service.client.views import JobName, JobView, check_id, check_live, check_same_job
from sedml.service.kits import ClientKit
from sedml.service.messages import JobList, JobStatus, Role, ServerName, a_role

_FIRST_PAUSE, _LAST_PAUSE = 0.02, 1.0
_MOST_LISTED, _MOST_BYTES = 100_000, 256 << 20

Where: TypeAlias = str | PathLike[str]


class AsyncClient:
    """A client with its kit; every call opens its own connections and closes them."""

    role: ClassVar[Role | None] = None

    def __init__(self, kit: ClientKit | Where, *, patience: float = PATIENCE) -> None:
        self.kit = kit if isinstance(kit, ClientKit) else ClientKit.load(path_of("kit", kit), self.role)
        if self.role is not None and self.role != self.kit.role:
            raise KitError(
                f"{self.kit.folder} is the kit of {a_role(self.kit.role)}.", f"Give the kit of {a_role(self.role)}."
            )
        self.patience = number("patience", patience)
        if self.patience < 0:
            raise InputError(f"patience is {patience!r}.", "Pass seconds, or 0 to try everything once.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kit.name!r})"

    async def jobs(self) -> list[JobView]:
        """The jobs that this party may see, newest first: a teacher the open ones, others those that are theirs."""
        async with self._servers() as pair:
            at0, at1 = await from_both(pair, listed)
        views = [JobView(job_id, at0.get(job_id), at1.get(job_id)) for job_id in at0 | at1]
        return sorted(views, key=lambda view: view.statuses[0].created_at, reverse=True)

    async def status(self, job_id: JobName) -> JobView:
        """How a job stands at both servers, or at one if the other does not answer."""
        job_id = check_id(job_id)
        async with self._servers() as pair:
            found = await asked(pair, lambda server: server.get(f"/v1/jobs/{job_id}", JobStatus))
        problems = {
            server.name: answer
            for server, answer in zip((pair.s0, pair.s1), found, strict=True)
            if isinstance(answer, SedmlError)
        }
        if len(problems) == 2:
            raise problems["s0"]
        s0, s1 = (None if isinstance(answer, SedmlError) else answer for answer in found)
        return JobView(job_id, s0, s1, problems)

    async def log(self, progress: Progress = silent) -> dict[ServerName, LogReading]:
        """The logs of the servers, as far as this party may know them, checked from the first entry to the last."""
        async with self._servers() as pair:
            first = await from_both(pair, lambda server: read_log(self.kit, pair, server, progress))
            # Again, for what came while the other one was read: neither is asked for what it had no time to write.
            known = {reading.server: reading for reading in first}
            found = await from_both(pair, lambda server: read_log(self.kit, pair, server, onto=known[server.name]))
        return {reading.server: reading for reading in found}

    def _servers(self) -> AbstractAsyncContextManager[Pair]:
        return paired(self.kit, self.patience)


async def listed(server: Connection) -> dict[str, JobStatus]:
    """All jobs of one server that the caller may see, by id, newest first."""
    found: dict[str, JobStatus] = {}
    last, more, before = "", True, server.received
    while more:
        page = await server.get(f"/v1/jobs?after={last}", JobList)
        known = len(found)
        found |= {status.id: status for status in page.jobs}
        more = page.more
        endless = len(found) > _MOST_LISTED or server.received - before > _MOST_BYTES
        if more and (len(found) == known or endless):
            raise ServerError(f"{server.name.upper()} lists jobs without end.", "Tell its operator; ask for one job.")
        last = page.jobs[-1].id if page.jobs else ""
    return found


async def look(pair: Pair, job_id: str) -> tuple[JobView, JobStatus, JobStatus]:
    """A job as both servers see it now, the same terms at both; raises if one of them does not say."""
    s0, s1 = await from_both(pair, lambda server: look_at(server, job_id))
    return JobView(job_id, s0, s1), s0, s1


async def look_at(server: Connection, job_id: str) -> JobStatus:
    """A job as one server sees it now, with terms of which its id is the hash."""
    status = await server.get(f"/v1/jobs/{job_id}", JobStatus)
    check_same_job(job_id, status)
    return status


async def wait_for(
    pair: Pair, job_id: str, ready: Callable[[JobStatus, JobStatus], Task | None]
) -> tuple[JobView, Task]:
    """Look again and again, less and less often, until both servers are so far."""
    began = anyio.current_time()
    while True:
        view, s0, s1 = await look(pair, job_id)
        task = ready(s0, s1) if check_live(view) else None
        if task is not None:
            return view, task
        waited = anyio.current_time() - began
        await anyio.sleep(min(_LAST_PAUSE, max(_FIRST_PAUSE, waited / 10)))
