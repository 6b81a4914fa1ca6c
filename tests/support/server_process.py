"""One server as a real process: start it, ask it, stop it, kill it."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sedml.service.kits import ServerKit

WITHIN = 120.0
"""Seconds that anything may take on a busy machine; nothing waits longer than it has to."""

_PORTS = (10_000, 32_000)  # below those that outgoing connections are given


@dataclass(frozen=True)
class Answer:
    """What came back over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def document(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Of a problem; empty for what is none."""
        return self.document["type"].removeprefix("urn:sedml:") if self.status >= 400 else ""


class Server:
    """S0 or S1."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.kit = ServerKit.load(folder)
        self.name = self.kit.name
        self.log = folder.parent / f"{self.name}.log"
        self.log.touch()
        self._command = [*command, str(folder)]
        self._context = ssl.create_default_context(cadata=self.kit.credentials.authority.decode())
        self.process: subprocess.Popen[bytes] | None = None
        self._kept: http.client.HTTPConnection | None = None

    def start(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("SEDML_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=clean
            )

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}"
            try:
                return self.ask("GET", "/readyz").status == 200
            except OSError:
                return False

        until(ready, f"{self.name} is ready")

    def stop(self) -> None:
        """As an operator does; it must end well."""
        self.hang_up()
        self.process.send_signal(signal.SIGTERM)
        self.wait_ended()

    def wait_ended(self) -> None:
        assert self.process.wait(WITHIN) == 0, f"{self.name} ended with {self.process.returncode}"

    def kill(self) -> None:
        self.hang_up()
        self.process.kill()
        self.process.wait(WITHIN)

    def restart(self) -> None:
        self.start()
        self.wait_ready()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.kit.port), timeout=WITHIN)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(plain, server_hostname=self.name)

    def ask(
        self, method: str, path: str, token: str | None = None, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """One request; a body that is no bytes goes as JSON. Sent again on a new connection if the old one is dead."""
        sent = dict(headers or {})
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        if isinstance(body, bytes):
            sent.setdefault("Content-Type", "application/octet-stream")
        elif body is not None:
            sent.setdefault("Content-Type", "application/json")
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        kept, self._kept = self._kept, None
        if kept is not None:
            try:
                return self._exchange(kept, method, path, body, sent)
            except (OSError, http.client.HTTPException):
                kept.close()
        fresh = http.client.HTTPConnection("127.0.0.1", self.kit.port)
        fresh.sock = self.connect()
        try:
            return self._exchange(fresh, method, path, body, sent)
        except BaseException:
            fresh.close()
            raise

    def _exchange(self, connection: http.client.HTTPConnection, *request: Any) -> Answer:
        connection.request(*request)
        answer = read_answer(connection)
        if answer.headers.get("connection") == "close" or self._kept is not None:
            connection.close()
        else:
            self._kept = connection
        return answer

    def hang_up(self) -> None:
        """Close the connection that was kept for the next request."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    @property
    def resident(self) -> int:
        """Bytes of memory that the process holds."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


def read_answer(connection: http.client.HTTPConnection) -> Answer:
    answer = connection.getresponse()
    return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())


def until(check: Callable[[], Any], what: str, pause: float = 0.02) -> Any:
    """Look again and again until there is something to see; what that is."""
    deadline = time.monotonic() + WITHIN
    while not (found := check()):
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(pause)
    return found


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses, and that no outgoing connection will be given."""
    with ExitStack() as held:
        found: list[int] = []
        while len(found) < count:
            port = random.SystemRandom().randrange(*_PORTS)
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            found.append(port)
        return found
