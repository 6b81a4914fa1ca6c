"""Whether a kit works: its files, the clock, the network, the servers, their logs, what they think of the tokens."""

from __future__ import annotations

import shutil
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import anyio
import anyio.to_thread
from cryptography import x509

from sedml.errors import AccessError, ChannelError, KitError, SedmlError, ServerIdentityError
from sedml.mpc.channel import connect
from sedml.release import release_hash
from sedml.service.client.checkup_log import check_log
from sedml.service.client.connection import Connection, connected, opened
from sedml.service.client.pair import Pair
from sedml.service.kits import Access, Address, ClientKit, ServerKit, keep_revoked
from sedml.service.kits.inspection import Check, check_expiry, check_modes, check_space, expiries
from sedml.service.messages import ServerName
from sedml.service.server_messages import API_VERSION, About, Health, Readiness, ServerInfo

_MAX_SKEW = 5.0
_LINK_TIMEOUT = 5.0
_LINK_TASK = b"sedml/link/look!"
_HERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what listens everywhere is reached at its own address
_NEW_AUTHORITY = "Provision again before that: every kit is replaced."
_DO_ABOUT = {
    "server": "Issue another with `sedml certify`, then send the server SIGHUP.",
    "authority": _NEW_AUTHORITY,
    "revoked": _NEW_AUTHORITY,
}
_CALLED = {"server": "certificate", "authority": "authority", "revoked": "revocation list"}


async def examine(folder: Path, listens: Address | None = None, link: Address | None = None) -> list[Check]:
    """Look at everything that a client's or a server's kit needs to work.

    Where a server listens, if its settings say something else than its kit.
    """
    is_server = (folder / "server.key").exists() or (folder / "storage.key").exists()
    try:
        kit = ServerKit.load(folder) if is_server else ClientKit.load(folder)
    except KitError as error:
        return [_failed("kit", error)]
    if isinstance(kit, ServerKit):
        listens = listens or Address(kit.host, kit.port)
        link = link or Address(kit.link_host, kit.link_port)
        return [Check("kit", "PASS", f"server {kit.name}"), *await _server(kit, listens, link)]
    return [Check("kit", "PASS", f"{kit.role} {kit.name}"), *await _client(kit)]


async def _client(kit: ClientKit) -> list[Check]:
    checks = [
        check_modes(kit.folder),
        check_expiry("authority", x509.load_pem_x509_certificate(kit.authority).not_valid_after_utc, _NEW_AUTHORITY),
        check_space("disk", shutil.disk_usage(kit.folder).free),
    ]
    found: dict[ServerName, About] = {}
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(connected(kit, name, 0)) for name in kit.servers]
        pair = Pair(servers[0], servers[-1])
        for server in servers:
            results, about = await _visit(kit, pair, server)
            checks += results
            if about is not None:
                found[server.name] = about
    return [*checks, *_same_release(found)]


async def _server(kit: ServerKit, listens: Address, link: Address) -> list[Check]:
    checks = [check_modes(kit.folder)]
    checks += [check_expiry(_CALLED[what], ends, _DO_ABOUT[what]) for what, ends in expiries(kit.credentials).items()]
    found: dict[ServerName, About] = {}
    here = Address(_HERE.get(listens.host, listens.host), listens.port)
    addresses = {kit.name: here} if kit.peer_at is None else {kit.name: here, kit.peer: kit.peer_at}
    for name, at in addresses.items():
        results, about = await _look_in(kit, name, at)
        checks += results
        if about is not None:
            found[name] = about
    if kit.peer_at is None:
        checks.append(
            Check(
                f"{kit.peer.upper()} reachable",
                "WARN",
                "the kit does not say where it is",
                f'Add to kit.toml: [peer] with host = "..." and port = ..., where clients find {kit.peer.upper()}.',
            )
        )
    checks += _same_release(found)
    checks.append(await (_link_dialled(kit, link) if kit.name == "s1" else _link_open(link)))
    return checks


async def _look_in(kit: ServerKit, name: ServerName, at: Address) -> tuple[list[Check], About | None]:
    """What a server tells anybody: a server's kit has no token."""
    who, own = name.upper(), name == kit.name
    async with opened(name, Access(at.url, ""), kit.credentials.authority, 0) as server:
        try:
            before = datetime.now(UTC)
            health = await server.get("/healthz", Health)
            after = datetime.now(UTC)
        except ServerIdentityError as error:
            return [_failed(f"{who} identity", error)], None
        except SedmlError as error:
            if own:
                return [Check("running", "WARN", f"nothing answers at {at.url}", "Start it with `sedml serve`.")], None
            return [_failed(f"{who} reachable", error)], None
        checks = [Check("running" if own else f"{who} reachable", "PASS", f"at {at.url}, and it is {name}")]
        if not own:
            checks.append(_clock(who, health.time, before, after))
        release, about = await _release(server, health.version)
        return [*checks, release, *await _readiness(server)], about


def _failed(what: str, error: SedmlError) -> Check:
    return Check(what, "FAIL", error.what, error.do)


def _same_release(found: dict[ServerName, About]) -> list[Check]:
    if len(found) < 2:
        return []
    s0, s1 = found["s0"], found["s1"]
    if (s0.version, s0.release) != (s1.version, s1.release):
        what = f"S0 says it runs release {s0.version}, {s0.release}; S1 {s1.version}, {s1.release}"
        return [Check("servers", "FAIL", what, "Have both operators install the same release.")]
    if s0.kernel and s1.kernel and s0.kernel != s1.kernel:
        what = f"both run release {s0.version}, with kernels that were compiled apart: {s0.kernel} and {s1.kernel}"
        return [Check("servers", "WARN", what, "Have both operators install the same wheel.")]
    return [Check("servers", "PASS", f"both say they run release {s0.version}, {s0.release}")]


async def _visit(kit: ClientKit, pair: Pair, server: Connection) -> tuple[list[Check], About | None]:
    """What a server says of itself, of the kit and of its log."""
    name, who = server.name, server.name.upper()
    try:
        await server.get("/healthz", Health)
    except ServerIdentityError as error:
        return [_failed(f"{who} identity", error)], None
    except SedmlError as error:
        return [_failed(f"{who} reachable", error)], None
    checks = [Check(f"{who} reachable", "PASS", f"{server.url}, and it is {name}")]
    try:
        before = datetime.now(UTC)
        info = await server.get("/v1/server", ServerInfo)
        after = datetime.now(UTC)
    except AccessError as error:
        return [*checks, _failed(f"{who} token", error)], None
    except SedmlError as error:
        return [*checks, _failed(f"{who} answers", error)], None
    release, about = await _release(server, info.version, info.api)
    checks += [
        _identity(kit, name, info),
        _clock(who, info.time, before, after),
        release,
        check_expiry(f"{who} certificate", info.certificate_expires, "Tell its operator: `sedml certify`."),
        check_space(f"{who} disk", info.disk_free_bytes, "" if kit.role == "operator" else "at least "),
        _link(who, info),
        *await _readiness(server),
        await check_log(kit, pair, server),
    ]
    if info.revoked is not None:
        checks.append(_revoked(kit, who, info.revoked))
    return checks, about


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


async def _release(server: Connection, version: str, api: int = API_VERSION) -> tuple[Check, About | None]:
    """Which code it says it runs, and whether that is the code here; an older one has no word for it."""
    from sedml import __version__

    what, do = f"{server.name.upper()} release", "Install the same release."
    try:
        about = await server.get("/v1/about", About)
    except SedmlError:
        about = None
    ours = f"{__version__}, {release_hash()}"
    theirs = f"{version}, of unknown code" if about is None else f"{about.version}, {about.release}"
    if api != API_VERSION:
        return Check(what, "FAIL", f"interface {api}, and here it is {API_VERSION}", do), about
    if theirs != ours:
        return Check(what, "WARN", f"{theirs}; here it is {ours}", do), about
    return Check(what, "PASS", f"{ours}, as here"), about


def _link(who: str, info: ServerInfo) -> Check:
    """What it has measured between the two servers."""
    found = "not measured yet" if info.link_delay_ms is None else f"{info.link_delay_ms:.3g} ms one way"
    return Check(f"{who} link", "PASS", found)


def _revoked(kit: ClientKit, who: str, revoked: str) -> Check:
    what = f"{who} revoked certificates"
    try:
        new = keep_revoked(kit.folder, revoked.encode())
    except KitError as error:
        return _failed(what, error)
    return Check(what, "PASS", "a newer list, which this kit heeds from now on" if new else "this kit has the list")


async def _readiness(server: Connection) -> list[Check]:
    """Whether it can work, and whether it has heard of the other server."""
    who = server.name.upper()
    other = "S1" if who == "S0" else "S0"
    try:
        found = await server.get("/readyz", Readiness, accept=503)
    except SedmlError as error:
        return [_failed(f"{who} ready", error)]
    peer = found.checks.get("peer", "ok")
    wrong = "; ".join(f"{name}: {text}" for name, text in found.checks.items() if text != "ok" and name != "peer")
    if not found.ready:
        ready = Check(f"{who} ready", "FAIL", wrong or "it says it is not ready", "Its operator has to fix this.")
    elif wrong:
        ready = Check(f"{who} ready", "WARN", f"it takes votes; {wrong}", "Its operator has to make room.")
    else:
        ready = Check(f"{who} ready", "PASS", "ready to work")
    return [
        ready,
        Check(f"{who} to {other}", "PASS", "in touch")
        if peer == "ok"
        else Check(f"{who} to {other}", "WARN", f"{other} {peer}", "No job can run. If it lasts, tell both operators."),
    ]


async def _link_dialled(kit: ServerKit, at: Address) -> Check:
    """S1 calls S0, and hangs up as soon as both have shown who they are."""

    def call() -> None:
        connect((at.host, at.port), _LINK_TASK, kit.credentials, peer="s0", patience=_LINK_TIMEOUT).close()

    try:
        await anyio.to_thread.run_sync(call)
    except ChannelError as error:
        do = "Check that S0 runs, the firewall in between, and [link] in kit.toml (or `link_host`, `link_port`)."
        return Check("link to S0", "FAIL", error.what, do)
    return Check("link to S0", "PASS", f"{at} answers, and it is s0")


async def _link_open(at: Address) -> Check:
    """Whether S0 listens for S1."""
    here = Address(_HERE.get(at.host, at.host), at.port)
    try:
        with anyio.fail_after(_LINK_TIMEOUT):
            stream = await anyio.connect_tcp(here.host, here.port)
        await stream.aclose()
    except (OSError, TimeoutError):
        return Check("link for S1", "WARN", f"nothing answers at {here}", "Start the server with `sedml serve`.")
    return Check("link for S1", "PASS", f"{here} answers; S1 has to reach it too")
