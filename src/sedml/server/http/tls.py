"""TLS of the interface: version 1.3, the server's certificate, and none asked of clients, who have tokens."""

from __future__ import annotations

import ssl

from sedml.channel.certificates import Credentials, server_context
from sedml.errors import KitError
from sedml.kits import ServerKit

__all__ = ["https_context", "renew"]


def https_context(credentials: Credentials) -> ssl.SSLContext:
    """What the interface listens with."""
    context = server_context(credentials)
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


def renew(context: ssl.SSLContext, kit: ServerKit) -> Credentials:
    """Take up the certificate that the kit has on disk now; connections that are open keep the one they have."""
    certificate, key = kit.folder / "server.pem", kit.folder / "server.key"
    found = Credentials.load(certificate, key, kit.folder / "ca.pem")
    if found.name != kit.name:
        raise KitError(
            f"The certificate in {certificate} is that of {found.name}.", f"Put the one of {kit.name} there."
        )
    # A pair that does not fit would leave the context unusable, so it is tried on another one first.
    https_context(found)
    context.load_cert_chain(certificate, key, password="")
    return found
