"""What to say when a server cannot listen: on which port, for whom, why, and which setting changes it."""

from __future__ import annotations

import errno
from typing import Literal, TypeAlias

from sedml.errors import InputError
from sedml.service.kits import Address

Callers: TypeAlias = Literal["clients", "S1", "workers"]

_WHY = {
    errno.EADDRINUSE: "another program uses that port",
    errno.EACCES: "this user may not use that port; ports below 1024 are for root",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
}
_CHANGED_BY = {
    "clients": {
        "address": "`sedml serve --host`, `host` in server.toml, or SEDML_SERVER__HOST in the environment.",
        "port": "`sedml serve --port`, `port` in server.toml, or SEDML_SERVER__PORT in the environment.",
    },
    "S1": {
        "address": "`link_host` in server.toml, or SEDML_SERVER__LINK_HOST in the environment.",
        "port": "`link_port` in server.toml, or SEDML_SERVER__LINK_PORT in the environment; S1 needs the same.",
    },
    "workers": {
        "address": "`compute_host` in server.toml, or SEDML_SERVER__COMPUTE_HOST in the environment.",
        "port": "`compute_port` in server.toml, or SEDML_SERVER__COMPUTE_PORT in the environment.",
    },
}


def cannot_listen(callers: Callers, host: str, port: int, error: BaseException | None) -> InputError:
    """The error for a port that is taken or not allowed, or an address that is not of this machine."""
    number = error.errno if isinstance(error, OSError) else None
    reason = error.strerror if isinstance(error, OSError) else None
    what = "port" if number in (errno.EADDRINUSE, errno.EACCES) else "address"
    stop = "Stop that program, or choose" if number == errno.EADDRINUSE else "Choose"
    return InputError(
        f"Cannot listen for {callers} on {Address(host, port)}: {_WHY.get(number or 0, reason or 'it is refused')}.",
        f"{stop} another {what}: {_CHANGED_BY[callers][what]}",
    )
