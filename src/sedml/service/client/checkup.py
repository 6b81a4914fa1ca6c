"""Whether a kit works: its files, the clock, the network, the servers and what they think of the kit's tokens."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias

import anyio
from cryptography import x509
from pydantic import BaseModel, ConfigDict

from sedml.errors import AccessError, KitError, SedmlError, ServerIdentityError
from sedml.service.client.connection import Connection, connected, opened
from sedml.service.kits import Access, Address, ClientKit, ServerKit, exposed, keep_revoked
from sedml.service.kits.folder import read_toml
from sedml.service.messages import API_VERSION, Readiness, ServerInfo, ServerName

__all__ = ["Check", "Verdict", "examine"]

Verdict: TypeAlias = Literal["PASS", "WARN", "FAIL"]

_MAX_SKEW = 5.0
_SOON = timedelta(days=30)
_SILENT = timedelta(minutes=2)
_LITTLE_SPACE, _NO_SPACE = 2 << 30, 64 << 20
_LINK_TIMEOUT = 5.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `do` says how to put it right."""

    what: str
    verdict: Verdict
    found: str
    do: str = ""


class _Health(BaseModel):
    model_config = ConfigDict(extra="allow")

    status: str


async def examine(folder: Path) -> list[Check]:
    """Look at everything that a client's or a server's kit needs to work."""
    is_server = (folder / "server.key").exists() or (folder / "storage.key").exists()
    try:
        kit = ServerKit.load(folder) if is_server else ClientKit.load(folder)
    except KitError as error:
        return [Check("kit", "FAIL", error.what, error.do)]
    if isinstance(kit, ServerKit):
        return [Check("kit", "PASS", f"server {kit.name}"), *await _server(kit)]
    return [Check("kit", "PASS", f"{kit.role} {kit.name}"), *await _client(kit)]


async def _client(kit: ClientKit) -> list[Check]:
    checks = [_modes(kit.folder), _expiry("authority", _expires(kit.authority)), _space("disk", _free(kit.folder))]
    found: dict[ServerName, ServerInfo] = {}
    for name in kit.servers:
        results, info = await _visit(kit, name)
        checks += results
        if info is not None:
            found[name] = info
    if len(found) == 2:
        versions = {info.version for info in found.values()}
        checks.append(
            Check("servers", "PASS", f"both run release {versions.pop()}")
            if len(versions) == 1
            else Check(
                "servers",
                "FAIL",
                f"S0 runs release {found['s0'].version}, S1 {found['s1'].version}",
                "Have both operators install the same release.",
            )
        )
    return checks


async def _server(kit: ServerKit) -> list[Check]:
    checks = [
        _modes(kit.folder),
        _expiry("certificate", kit.certificate_expires),
        _expiry("authority", _expires(kit.credentials.authority)),
        _space("disk", _free(_data_folder(kit.folder))),
    ]
    # Where it listens on all addresses it can be reached at its own.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(kit.host, kit.host)  # noqa: S104
    here = Access(Address(host, kit.port).url, "")
    async with opened(kit.name, here, kit.credentials.authority, 0) as server:
        try:
            await server.get("/healthz", _Health)
        except ServerIdentityError as error:
            checks.append(Check("running", "FAIL", error.what, error.do))
        except SedmlError:
            checks.append(Check("running", "WARN", f"nothing answers at {here.url}", "Start it with `sedml serve`."))
        else:
            checks += [Check("running", "PASS", f"at {here.url}"), await _readiness(server)]
    if kit.name == "s1":
        checks.append(await _link(kit))
    return checks


async def _visit(kit: ClientKit, name: ServerName) -> tuple[list[Check], ServerInfo | None]:
    """What a server says of itself and of the kit."""
    who = name.upper()
    async with connected(kit, name, 0) as server:
        try:
            await server.get("/healthz", _Health)
        except ServerIdentityError as error:
            return [Check(f"{who} identity", "FAIL", error.what, error.do)], None
        except SedmlError as error:
            return [Check(f"{who} reachable", "FAIL", error.what, error.do)], None
        checks = [Check(f"{who} reachable", "PASS", f"{server.url}, and it is {name}")]
        try:
            before = datetime.now(UTC)
            info = await server.get("/v1/server", ServerInfo)
            after = datetime.now(UTC)
        except AccessError as error:
            return [*checks, Check(f"{who} token", "FAIL", error.what, error.do)], None
        except SedmlError as error:
            return [*checks, Check(f"{who} answers", "FAIL", error.what, error.do)], None
        checks += [
            _identity(kit, name, info),
            _clock(who, info.time, before, after),
            _release(who, info),
            _expiry(f"{who} certificate", info.certificate_expires),
            _space(f"{who} disk", info.disk_free_bytes, "at least "),
            await _readiness(server),
            _peer(who, info),
        ]
        if info.revoked is not None:
            checks.append(_revoked(kit, who, info.revoked))
    return checks, info


def _identity(kit: ClientKit, name: ServerName, info: ServerInfo) -> Check:
    what, found = f"{name.upper()} token", f"accepted, as {info.role} {info.account}"
    if (info.account, info.role) != (kit.name, kit.role):
        return Check(
            what,
            "FAIL",
            f"{found}, and this is the kit of {kit.role} {kit.name}",
            "Restore the kit.toml that belongs here.",
        )
    if kit.servers[name].previous_token is not None:
        return Check(what, "WARN", f"{found}; its replacement was interrupted", "Finish it with `sedml rotate`.")
    return Check(what, "PASS", found)


def _clock(who: str, theirs: datetime, before: datetime, after: datetime) -> Check:
    # The server read its clock at some moment between the two.
    behind = max((before - theirs).total_seconds(), (theirs - after).total_seconds(), 0.0)
    if behind <= _MAX_SKEW:
        return Check(f"{who} clock", "PASS", f"within {max(behind, 0.1):.1f} s of this machine's")
    return Check(
        f"{who} clock",
        "FAIL",
        f"{behind:.0f} s off from this machine's",
        "Set this machine's clock by NTP; if it is right, tell the server's operator.",
    )


def _release(who: str, info: ServerInfo) -> Check:
    from sedml import __version__

    what = f"{who} release"
    if info.api != API_VERSION:
        return Check(what, "FAIL", f"interface {info.api}, and here it is {API_VERSION}", "Install the same release.")
    if info.version != __version__:
        return Check(what, "WARN", f"{info.version}, and here it is {__version__}", "Install the same release.")
    return Check(what, "PASS", info.version)


def _revoked(kit: ClientKit, who: str, revoked: str) -> Check:
    what = f"{who} revoked certificates"
    try:
        new = keep_revoked(kit.folder, revoked.encode())
    except KitError as error:
        return Check(what, "FAIL", error.what, error.do)
    return Check(what, "PASS", "a newer list, which this kit heeds from now on" if new else "this kit has the list")


def _peer(who: str, info: ServerInfo) -> Check:
    other = "S1" if who == "S0" else "S0"
    if info.peer_seen is None or info.time - info.peer_seen > _SILENT:
        since = "since it started" if info.peer_seen is None else f"since {info.peer_seen:%Y-%m-%d %H:%M} UTC"
        return Check(
            f"{who} to {other}", "WARN", f"has not heard from {other} {since}", "No job can run; tell both operators."
        )
    return Check(f"{who} to {other}", "PASS", "in touch")


async def _readiness(server: Connection) -> Check:
    what = f"{server.name.upper()} ready"
    try:
        found = await server.get("/readyz", Readiness, accept=503)
    except SedmlError as error:
        return Check(what, "FAIL", error.what, error.do)
    if found.ready:
        return Check(what, "PASS", "ready to work")
    wrong = "; ".join(f"{name}: {text}" for name, text in found.checks.items() if text != "ok")
    return Check(what, "FAIL", wrong or "it says it is not ready", "Its operator has to fix this.")


async def _link(kit: ServerKit) -> Check:
    at = Address(kit.link_host, kit.link_port)
    try:
        with anyio.fail_after(_LINK_TIMEOUT):
            stream = await anyio.connect_tcp(kit.link_host, kit.link_port)
        await stream.aclose()
    except (OSError, TimeoutError):
        return Check(
            "link to S0",
            "FAIL",
            f"nothing answers at {at}",
            "Check that S0 runs, the firewall in between, and [link] in kit.toml.",
        )
    return Check("link to S0", "PASS", f"{at} answers")


def _modes(folder: Path) -> Check:
    paths = exposed(folder)
    if not paths:
        return Check("file modes", "PASS", "readable by their owner only")
    names = ", ".join("the folder" if path == folder else path.name for path in paths)
    return Check("file modes", "FAIL", f"others can read: {names}", f"Run: chmod -R go= {folder}")


def _expires(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _expiry(what: str, expires: datetime) -> Check:
    left = expires - datetime.now(UTC)
    if left < timedelta(0):
        return Check(what, "FAIL", f"expired on {expires:%Y-%m-%d}", "Have a new certificate issued.")
    found = f"good for {left.days} days, until {expires:%Y-%m-%d}"
    if left < _SOON:
        return Check(what, "WARN", found, "Have a new certificate issued before that.")
    return Check(what, "PASS", found)


def _space(what: str, free: int, bound: str = "") -> Check:
    found = f"{bound}{free / 1e9:.1f} GB free"
    if free < _NO_SPACE:
        return Check(what, "FAIL", found, "Free some disk space.")
    return Check(
        what, "WARN" if free < _LITTLE_SPACE else "PASS", found, "Free some disk space." if free < _LITTLE_SPACE else ""
    )


def _free(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _data_folder(folder: Path) -> Path:
    try:
        settings: dict[str, Any] = read_toml(folder / "server.toml")
    except KitError:
        settings = {}
    return folder / str(settings.get("data_dir", "data"))
