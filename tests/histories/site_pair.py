"""Both servers of a deployment, a wire of ours in front of each and one between them, and what can be done to them."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import sqlite3
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from histories.forge import CLOCK, Forge
from sedml.lab.bench.resident import family
from support.cut_link import Wire
from support.live_servers import Live, make_kits, settings_of
from support.server_process import WITHIN, Server, free_ports, until

__all__ = ["TEACHERS", "SitePair", "standing"]

TEACHERS, REQUESTERS = 6, 3
"""Of each of the two cohorts."""
LINK_TIMEOUT = "1s"
STAGES: dict[str, dict[str, Any]] = {"alone": {}, "processes": {"replicated": True, "lease": "1s"}, "Ray": {}}
"""Settings of each."""
_TASK = b"ray::sedml-block"


class Site(Server):
    """A server that listens where only we know, and is forked."""

    def __init__(self, folder: Path, port: int, forge: Forge) -> None:
        super().__init__(folder, [])
        self._port, self._forge = port, forge

    def start(self) -> None:
        self.process = self._forge.start(self.kit.folder, self.log)

    def connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), timeout=WITHIN)
        try:
            return self._context.wrap_socket(plain, server_hostname=self.name)
        except BaseException:  # it is just being started, or killed
            plain.close()
            raise

    def kill(self) -> None:
        """With all its processes: they end with the first, but not in the same moment."""
        everybody = family(self.process.pid)[1:]
        super().kill()
        until(lambda: not any(_title(one) for one in everybody), f"nothing of {self.name} runs any more")

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def set_clock(self, ahead: float) -> None:
        fresh = self.kit.folder / f"{CLOCK}.new"
        fresh.write_text(str(ahead))
        fresh.replace(self.kit.folder / CLOCK)

    @property
    def store(self) -> Path:
        return self.kit.folder / "data" / "server.db"

    def copy_store(self, name: str) -> Path:
        """As an operator backs it up: while the server runs."""
        place = self.kit.folder / f"{name}.backup"
        _copy(self.store, place)
        return place

    def put_back(self, copy: Path) -> None:
        """While the server is down."""
        _copy(copy, self.store)


class SitePair(Live):
    """Both sites, and the wires that can be cut: of the link, and of the clients of each."""

    def __init__(
        self, kits: Path, ports: tuple[int, int], forge: Forge, wires: dict[str, Wire], kind: str, ray: int | None
    ) -> None:
        super().__init__(kits)
        self.s0, self.s1 = (Site(kits / name, port, forge) for name, port in zip(("s0", "s1"), ports, strict=True))
        self.servers = (self.s0, self.s1)
        self.wires, self.kind, self._ray = wires, kind, ray
        self.played = 0
        self.spoilt = False
        """Something happened to it after which its books cannot be expected to agree."""

    def kill_worker(self, site: Site) -> int:
        """One of the processes of this server, or of the tasks on Ray that anybody has now; how many there were."""
        everybody = family(self._ray or site.process.pid)[1:]
        workers = [one for one in everybody if self._ray is None or _title(one).startswith(_TASK)]
        if workers:
            with suppress(ProcessLookupError):
                os.kill(random.choice(workers), signal.SIGKILL)
        return min(1, len(workers))

    def log_since(self, marks: dict[str, int]) -> dict[str, bytes]:
        """What each has written since."""
        found = {}
        for server in self.servers:
            with server.log.open("rb") as stream:
                stream.seek(marks.get(server.name, 0))
                found[server.name] = stream.read()
        return found


@contextmanager
def standing(
    folder: Path,
    forge: Forge,
    kind: str,
    change: Callable[[dict[str, dict[str, Any]]], dict[str, dict[str, Any]]],
    stage: str = "alone",
    ray: tuple[str, int] | None = None,
) -> Iterator[SitePair]:
    """A pair from its first start to its last breath; `change` may put its stores elsewhere.

    `ray` is where a cluster of this machine is, and the process that it ends with.
    """
    link, *ports = free_ports(3)
    settings = settings_of(link_timeout=LINK_TIMEOUT, log_level="info", **STAGES[stage])
    if ray is not None:
        for values in settings.values():
            values["compute"] = ray[0]
    for name, port in zip(settings, ports, strict=True):
        settings[name]["port"] = port
        settings[name]["budgets"]["tight"] = (2.0, 1e-5) if name == "s0" else (1.6, 1e-5)
    settings["s1"]["link_port"] = link
    folder.mkdir()
    kits = make_kits(folder / "kits", change(settings), teachers=2 * TEACHERS, requesters=REQUESTERS)
    wires: dict[str, Wire] = {}
    pair = SitePair(kits, (ports[0], ports[1]), forge, wires, kind, None if ray is None else ray[1])
    try:
        wires["link"] = Wire(link, pair.s0.kit.link_port)
        for server, port in zip(pair.servers, ports, strict=True):
            wires[server.name] = Wire(server.kit.port, port)
        pair.start()
        yield pair
    finally:
        for server in pair.servers:
            if server.running:
                server.kill()
        for wire in wires.values():
            wire.close()
        shutil.rmtree(folder, ignore_errors=True)


def _title(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def _copy(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)
