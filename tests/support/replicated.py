"""A server that is several processes, any of which may be killed: workers at one address, or replicas behind one."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.cut_link import Wire
from support.live_servers import SERVE_SMALL, Live
from support.server_process import Server, free_ports, until


def leader(server: Server) -> int:
    """The process that drives its jobs, by its log; a server takes requests before one of them does."""

    def leads() -> list[bytes]:
        return [line for line in server.log.read_bytes().splitlines() if b'"leads"' in line]

    return json.loads(until(leads, "one of them leads")[-1])["process"]


class Workers(Server):
    """`sedml serve --workers 2`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, [*SERVE_SMALL, "--workers", "2"])

    def kill_one(self, rng: random.Random) -> None:
        """The process that started it starts another."""
        workers = until(lambda: self._workers(), "there are workers")
        with suppress(ProcessLookupError):
            os.kill(rng.choice(workers), signal.SIGKILL)

    def kill_leader(self) -> None:
        os.kill(leader(self), signal.SIGKILL)

    def _workers(self) -> list[int]:
        process = self.process.pid
        return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class Replicas(Server):
    """Two servers of one kit on ports of their own, and a balancer on the kit's."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SERVE_SMALL)
        ports = free_ports(2)
        self.replicas = [Server(folder, [*SERVE_SMALL, "--port", str(port)]) for port in ports]
        self._balancer = Wire(self.kit.port, *ports)

    def start(self) -> None:
        for replica in self.replicas:
            replica.start()

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert all(replica.running for replica in self.replicas)
            with suppress(OSError):
                return self.ask("GET", "/readyz").status == 200
            return False

        until(ready, f"{self.name} is ready")

    def kill_one(self, rng: random.Random) -> None:
        self._kill(rng.choice(self.replicas))

    def kill_leader(self) -> None:
        self._kill(next(replica for replica in self.replicas if replica.process.pid == leader(self)))

    def _kill(self, victim: Server) -> None:
        victim.kill()
        victim.start()

    def stop(self) -> None:
        self.hang_up()
        for replica in self.replicas:
            replica.stop()

    def close(self) -> None:
        """Leave nothing behind, whatever happened."""
        self._balancer.close()
        for replica in self.replicas:
            if replica.running:
                replica.kill()


@contextmanager
def killing(live: Live, rng: random.Random, times: int, pause: float) -> Iterator[None]:
    """Meanwhile, processes of either server are killed so often, at moments that nobody knows."""
    over = threading.Event()

    def kill() -> None:
        for _ in range(times):
            if over.wait(rng.uniform(0.0, pause)):
                return
            rng.choice(live.servers).kill_one(rng)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
