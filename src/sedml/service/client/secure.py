"""TLS as clients want it: of version 1.3, with the kit's authority as the only one that is trusted."""

from __future__ import annotations

import ipaddress
import ssl
from functools import lru_cache
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from sedml.errors import KitError
from sedml.mpc.certificates import trust


def https(url: str, authority: bytes) -> httpx2.AsyncBaseTransport:
    """TLS 1.3 that trusts the authority alone, through the proxy of the environment if there is one."""
    return httpx2.AsyncHTTPTransport(verify=_context(authority), proxy=proxy_for(urlsplit(url).hostname or ""))


@lru_cache(maxsize=16)
def _context(authority: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    try:
        trust(context, authority)
    except (ssl.SSLError, ValueError):
        raise KitError("The kit's ca.pem is not a certificate.", "Get the kit's ca.pem again.") from None
    return context


def proxy_for(host: str) -> str | None:
    """The tunnel that hospitals and banks often need; it sees no more than the network does."""
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost"
    return None if local or proxy_bypass(host) else getproxies().get("https")
