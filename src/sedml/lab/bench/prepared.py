"""Ballots prepared beforehand and sent over a few open connections: what the servers can take, not the clients.

A teacher's own client spends most of a vote on opening two TLS connections and checking the terms. Where hundreds of
clients share a machine with the servers, they are what is measured, and not the servers.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections import deque
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from sedml import Progress
from sedml.errors import ServerError
from sedml.protocol.ballots import cast
from sedml.service.kits import ClientKit
from sedml.service.messages import SUBMISSION_HEADER, ServerName
from sedml.service.terms import Terms

__all__ = ["send_prepared"]

_CONNECTIONS = 64
_SERVERS: tuple[ServerName, ServerName] = ("s0", "s1")


def send_prepared(kits: list[Path], terms: Terms, votes: npt.NDArray[np.int16], progress: Progress) -> float:
    """Cast the votes of all teachers, then send them; the seconds that the sending took."""
    loaded = [ClientKit.load(folder) for folder in kits]
    queues: dict[ServerName, deque[bytes]] = {name: deque() for name in _SERVERS}
    for done, (kit, row) in enumerate(zip(loaded, votes, strict=True), start=1):
        submission = secrets.token_hex(16)
        for name, half in zip(_SERVERS, cast(row, terms.ballot), strict=True):
            queues[name].append(_request(kit.servers[name].token, terms.id, submission, half))
        progress("casting", done, len(loaded))
    context = ssl.create_default_context(cadata=loaded[0].authority.decode("ascii"))
    urls = {name: loaded[0].servers[name].url for name in _SERVERS}
    start = perf_counter()
    asyncio.run(_send(urls, context, queues))
    return perf_counter() - start


def _request(token: str, job: str, submission: str, half: bytes) -> bytes:
    head = (
        f"PUT /v1/jobs/{job}/ballot HTTP/1.1\r\nHost: sedml\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {len(half)}\r\n"
        f"{SUBMISSION_HEADER}: {submission}\r\n\r\n"
    )
    return head.encode() + half


async def _send(urls: dict[ServerName, str], context: ssl.SSLContext, queues: dict[ServerName, deque[bytes]]) -> None:
    async with asyncio.TaskGroup() as group:
        for name in _SERVERS:
            for _ in range(_CONNECTIONS):
                group.create_task(_work(urls[name], name, context, queues[name]))


async def _work(url: str, name: ServerName, context: ssl.SSLContext, queue: deque[bytes]) -> None:
    """One connection, ballot after ballot, until there are none left."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, ssl=context, server_hostname=name)
    while queue:
        writer.write(queue.popleft())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower()
        length = next(line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length"))
        await reader.readexactly(int(length))
        if not head.startswith("http/1.1 201"):
            raise ServerError(f"{name.upper()} refused a ballot: {head[:20]!r}.", "Look at its log.")
    writer.close()
