"""TLS of the interface: version 1.3, the server's certificate, and none asked of clients, who have tokens."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

from cryptography import x509

from sedml.errors import KitError
from sedml.mpc.channel.certificates import Credentials, load_credentials, server_context
from sedml.service.kits import ServerKit, read_credentials

__all__ = ["https_context", "renew"]


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
