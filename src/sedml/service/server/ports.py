"""What to say when a server cannot listen: on which port, for whom, why, and which setting changes it."""

from __future__ import annotations

import errno
from typing import Literal, TypeAlias

from sedml.errors import InputError
from sedml.service.kits import Address

__all__ = ["Callers", "cannot_listen"]

Callers: TypeAlias = Literal["clients", "S1"]

_WHY = {
    errno.EADDRINUSE: "another program uses that port",
    errno.EACCES: "this user may not use that port; ports below 1024 are for root",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
}
_SETTINGS = {"clients": ("host", "port"), "S1": ("link_host", "link_port")}


def cannot_listen(callers: Callers, host: str, port: int, error: BaseException | None) -> InputError:
    """The error for a port that is taken or not allowed, or an address that is not of this machine."""
    number = error.errno if isinstance(error, OSError) else None
    reason = error.strerror if isinstance(error, OSError) else None
    address = number == errno.EADDRNOTAVAIL or number not in _WHY
    setting = _SETTINGS[callers][0 if address else 1]
    option = f"`sedml serve --{setting}`, " if callers == "clients" else ""
    also = " S1 dials the same port: change `link_port` there too." if callers == "S1" and not address else ""
    stop = "Stop that program, or choose another port" if number == errno.EADDRINUSE else "Choose another"
    return InputError(
        f"Cannot listen for {callers} on {Address(host, port)}: {_WHY.get(number or 0, reason or 'it is refused')}.",
        f"{stop}: {option}`{setting}` in server.toml, or SEDML_SERVER__{setting.upper()} in the environment.{also}",
    )
