"""A server: S0 or S1 of a deployment, from its kit to the last answered request.

In the order they depend on each other: `settings`, `storage` (what is kept, and how it is encrypted), `access` (who may
do what), `live` (what it knows only while it runs), `node` (what all functions share), `public_log` (what others
check), `peer_log` (what it has seen of the other's), `data_room` (public data), `ops` (what operators look after),
`jobs` (what requesters and teachers do), `link` (to the other server), `run` (what the two servers do together), and
`http` (how callers reach it).
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sedml.extras import require_libraries

if TYPE_CHECKING:
    import socket

    from sedml.service.kits import ServerKit
    from sedml.service.server.settings import Settings

__all__ = ["check_installed", "serve"]

_LIBRARIES = ("prometheus_client", "pydantic_settings", "sqlalchemy", "starlette", "structlog", "uvicorn")
_TURN = 0.0005


def check_installed() -> None:
    """Raise unless the libraries of a server are there: for whoever starts one as a process."""
    require_libraries(*_LIBRARIES)


def serve(
    folder: str | Path,
    overrides: dict[str, Any] | None = None,
    announce: Callable[[str], object] | None = None,
    workers: int = 1,
) -> None:
    """Run the server of a kit until SIGTERM or SIGINT; overrides go before server.toml and the environment.

    `announce` is told where it listens, once it does. With several `workers`, that many processes share the address.
    """
    check_installed()
    # Imported here, so that the parts of this package can be imported without the web stack.
    from sedml.mpc.kernel import kernel
    from sedml.release import kernel_hash, release_hash
    from sedml.service.kits import Address, ServerKit, check_private
    from sedml.service.server.http.listener import bind
    from sedml.service.server.node import open_node
    from sedml.service.server.ops import logs
    from sedml.service.server.ops.server_processes import supervise
    from sedml.service.server.settings import load_settings

    kernel()  # if it must be there and is not, now is the time to say so
    release_hash(), kernel_hash()  # while the files are those that this process was started from
    kit = ServerKit.load(folder)
    check_private(kit.folder)
    several = {"replicated": True} if workers > 1 else {}
    settings = load_settings(kit, **(overrides or {}), **several)
    logs.configure(settings.log_level, settings.log_format)

    def tell(port: int, link: int | None) -> None:
        if announce is not None:
            at = Address(settings.host, port).url
            other = Address(settings.link_host, settings.link_port if link is None else link)
            also = f"and for S1 on {other}" if kit.role == 0 else f"and calls S0 on {other}"
            announce(f"{kit.name.upper()} listens for clients on {at} {also}.")

    if workers == 1:
        _serve_one(kit, settings, None, tell)
        return
    # What a first start does, and what is wrong with the settings, shows once, before there are several.
    open_node(kit, settings).close()
    with bind(settings.host, settings.port) as bound:
        port: int = bound.getsockname()[1]
        supervise(
            workers,
            lambda started: _serve_one(kit, settings, bound.dup(), lambda *_: started()),
            lambda: tell(port, None),
        )


def _serve_one(
    kit: ServerKit, settings: Settings, bound: socket.socket | None, started: Callable[[int, int | None], None]
) -> None:
    from sedml.mpc.malloc import keep_freed_memory
    from sedml.service.server.http import App
    from sedml.service.server.http.serving import HttpsServer
    from sedml.service.server.node import open_node
    from sedml.service.server.ops.leadership import Leadership
    from sedml.service.server.run.runner import Runner

    # Requests share the interpreter with threads that work on the store: let them take turns more often.
    sys.setswitchinterval(_TURN)
    keep_freed_memory()
    node = open_node(kit, settings)
    try:
        work = Leadership(node, lambda: Runner(node)) if settings.replicated else Runner(node)

        def start() -> None:
            work.start()
            started(server.port, work.link_port if isinstance(work, Runner) else None)

        server = HttpsServer(node, App(node), on_start=start, on_stop=work.stop, on_reload=node.renew, bound=bound)
        # What is here now stays: to look through it again and again for what can go takes a tenth of the time.
        gc.collect()
        gc.freeze()
        server.run()
    finally:
        node.close()
