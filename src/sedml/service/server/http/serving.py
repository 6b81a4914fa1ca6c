"""Serving the interface over TLS until told to stop.

TLS is of version 1.3, with the server's certificate, and asks for none of clients, who have tokens.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import signal
import socket
import ssl
import threading
from asyncio import sslproto
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial

import structlog
import uvicorn
from cryptography import x509

from sedml.errors import KitError, SedmlError
from sedml.mpc.certificates import Credentials, load_credentials, server_context
from sedml.service.kits import ServerKit, read_credentials
from sedml.service.server.http.app import App
from sedml.service.server.http.connections import Connections
from sedml.service.server.http.listener import Listener, affordable, bind, open_listener
from sedml.service.server.http.timeouts import PatientProtocol
from sedml.service.server.node import Node

_FAREWELL = 10  # seconds that requests in flight have to finish once the server is told to stop
_KEEP_ALIVE = 15
_READ_AT_ONCE = 32 << 10
_TIDY_TICKS = 20  # of uvicorn, ten a second
_CROWD = 128

_log = structlog.get_logger("sedml.http")


def https_context(credentials: Credentials) -> ssl.SSLContext:
    """What the interface listens with."""
    context = server_context(credentials)
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


def renew(context: ssl.SSLContext, kit: ServerKit) -> Credentials:
    """Take up the certificate that the kit has on disk now; connections that are open keep the one they have."""
    found = read_credentials(kit.folder, kit.name)
    expires = x509.load_pem_x509_certificate(found.certificate).not_valid_after_utc
    if expires <= datetime.now(UTC):
        raise KitError(
            f"The certificate in {kit.folder} expired on {expires:%Y-%m-%d}.", "Issue another with `sedml certify`."
        )
    # What does not fit would leave the context unusable, so it is tried on another one first.
    https_context(found)
    load_credentials(context, found)
    return found


def _nothing(*_: object) -> None:
    pass


class HttpsServer(uvicorn.Server):
    """uvicorn, with what it leaves open to slow and to many clients closed.

    `on_start` is called once it listens, `on_stop` once the last request is answered, `on_reload` with a renewed
    certificate. SIGTERM and SIGINT stop it, SIGHUP makes it look for a renewed certificate. It listens on the address
    of its settings, or on one that is `bound` already.
    """

    def __init__(
        self,
        node: Node,
        app: App,
        *,
        on_start: Callable[[], object] = _nothing,
        on_stop: Callable[[], object] = _nothing,
        on_reload: Callable[[Credentials], object] = _nothing,
        bound: socket.socket | None = None,
    ) -> None:
        self.node = node
        self.on_start, self.on_stop, self.on_reload = on_start, on_stop, on_reload
        self.context = https_context(node.kit.credentials)
        most = affordable(node.settings.max_connections)
        if most < node.settings.max_connections:
            _log.warning("too few open files", connections=most, wanted=node.settings.max_connections)
        connections: Connections = app.web.connections
        connections.allow(most)
        self.connections = connections
        with bound or bind(node.settings.host, node.settings.port) as address:
            self.listener: Listener = open_listener(address, connections)
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",  # the listener counts connections where asyncio takes them
                http=PatientProtocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=_FAREWELL,
            )
        )

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self.listener.getsockname()[1]
        return port

    def stop(self) -> None:
        """Finish what is under way, then end; from any thread."""
        self.should_exit = True

    def reload(self) -> None:
        """Take up the certificate that the kit has on disk now; if it cannot be used, the old one stays."""
        try:
            credentials = renew(self.context, self.node.kit)
            self.on_reload(credentials)
        except SedmlError as error:
            _log.error("certificate not renewed", what=error.what, do=error.do)
        else:
            _log.info("certificate renewed")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        loop = asyncio.get_running_loop()
        settings = self.node.settings
        # asyncio gives each connection a buffer of this size as soon as it is taken, of 256 KiB unless told otherwise.
        sslproto.SSLProtocol.max_size = _READ_AT_ONCE
        connection = partial(
            PatientProtocol,
            self.config,
            self.server_state,
            {},
            head_timeout=settings.header_timeout,
            write_timeout=settings.body_timeout,
        )
        server = await loop.create_server(
            connection,
            sock=self.listener,
            ssl=self.context,
            backlog=self.config.backlog,
            ssl_handshake_timeout=settings.header_timeout,
            ssl_shutdown_timeout=settings.header_timeout,
        )
        self.servers = [server]
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self.handle_exit, number, None)
            loop.add_signal_handler(signal.SIGHUP, self.reload)
        try:
            await loop.run_in_executor(None, self.on_start)
        except BaseException:
            server.close()
            raise
        self.started = True
        _log.info("listening", callers="clients", host=settings.host, port=self.port)

    async def on_tick(self, counter: int) -> bool:
        """Called all the time: give memory back once a crowd has gone."""
        if counter % _TIDY_TICKS == 0:
            here = len(self.connections)
            if self.connections.peak - here > _CROWD:
                self.connections.peak = here
                await asyncio.to_thread(_give_memory_back)
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: uvicorn's own way ends by raising the signal again, and whoever called us has more to do."""
        yield

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        try:
            super().run(sockets)
        finally:
            self.listener.close()
            self.on_stop()


def _give_memory_back() -> None:
    """Python frees what closed connections leave behind when it gets round to it, and the C library keeps it then."""
    gc.collect()
    with suppress(AttributeError, OSError):  # not every C library has this
        ctypes.CDLL(None).malloc_trim(0)
