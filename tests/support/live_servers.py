"""Two servers of a deployment as real processes, and what a test does with them: start, kill, ask, look inside."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import numpy as np

from sedml.errors import LogError, SedmlError
from sedml.privacy.ledger import Ledger
from sedml.service.client import AsyncRequester, AsyncTeacher, Teacher
from sedml.service.kits import ClientKit, provision
from sedml.service.log.notes import parse
from sedml.service.server.settings import load_settings
from sedml.service.terms import Terms, task_of
from support.deployment import WITHOUT_NOISE, check_charged_once, labels_without_noise
from support.log_leaks import WINDOW, Secrets
from support.postgres_server import Postgres
from support.server_disks import all_rows, audited, opened_stores, unsealed
from support.server_process import WITHIN, Server, free_ports, until

# They add no noise, so that a test knows which labels are right.
_QUIET = f"import runpy; runpy.run_path({str(WITHOUT_NOISE / 'sitecustomize.py')!r}); "
# With blocks of 8 samples a small job has many.
_SMALL_BLOCKS = "from sedml.protocol import task; task._BLOCK_ANDS = 8; "
_MAIN = "from sedml.cli import main; main()"
_SERVE = [sys.executable, "-c", _QUIET + _MAIN, "serve"]
SERVE_SMALL = [sys.executable, "-c", _QUIET + _SMALL_BLOCKS + _MAIN, "serve"]


SURE = (64.0, 0.5)
"""So large that two dozen samples may have hardly any noise."""
TIGHT = {"s0": (20.0, 1e-5), "s1": (3.0, 1e-5)}
"""At S1 there is room for one job of 64 samples and a sigma of 20, and for no other after it, however it went."""
FIRST_SURE, FIRST_TIGHT = 19, 36
"""The first teachers of these cohorts: nobody belongs to two."""


class Live:
    """Both servers, everybody's kits, and every secret that must not be in a log."""

    def __init__(self, kits: Path, *, small_blocks: bool = False) -> None:
        self.kits = kits
        command = SERVE_SMALL if small_blocks else _SERVE
        self.s0, self.s1 = (Server(kits / name, command) for name in ("s0", "s1"))
        self.servers = (self.s0, self.s1)
        self.secrets = Secrets()
        self._read = {server.name: 0 for server in self.servers}
        self._gathered: dict[Path, int] = {}

    def start(self) -> None:
        for server in self.servers:
            server.start()
        for server in self.servers:
            server.wait_ready()

    @contextmanager
    def running(self) -> Iterator[None]:
        """From their first start to their last breath; whatever happens, none is left behind."""
        try:
            self.start()
            yield
            self.stop()
            self.check_logs()
        finally:
            for server in self.servers:
                if server.running:
                    server.kill()

    def stop(self) -> None:
        for server in self.servers:
            server.hang_up()
            server.process.send_signal(signal.SIGTERM)
        for server in self.servers:
            server.wait_ended()

    def kit(self, name: str) -> ClientKit:
        return ClientKit.load(self.kits / name)

    def token(self, name: str, server: str) -> str:
        return self.kit(name).servers[server].token

    # ---- What the servers have on disk -------------------------------------------------------------------------

    def stores(self) -> AbstractContextManager[list[SimpleNamespace]]:
        """The store of each server, with the key to what is sealed in it."""
        return opened_stores([server.kit for server in self.servers])

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """All that both have on record, but for their logs: to see that nothing has changed."""
        return all_rows(self.s0.kit) | all_rows(self.s1.kit)

    def actions(self, name: str) -> list[tuple[str, str, str]]:
        """Actor, action and outcome of every entry of a server's log."""
        return audited(getattr(self, name).kit)

    # ---- Jobs --------------------------------------------------------------------------------------------------

    def create(self, samples: int, **terms: Any) -> Terms:
        """A new job of so many samples; its terms."""
        asked = {
            "classes": 3,
            "threshold": 0.5,
            "sigma": 20.0,
            "epsilon": 20.0,
            "delta": 1e-5,
            "min_teachers": 3,
            "deadline": "1h",
        }
        data = np.column_stack([np.arange(samples) % 3, np.random.default_rng().random(samples)])

        async def create() -> Terms:
            return (await AsyncRequester(self.kits / "requester-1").create(data, **asked | terms)).terms

        return anyio.run(create)

    def vote(self, job: str, votes: np.ndarray, first: int = 1) -> None:
        """Teachers first, first + 1, ... each vote a row, all at once; raises the first error that one of them got."""
        errors: list[Exception] = []

        async def one(number: int, row: np.ndarray) -> None:
            try:
                receipt = await AsyncTeacher(self.kits / f"teacher-{number:03}").vote(job, row)
                assert receipt.complete
            except SedmlError as error:
                errors.append(error)

        async def all_of_them() -> None:
            async with anyio.create_task_group() as group:
                for number, row in enumerate(votes, start=first):
                    group.start_soon(one, number, row)

        anyio.run(all_of_them)
        if errors:
            raise errors[0]

    def accept_restored(self, name: str) -> None:
        """The operator of the other server has heard that this one was put back, and goes on from there."""
        other = self.s1 if name == "s0" else self.s0
        token = self.token(f"operator-{other.name}", other.name)
        until(lambda: accept(other, token), f"{other.name} has noticed that {name} was put back")
        until(self._explained, "both have cosigned that it is so")

    def _explained(self) -> bool:
        try:
            with warnings.catch_warnings(action="ignore"):
                Teacher(self.kits / "teacher-001").log()
        except LogError:
            return False
        return True

    def finish(self, job: str, patience: float = WITHIN) -> np.ndarray:
        """Run a job to its end, as the requester; its labels."""

        async def run() -> np.ndarray:
            return (await AsyncRequester(self.kits / "requester-1", patience=patience).run(job)).labels

        return anyio.run(run)

    def finish_put_back(self, job: str, name: str) -> np.ndarray:
        """The same, if this server was put back, however often, and whether the other one has seen that or not."""
        other = self.s1 if name == "s0" else self.s0
        token = self.token(f"operator-{other.name}", other.name)
        for server in self.servers:
            closed = server.ask("POST", f"/v1/jobs/{job}/close", self.token("requester-1", server.name))
            assert closed.status == 200, closed.document

        def over() -> bool:
            accept(other, token)
            return self.status(job, other)["state"] == "done"

        until(over, "the job is done", 0.2)
        return self.finish(job)

    def status(self, job: str, server: Server) -> dict[str, Any]:
        answer = server.ask("GET", f"/v1/jobs/{job}", self.token("requester-1", server.name))
        assert answer.status == 200, answer.document
        return answer.document

    def check_labels(self, terms: Terms, votes: np.ndarray, labels: np.ndarray) -> None:
        """Exactly what Algorithm 1 makes of these votes without noise."""
        roster = self.status(terms.id, self.s0)["roster"]
        assert roster == self.status(terms.id, self.s1)["roster"]
        assert roster["teachers"] == len(votes)
        task = task_of(terms, roster["teachers"], roster["digest"])
        np.testing.assert_array_equal(labels, labels_without_noise(task, votes))

    def check_charged_once(self, terms: Terms) -> None:
        """On both ledgers, in full."""
        for server in self.servers:
            with Ledger.open(load_settings(server.kit).ledger) as ledger:
                check_charged_once(ledger, terms)

    # ---- Logs --------------------------------------------------------------------------------------------------

    def check_logs(self) -> None:
        """What the servers have written since the last time holds no secret that there is."""
        self._gather()
        for server in self.servers:
            with server.log.open("rb") as stream:
                stream.seek(max(0, self._read[server.name] - WINDOW))
                content = stream.read()
                self._read[server.name] = stream.tell()
            assert self.secrets.found_in(content) == [], f"in the log of {server.name}"
            assert b"Traceback" not in content, content.decode(errors="replace")
            assert b'"internal"' not in content, content.decode(errors="replace")

    def _gather(self) -> None:
        for path in self.kits.glob("*/kit.toml"):
            changed = (path.parent / "server.key" if path.parent.name in self._read else path).stat().st_mtime_ns
            if self._gathered.get(path) != changed:
                self._gathered[path] = changed
                for name, secret in _secrets_of(path.parent):
                    self.secrets.add(name, secret)
        for server in self.servers:
            for name, secret in unsealed(server.kit, self.secrets):
                if len(secret) >= WINDOW:  # the few bytes of a small ballot are anywhere
                    self.secrets.add(name, secret)


def _secrets_of(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Keys and tokens of a kit, as they are now."""
    if (folder / "storage.key").exists():
        yield f"{folder.name} storage.key", bytes.fromhex((folder / "storage.key").read_text())
        key = (folder / "server.key").read_text().splitlines()
        yield f"{folder.name} server.key {key[1][-8:]}", "".join(key[1:-1]).encode()
        return
    kit = ClientKit.load(folder)
    yield f"{kit.name} secret", kit.secret
    for name, access in kit.servers.items():
        yield f"{kit.name} token {name} {access.token[-4:]}", access.token.encode()


def make_kits(out: Path, settings: dict[str, dict[str, Any]], *, teachers: int = 40, requesters: int = 2) -> Path:
    """Kits of a deployment on loopback; settings are by server, tables of budgets by cohort."""
    s0, s1, link = (f"127.0.0.1:{port}" for port in free_ports(3))
    provision(out, (s0, s1), link, teachers, requesters)
    for name, values in settings.items():
        plain = {key: value for key, value in values.items() if key != "budgets"}
        lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
        for cohort, (epsilon, delta, *unit) in values["budgets"].items():
            lines += [f"[budgets.{cohort}]", f"epsilon = {float(epsilon)}", f"delta = {float(delta)}"]
            lines += [f"unit = {json.dumps(name)}" for name in unit]
        (out / name / "server.toml").write_text("\n".join(lines) + "\n")
    return out


def settings_of(**both: object) -> dict[str, dict]:
    """Settings of both servers for tests: in a hurry, and with inputs that stay for the test to look at."""
    common = {
        "log_level": "debug",
        "keep_inputs": "1d",
        "processor_share": 1000,
        "processor_burst": 1000,
        "anonymous_rate_per_second": 100_000,
        "anonymous_rate_burst": 100_000,
        "budgets": {"teachers": (20.0, 1e-5), "sure": SURE},
    }
    return {name: common | {"budgets": common["budgets"] | {"tight": TIGHT[name]}} | both for name in TIGHT}


def deployed(kits: Path, settings: dict[str, dict], **options: bool) -> Iterator[Live]:
    """Both servers from their first start to their last breath."""
    live = Live(make_kits(kits, settings), **options)
    with live.running():
        yield live


def on_postgres(settings: dict[str, dict], postgres: Postgres, name: str) -> dict[str, dict]:
    """The same settings, with the stores of both in a PostgreSQL server."""
    return {server: {"database": postgres.new(f"{name}_{server}"), **settings[server]} for server in settings}


def accept(server: Server, token: str) -> bool:
    """Have this server go on from the log that the other one shows, if that is not the one before."""
    conflict = server.ask("GET", "/v1/log/checkpoint").document.get("conflict")
    if not conflict:
        return False
    shown = parse(conflict)[0]
    wanted = {"size": shown.size, "root": shown.root.hex()}
    return server.ask("PUT", "/v1/log/restored", token, wanted).status == 200
