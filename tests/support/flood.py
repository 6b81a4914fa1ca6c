"""Crowds of connections that mean no good: each is opened again as soon as it is closed."""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


class Flood:
    """So many connections to a port of this machine; what each says first is up to its number."""

    def __init__(self, port: int, count: int, says: Callable[[int], bytes]) -> None:
        self._address = ("127.0.0.1", port)
        self._count = count
        self._says = says
        self._stop = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run)
        self.opened = 0
        """Connections so far."""
        self.full = threading.Event()
        """Set once all are on their way."""

    @contextmanager
    def running(self) -> Iterator[Flood]:
        """From now on, and until the block ends."""
        self._thread.start()
        try:
            self.full.wait()
            yield self
        finally:
            self._stop.set()
            self._thread.join()
            for key in list(self._selector.get_map().values()):
                key.fileobj.close()
            self._selector.close()

    def _run(self) -> None:
        for number in range(self._count):
            self._open(number)
        self.full.set()
        while not self._stop.is_set():
            for key, events in self._selector.select(0.05):
                if not self._goes_on(key, events):
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()
                    self._open(key.data)

    def _open(self, number: int) -> None:
        plain = socket.socket()
        plain.setblocking(False)
        plain.connect_ex(self._address)
        self._selector.register(plain, selectors.EVENT_WRITE, number)
        self.opened += 1

    def _goes_on(self, key: selectors.SelectorKey, events: int) -> bool:
        try:
            if events & selectors.EVENT_WRITE:
                key.fileobj.send(self._says(key.data))
                self._selector.modify(key.fileobj, selectors.EVENT_READ, key.data)
                return True
            return bool(key.fileobj.recv(1 << 16))
        except BlockingIOError:
            return True
        except OSError:
            return False


def client_hello(*protocols: str) -> bytes:
    """The first bytes of a TLS handshake that will never be finished."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()
