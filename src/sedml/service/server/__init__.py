"""A server: S0 or S1 of a deployment, from its kit to the last answered request.

In the order they depend on each other: `settings`, `premises` (what `sedml doctor` looks at), `log_limits`, `logs`,
`vault` (encryption at rest), `ports` (why it cannot listen), `tables`, `audit_chain`, `rekeying` (a new storage key),
`instance` (one server to a data folder), `node` (what all functions share), `access`, `audit_log`, `accounts`,
`charges` (what jobs cost, on the ledger), `believed_time`, `peer_contact` (whether the other server is there),
`link_quality` (how far away it is), `certificate_watch`, `records`, `retention`, `pace` (how long a job will still
take), `jobs`, `voting` (what callers may do), `transcript`, `roster`, `position`, `greeting`, `blocks`, `meeting` (what
the two servers do together), `door`, `link`, `runner` (when they do it), `health`, and `http` (how callers reach all of
it).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sedml.errors import require_libraries

__all__ = ["check_installed", "serve"]

_LIBRARIES = ("fastapi", "nacl", "prometheus_client", "pydantic_settings", "sqlalchemy", "structlog", "uvicorn")
_TURN = 0.0005


def check_installed() -> None:
    """Raise unless the libraries of a server are there: for whoever starts one as a process."""
    require_libraries(*_LIBRARIES)


def serve(
    folder: str | Path, overrides: dict[str, Any] | None = None, announce: Callable[[str], object] | None = None
) -> None:
    """Run the server of a kit until SIGTERM or SIGINT; overrides go before server.toml and the environment.

    `announce` is told where it listens, once it does.
    """
    check_installed()
    # Imported here, so that the parts of this package can be imported without the web stack.
    from sedml.mpc.freed_memory import keep_freed_memory
    from sedml.mpc.kernel import kernel
    from sedml.service.kits import Address, ServerKit, check_private
    from sedml.service.server import logs
    from sedml.service.server.http import make_app
    from sedml.service.server.http.serving import HttpsServer
    from sedml.service.server.node import open_node
    from sedml.service.server.runner import Runner
    from sedml.service.server.settings import load_settings

    # Requests share the interpreter with threads that work on the store: let them take turns more often.
    sys.setswitchinterval(_TURN)
    keep_freed_memory()
    kernel()  # if it must be there and is not, now is the time to say so
    kit = ServerKit.load(folder)
    check_private(kit.folder)
    settings = load_settings(kit, **(overrides or {}))
    logs.configure(settings.log_level, settings.log_format)
    node = open_node(kit, settings)
    try:
        runner = Runner(node)

        def start() -> None:
            runner.start()
            if announce is not None:
                link = Address(settings.link_host, runner.link_port)
                also = f"and for S1 on {link}" if node.role == 0 else f"and calls S0 on {link}"
                at = Address(settings.host, server.port).url
                announce(f"{kit.name.upper()} listens for clients on {at} {also}.")

        server = HttpsServer(node, make_app(node), on_start=start, on_stop=runner.stop, on_reload=node.renew)
        server.run()
    finally:
        node.close()
