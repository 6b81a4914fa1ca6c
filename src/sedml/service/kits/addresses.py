"""Addresses of the servers: host and port as people write them, and as a URL."""

from __future__ import annotations

import ipaddress
import re
import socket
from contextlib import ExitStack
from dataclasses import dataclass

from sedml.errors import InputError

_HOST = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?"
_SCHEME = "https://"


@dataclass(frozen=True)
class Address:
    """Where a server is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The base of a server's interface; no slash at its end."""
        return f"{_SCHEME}{self}"

    @property
    def listens(self) -> str:
        """The host to listen on to be reached at this address: loopback stays loopback."""
        if self.host == "localhost":
            return self.host
        try:
            number = ipaddress.ip_address(self.host)
        except ValueError:
            return "0.0.0.0"  # noqa: S104 - the name may belong to a gateway in front of the machine
        if number.is_loopback:
            return self.host
        return "::" if number.version == 6 else "0.0.0.0"  # noqa: S104


def parse_address(text: str) -> Address:
    """Read "s0.example:8440", "[::1]:8440" or "https://s0.example:8440"."""
    host, _, port = text.removeprefix(_SCHEME).rpartition(":")
    if not _is_host(host) or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 65_536:
        raise InputError(f"{text!r} is not the address of a server.", "Give host and port, such as s0.example:8440.")
    return Address(host.strip("[]"), int(port))


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses; held together for a moment, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def _is_host(text: str) -> bool:
    if text.startswith("[") and text.endswith("]"):
        # A zone such as %eth0 means something on one machine only.
        try:
            return "%" not in text and ipaddress.IPv6Address(text[1:-1]) is not None
        except ValueError:
            return False
    return re.fullmatch(_HOST, text) is not None
