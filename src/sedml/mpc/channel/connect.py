"""Setting up the link: S0 listens, S1 connects, and each makes sure of who the other is.

In TLS 1.3 the connecting end is done before the listening end has looked at its certificate. So the listening
end says in one byte whether it is content, and the connecting end waits for that: nobody sends a frame to a peer
that refuses it. `+` is welcome, `-` is a certificate that names someone else.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from typing import cast

from sedml.errors import ChannelError, PeerIdentityError, PeerTimeoutError
from sedml.mpc.certificates import PROTOCOL, Credentials, client_context, server_context
from sedml.mpc.channel.base import check_settings, peer_gone, peer_timeout
from sedml.mpc.channel.tls import TlsChannel

_WELCOME = b"+"
_REFUSED = b"-"
_BACKLOG = 4096  # or what the system allows: whoever finds it full tries again a second later at the soonest
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.5


def listen(host: str, port: int) -> socket.socket:
    """A socket that waits for the peer; port 0 takes any free one. The caller closes it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ChannelError(
            f"Cannot listen on {host} port {port} ({error.strerror}).",
            "Choose an address of this machine and a free port.",
        ) from error
    listener.setblocking(False)
    return listener


def accept(
    listener: socket.socket,
    task: bytes,
    credentials: Credentials,
    *,
    peer: str = "s1",
    timeout: float = 30.0,
    delay: float = 0.0,
) -> TlsChannel:
    """Wait for one connection and make it a channel, if it is the peer's; the listener stays open."""
    check_settings(task, timeout, delay)
    return take_over(_answer(listener, timeout), task, credentials, peer=peer, timeout=timeout, delay=delay)


def take_over(
    plain: socket.socket,
    task: bytes,
    credentials: Credentials,
    *,
    peer: str = "s1",
    timeout: float = 30.0,
    delay: float = 0.0,
) -> TlsChannel:
    """Make a channel of a connection that was answered, if it is the peer's."""
    return TlsChannel(secure(plain, credentials, peer, timeout), task, timeout=timeout, delay=delay)


def secure(plain: socket.socket, credentials: Credentials, peer: str, timeout: float) -> ssl.SSLSocket:
    """The same, as a connection for other purposes."""
    deadline = time.monotonic() + timeout
    return _secure(plain, _listening(credentials), None, partial(_welcome, peer), deadline, timeout)


def receive(plain: socket.socket, credentials: Credentials) -> ssl.SSLSocket:
    """A connection that was answered, for `admit`; it never waits, and is closed on error."""
    try:
        plain.setblocking(False)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _listening(credentials).wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
    except OSError as error:
        plain.close()
        raise _explained(error, 0.0) from None


def admit(connection: ssl.SSLSocket) -> bool:
    """Go on with the handshake as far as that goes without waiting: whether it is done, and with S1.

    Raises if that is somebody else, or gone; the connection is closed then.
    """
    try:
        _shake_hands(connection, partial(_welcome, "s1"))
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        return False
    except OSError as error:
        connection.close()
        raise _explained(error, 0.0) from None
    except BaseException:
        connection.close()
        raise
    return True


def connect(
    address: tuple[str, int],
    task: bytes,
    credentials: Credentials,
    *,
    peer: str = "s0",
    patience: float | None = None,
    timeout: float = 30.0,
    delay: float = 0.0,
    opening: bytes = b"",
) -> TlsChannel:
    """Connect to the peer, trying again until it listens, and make that a channel, if it is the peer.

    `patience` is how long that may take, `timeout` unless given. `opening` goes ahead of the handshake, in the clear,
    for whoever passes the connection on to the peer.
    """
    check_settings(task, timeout, delay)
    connection = dial(address, credentials, peer, timeout if patience is None else patience, opening)
    return TlsChannel(connection, task, timeout=timeout, delay=delay)


def dial(
    address: tuple[str, int], credentials: Credentials, peer: str, patience: float, opening: bytes = b""
) -> ssl.SSLSocket:
    """The same, as a connection for other purposes."""
    context = _dialling(credentials)
    deadline = time.monotonic() + patience

    def confirm(connection: ssl.SSLSocket) -> None:
        verdict = connection.recv(1)
        if verdict == _REFUSED:
            raise _stranger(f"it expects someone else than {credentials.name}")
        if verdict != _WELCOME:
            raise peer_gone()

    plain = _dial(address, deadline, patience)
    return _secure(plain, context, peer, confirm, deadline, patience, opening)


# OpenSSL takes a private key from a file only: not for every stranger that connects.
_listening = lru_cache(maxsize=8)(server_context)
_dialling = lru_cache(maxsize=8)(client_context)


def _answer(listener: socket.socket, timeout: float) -> socket.socket:
    """Wait for one connection, whoever it is."""
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            # Another thread may have been faster, or the caller may have given up already.
            with suppress(BlockingIOError, ConnectionError):
                return listener.accept()[0]
    raise PeerTimeoutError(
        f"The other server did not connect within {timeout:g} s.", "Check that it runs and has this server's address."
    )


def _dial(address: tuple[str, int], deadline: float, timeout: float) -> socket.socket:
    host, port = address
    pause = _FIRST_PAUSE
    reason = ""
    while (left := deadline - time.monotonic()) > 0:
        try:
            plain = socket.create_connection(address, timeout=left)
        except OSError as error:
            reason = f" ({error.strerror or error})"
        else:
            if plain.getsockname() != plain.getpeername():
                return plain
            # With no listener there, TCP may join a local port to itself.
            plain.close()
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _LONGEST_PAUSE)
    raise PeerTimeoutError(
        f"No peer could be reached at {host} port {port} within {timeout:g} s{reason}.",
        "Check the address and that the peer listens there.",
    )


def _secure(
    plain: socket.socket,
    context: ssl.SSLContext,
    server_name: str | None,
    confirm: Callable[[ssl.SSLSocket], None],
    deadline: float,
    timeout: float,
    opening: bytes = b"",
) -> ssl.SSLSocket:
    """Shake hands as the client of this server, or as the server if that is None; closes the socket on error."""
    open_socket = plain
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(max(_FIRST_PAUSE, deadline - time.monotonic()))
        if opening:
            plain.sendall(opening)
        connection = open_socket = context.wrap_socket(
            plain, server_side=server_name is None, server_hostname=server_name, do_handshake_on_connect=False
        )
        _shake_hands(connection, confirm)
    except OSError as error:
        open_socket.close()
        raise _explained(error, timeout) from None
    except BaseException:
        open_socket.close()
        raise
    return connection


def _shake_hands(connection: ssl.SSLSocket, confirm: Callable[[ssl.SSLSocket], None]) -> None:
    connection.do_handshake()
    if connection.selected_alpn_protocol() != PROTOCOL:
        raise ChannelError(f"The peer does not speak {PROTOCOL}.", "Run the same version of SEDML on both servers.")
    confirm(connection)


def _welcome(peer: str, connection: ssl.SSLSocket) -> None:
    names = _names(connection)
    if peer not in names:
        connection.sendall(_REFUSED)
        raise _stranger(f"it is {' or '.join(names) or 'nameless'}, not {peer}")
    connection.sendall(_WELCOME)


def _explained(error: OSError, timeout: float) -> ChannelError:
    if isinstance(error, TimeoutError):
        return peer_timeout(timeout)
    if isinstance(error, ssl.SSLCertVerificationError):
        return _stranger(error.verify_message.rstrip("."))
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return peer_gone()
    reason = error.reason or "no reason given"
    # Either the peer has no certificate, or it sends an alert about ours.
    if "CERTIFICATE" in reason or "UNKNOWN_CA" in reason:
        return _stranger(reason.lower().replace("_", " "))
    return ChannelError(f"No TLS 1.3 connection with the peer ({reason}).", "Check that both ends are SEDML servers.")


def _names(connection: ssl.SSLSocket) -> list[str]:
    certificate = connection.getpeercert() or {}
    names = cast(Iterable[tuple[str, str]], certificate.get("subjectAltName", ()))
    return [value for kind, value in names if kind == "DNS"]


def _stranger(reason: str) -> PeerIdentityError:
    return PeerIdentityError(
        f"The two ends do not accept each other's certificates: {reason}.",
        "Check the address, and that both certificates come from the authority that the operators agreed on.",
    )
