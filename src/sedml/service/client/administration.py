"""Who may call a server: an operator's calls, and a new token for oneself."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, ClassVar

from sedml import Progress, silent
from sedml.errors import InvalidTokenError
from sedml.service.client.async_client import AsyncClient, listed
from sedml.service.client.connection import PATIENCE, Connection, connected
from sedml.service.client.log_reading import LogReading, read_log
from sedml.service.client.pair import Pair
from sedml.service.client.views import JobName, JobView, check_id
from sedml.service.kits import Access, ClientKit, confirm_token, new_token, save_token, token_hash
from sedml.service.messages import JobStatus, LogPage, RestoredLog, Role, ServerName
from sedml.service.server_messages import Account, AccountList, NewToken, ServerInfo

if TYPE_CHECKING:
    from sedml.service.kits import Enrolments

_END = 2**62


class AsyncOperator(AsyncClient):
    """An operator: it looks at the jobs of its server, says who may call it, and reads its log."""

    role: ClassVar[Role | None] = "operator"

    @property
    def server_name(self) -> ServerName:
        """The server that it operates."""
        return next(iter(self.kit.servers))

    def server(self) -> AbstractAsyncContextManager[Connection]:
        """A connection to it."""
        return connected(self.kit, self.server_name, self.patience)

    async def jobs(self) -> list[JobView]:
        """All jobs of the server, newest first."""
        async with self.server() as server:
            return [self._view(status) for status in (await listed(server)).values()]

    async def status(self, job_id: JobName) -> JobView:
        """How a job stands at the server."""
        async with self.server() as server:
            return self._view(await server.get(f"/v1/jobs/{check_id(job_id)}", JobStatus))

    async def delete(self, job_id: JobName) -> JobView:
        """Delete everything that the server holds for a job; it cannot be undone, and ends an unfinished one."""
        async with self.server() as server:
            return self._view(await server.delete(f"/v1/jobs/{check_id(job_id)}", JobStatus))

    def _view(self, status: JobStatus) -> JobView:
        s0, s1 = (status if name == status.server else None for name in ("s0", "s1"))
        return JobView(status.id, s0, s1, asked=(status.server,))

    async def accounts(self) -> list[Account]:
        """All accounts of the server."""
        async with self.server() as server:
            return (await server.get("/v1/accounts", AccountList)).accounts

    async def add_account(self, document: Enrolments) -> Account:
        """Enrol whoever made this document at the server; the other operator does the same at the other."""
        async with self.server() as server:
            return await server.put(f"/v1/accounts/{document.name}", Account, document.at(self.server_name))

    async def revoke_account(self, name: str) -> Account:
        """Take an account its access to the server, at once."""
        async with self.server() as server:
            return await server.delete(f"/v1/accounts/{name}", Account)

    async def log(self, progress: Progress = silent) -> dict[ServerName, LogReading]:
        """The log of the server, with all its lines, checked from the first to the last."""
        async with self.server() as server:
            return {server.name: await read_log(self.kit, Pair(server, server), server, progress, excused=False)}

    async def newest_lines(self, last: int) -> LogPage:
        """The newest entries of the log, unchecked."""
        async with self.server() as server:
            size = (await server.get(f"/v1/log?start={_END}", LogPage)).size
            return await server.get(f"/v1/log?start={max(0, size - last)}", LogPage)

    async def accept_restored(self, size: int, root: str) -> RestoredLog:
        """Go on cosigning the other server's log, put back to this; once its operator has told what happened."""
        async with self.server() as server:
            return await server.put("/v1/log/restored", RestoredLog, RestoredLog(size=size, root=root))


async def rotate(kit: ClientKit, patience: float = PATIENCE) -> ClientKit:
    """Replace the kit's tokens, at every server it knows; after a crash, the same call goes on from there.

    The new token is in the kit before a server hears of it, next to the old one, so at no point is the kit without a
    token that the server takes.
    """
    for name in kit.servers:
        if kit.servers[name].previous_token is None:
            kit = save_token(kit, name, new_token())
        await _replace(kit, name, patience)
        kit = confirm_token(kit, name)
    return kit


async def _replace(kit: ClientKit, name: ServerName, patience: float) -> None:
    """Have the server take the kit's newer token, by proof of the older one."""
    access = kit.servers[name]
    if await _takes(kit, name, access.token, patience) or access.previous_token is None:
        return
    try:
        async with connected(_with(kit, name, access.previous_token), name, patience) as server:
            await server.put("/v1/token", Account, NewToken(token_hash=token_hash(access.token)))
    except InvalidTokenError:
        # The answer to the first attempt was lost, and with it the old token's validity.
        if not await _takes(kit, name, access.token, patience):
            raise


async def _takes(kit: ClientKit, name: ServerName, token: str, patience: float) -> bool:
    async with connected(_with(kit, name, token), name, patience) as server:
        try:
            await server.get("/v1/server", ServerInfo)
        except InvalidTokenError:
            return False
        return True


def _with(kit: ClientKit, name: ServerName, token: str) -> ClientKit:
    """The kit with this token for the server and no other."""
    servers = kit.servers | {name: Access(kit.servers[name].url, token)}
    return ClientKit(kit.folder, kit.name, kit.role, kit.secret, kit.authority, servers)
