"""Ballots prepared beforehand and sent over open connections: what the servers can take, not the clients.

A teacher's own client spends most of a vote on opening two TLS connections and checking the terms. Where hundreds of
clients share a machine with the servers, they are what is measured, and not the servers.

Most ballots go as fast as the servers take them. The rest follow at half that rate, each at its own time whether the
one before it was answered or not: how long those wait for their receipt is what a teacher waits for.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TypeAlias
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt

from sedml import Progress
from sedml.errors import ServerError
from sedml.mpc.prg import Seed
from sedml.protocol.ballots import cast
from sedml.service.kits import ClientKit
from sedml.service.messages import BALLOT_HEADER, ServerName
from sedml.service.terms import Terms

_CONNECTIONS = 64
_AT_FULL_SPEED = 0.75
_SERVERS: tuple[ServerName, ServerName] = ("s0", "s1")

_Requests: TypeAlias = dict[ServerName, list[bytes]]


@dataclass(frozen=True)
class Sent:
    """How it went."""

    per_second: float
    """Ballots whose both halves were acknowledged, as fast as that went."""
    seconds: float
    """The time for all ballots, those at half the rate as well."""
    waits: npt.NDArray[np.float64]
    """Seconds from when a half was due, at half the rate, to its receipt."""


def send_prepared(kits: list[Path], terms: Terms, votes: npt.NDArray[np.int16], progress: Progress) -> Sent:
    """Cast the votes of all teachers, then send them."""
    loaded = [ClientKit.load(folder) for folder in kits]
    requests: _Requests = {name: [] for name in _SERVERS}
    for done, (kit, row) in enumerate(zip(loaded, votes, strict=True), start=1):
        ballot = cast(row[np.newaxis], terms.ballot, bytes.fromhex(terms.id), kit.name, Seed(kit.secret))
        for name, half in zip(_SERVERS, ballot.halves, strict=True):
            requests[name].append(_request(kit.servers[name].token, terms.id, ballot.name.hex(), half))
        progress("casting", done, len(loaded))
    context = ssl.create_default_context(cadata=loaded[0].authority.decode("ascii"))
    urls = {name: loaded[0].servers[name].url for name in _SERVERS}
    return asyncio.run(_send_all(urls, context, requests, progress))


def _request(token: str, job: str, ballot: str, half: bytes) -> bytes:
    head = (
        f"PUT /v1/jobs/{job}/ballot HTTP/1.1\r\nHost: sedml\r\nAuthorization: Bearer {token}\r\n"
        f"Content-Type: application/octet-stream\r\nContent-Length: {len(half)}\r\n"
        f"{BALLOT_HEADER}: {ballot}\r\n\r\n"
    )
    return head.encode() + half


async def _send_all(
    urls: dict[ServerName, str], context: ssl.SSLContext, requests: _Requests, progress: Progress
) -> Sent:
    start = perf_counter()
    count = len(requests["s0"])
    fast = math.ceil(_AT_FULL_SPEED * count)
    lines = {name: await _connect(urls[name], name, context, min(_CONNECTIONS, count)) for name in _SERVERS}
    done = 0

    async def send(name: ServerName, due: float, request: bytes) -> float:
        """Send it over whichever connection is free; the seconds since it was due."""
        nonlocal done
        connection = await lines[name].get()
        try:
            await _exchange(name, *connection, request)
        finally:
            lines[name].put_nowait(connection)
        done += 1
        progress("voting", done // 2, count)
        return perf_counter() - due

    async def send_part(part: slice, rate: float) -> list[float]:
        """Send a part at this rate; the waits of all halves."""
        begun = perf_counter()
        async with asyncio.TaskGroup() as group:
            tasks = []
            for number in range(*part.indices(count)):
                due = begun + (number - part.start) / rate
                await asyncio.sleep(due - perf_counter())
                tasks += [group.create_task(send(name, max(due, begun), requests[name][number])) for name in _SERVERS]
        return [task.result() for task in tasks]

    begun = perf_counter()
    await send_part(slice(0, fast), math.inf)
    per_second = fast / (perf_counter() - begun)
    waits = await send_part(slice(fast, count), per_second / 2)
    writers = [line.get_nowait()[1] for line in lines.values() for _ in range(line.qsize())]
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)
    return Sent(per_second, perf_counter() - start, np.array(waits))


_Connection: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connect(url: str, name: ServerName, context: ssl.SSLContext, count: int) -> asyncio.Queue[_Connection]:
    address = urlsplit(url)
    line: asyncio.Queue[_Connection] = asyncio.Queue()
    for _ in range(count):
        made = asyncio.open_connection(address.hostname, address.port, ssl=context, server_hostname=name)
        line.put_nowait(await made)
    return line


async def _exchange(
    name: ServerName, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> None:
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("ascii").lower()
    length = next(line.split(":")[1] for line in head.split("\r\n") if line.startswith("content-length"))
    await reader.readexactly(int(length))
    if not head.startswith("http/1.1 201"):
        raise ServerError(f"{name.upper()} refused a ballot: {head[:20]!r}.", "Look at its log.")
