"""Whether the server of a kit is ready, asked on its machine or in its container: exit code 0 if so, else 1 and why.

The certificate is checked as clients do: it must be of this server, and of the kit's authority.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import sys

from sedml.errors import SedmlError
from sedml.service.kits import ServerKit
from sedml.service.server.settings import load_settings

_WITHIN = 10.0
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - such a server is asked on the loopback


def why_not_ready(folder: str) -> str | None:
    """None if it is ready."""
    kit = ServerKit.load(folder)
    settings = load_settings(kit)
    port, host = settings.port, "127.0.0.1" if settings.host in _EVERYWHERE else settings.host
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=kit.credentials.authority.decode("ascii"))
    connection = http.client.HTTPConnection(host, port)
    try:
        plain = socket.create_connection((host, port), timeout=_WITHIN)
        with plain, context.wrap_socket(plain, server_hostname=kit.name) as secure:
            connection.sock = secure
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        return f"{type(error).__name__} at port {port}"
    return None if answer.status == http.HTTPStatus.OK else text


def main(folder: str) -> int:
    """Say why, if it is not ready."""
    try:
        reason = why_not_ready(folder)
    except SedmlError as error:
        reason = f"{error.what} {error.do}"
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
    return int(reason is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
