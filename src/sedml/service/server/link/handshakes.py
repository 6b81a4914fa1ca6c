"""The door of the link: whoever shows S1's certificate comes in, and no crowd of others keeps it waiting.

One thread takes all handshakes a step further whenever there is something to read, so nobody waits for those who stall.
They may stall for some seconds, or until there are too many of them (`Unidentified`): those who have asked for a
handshake as S1 does are counted apart, so whoever says nothing, or nonsense, pushes out nobody who is about to come in.

Whoever begins with an opening instead of a handshake is a worker of S1 (`worker_connections`), and shakes hands with
one of S0.
"""

from __future__ import annotations

import selectors
import socket
import ssl
from collections.abc import Callable
from time import monotonic
from typing import cast

import structlog

from sedml.errors import ChannelError
from sedml.mpc.certificates import PROTOCOL, Credentials
from sedml.mpc.channel import admit, receive
from sedml.service.server.link.unidentified import Unidentified, source_of
from sedml.service.server.live.worker_connections import MAGIC, OPENING

_STRANGERS = 128  # of each kind
_PATIENCE = 5.0  # seconds that a handshake may take
_AT_ONCE = 32  # connections taken before those that are there are looked after
_SILENCE = 1.0  # seconds between two lines in the log: a crowd must not fill the disk

_log = structlog.get_logger("sedml.link")


class Handshakes:
    """Handshakes with all who connect to a listener. For use by one thread."""

    def __init__(
        self,
        listener: socket.socket,
        credentials: Callable[[], Credentials],
        visit: Callable[[socket.socket, bytes], object],
    ) -> None:
        self._listener = listener
        self._credentials = credentials
        self._visit = visit
        self._silent: Unidentified[socket.socket] = Unidentified(_STRANGERS, _STRANGERS)
        self._asking: Unidentified[socket.socket] = Unidentified(_STRANGERS, _STRANGERS)
        self._until: dict[socket.socket, float] = {}  # in the order of arrival
        self._openings: dict[socket.socket, bytes] = {}  # as far as they have come
        self._refused = 0
        self._quiet_until = 0.0
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def turn(self, seconds: float) -> list[ssl.SSLSocket]:
        """Wait so long at most for something to happen, and see to it: the connections that are the peer's."""
        entered = []
        for key, _ in self._selector.select(seconds):
            connection = cast(socket.socket, key.fileobj)
            if key.fileobj is self._listener:
                entered += self._answer()
            elif connection in self._until and (secured := self._goes_on(connection)):
                entered.append(secured)
        now = monotonic()
        while self._until and (first := next(iter(self._until))) and self._until[first] < now:
            self._dismiss(first)
        return entered

    def close(self) -> None:
        """Dismiss all who wait."""
        for connection in list(self._until):
            self._dismiss(connection)
        self._selector.close()

    def _answer(self) -> list[ssl.SSLSocket]:
        entered = []
        for _ in range(_AT_ONCE):
            try:
                plain, address = self._listener.accept()
            except (BlockingIOError, ConnectionError):
                break
            except OSError:
                # Too many open files, perhaps: none of them are to be these.
                for connection in list(self._until):
                    self._dismiss(connection)
                raise
            plain.setblocking(False)
            self._until[plain] = monotonic() + _PATIENCE
            self._selector.register(plain, selectors.EVENT_READ)
            self._make_room(self._silent.add(plain, source_of(address[0])))
            # Whoever means it has said so already, and is told apart before the next one comes.
            if secured := self._goes_on(plain):
                entered.append(secured)
        return entered

    def _goes_on(self, connection: socket.socket) -> ssl.SSLSocket | None:
        """A connection whose handshake is done, with the peer."""
        if isinstance(connection, ssl.SSLSocket):
            return self._shakes_hands(connection)
        try:
            if connection not in self._openings and connection.recv(1, socket.MSG_PEEK) != MAGIC[:1]:
                return self._begins(connection)
            self._opens(connection)
        except BlockingIOError:
            pass
        except OSError:
            self._dismiss(connection)
        return None

    def _begins(self, plain: socket.socket) -> ssl.SSLSocket | None:
        """What comes is no opening: it has to be a handshake."""
        until, source = self._until[plain], self._silent.leave(plain)
        self._forget(plain)
        try:
            connection = receive(plain, self._credentials())
        except ChannelError as error:
            self._note(error)
            return None
        self._until[connection] = until
        self._selector.register(connection, selectors.EVENT_READ)
        self._make_room(self._silent.add(connection, source or ""))
        return self._shakes_hands(connection)

    def _opens(self, plain: socket.socket) -> None:
        so_far = self._openings.setdefault(plain, b"")
        more = plain.recv(OPENING - len(so_far))
        self._openings[plain] = so_far = so_far + more
        if not more or not so_far.startswith(MAGIC[: len(so_far)]):
            self._dismiss(plain)
        elif len(so_far) == OPENING:
            self._forget(plain)
            self._visit(plain, so_far)

    def _shakes_hands(self, connection: ssl.SSLSocket) -> ssl.SSLSocket | None:
        try:
            admitted = admit(connection)
        except ChannelError as error:
            self._dismiss(connection)
            self._note(error)
            return None
        if admitted:
            self._forget(connection)
            return connection
        if connection.selected_alpn_protocol() == PROTOCOL and (source := self._silent.leave(connection)):
            self._make_room(self._asking.add(connection, source))
        return None

    def _make_room(self, going: socket.socket | None) -> None:
        if going is not None:
            self._dismiss(going)

    def _dismiss(self, connection: socket.socket) -> None:
        self._forget(connection)
        connection.close()

    def _forget(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        self._openings.pop(connection, None)
        self._silent.leave(connection)
        self._asking.leave(connection)
        del self._until[connection]

    def _note(self, error: ChannelError) -> None:
        self._refused += 1
        if monotonic() >= self._quiet_until:
            _log.info("link.refused", error=type(error).__name__, what=error.what, refused=self._refused)
            self._refused = 0
            self._quiet_until = monotonic() + _SILENCE
