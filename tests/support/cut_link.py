"""A wire between S1 and S0, or from clients to replicas, that can be cut, stopped up, and mended."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import deque

__all__ = ["Wire"]

_AT_ONCE = struct.pack("ii", 1, 0)  # to SO_LINGER: no farewell, as when a machine is gone


class Wire:
    """Listens on `port`, and passes on what comes to another port of this machine, and back.

    With several, to one after the other of those that answer, as load balancers do.
    """

    def __init__(self, port: int, *targets: int) -> None:
        self._targets = deque(targets)
        self._listener = socket.create_server(("127.0.0.1", port))
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self._flows = threading.Event()
        self._flows.set()
        self._whole = True
        self.carried = 0
        self._thread = threading.Thread(target=self._accept)
        self._pumps: list[threading.Thread] = []
        self._thread.start()

    def cut(self) -> None:
        """End all connections at once, and let none through."""
        with self._lock:
            self._whole = False
            for end in self._ends:
                with contextlib.suppress(OSError):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            self._ends.clear()

    def stop_up(self) -> None:
        """Keep all connections, and pass on nothing."""
        self._flows.clear()

    def mend(self) -> None:
        with self._lock:
            self._whole = True
        self._flows.set()

    def close(self) -> None:
        self.cut()
        self._flows.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in (self._thread, *self._pumps):
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                far = self._connected() if self._whole else None
                if far is None:
                    near.close()
                    continue
                self._ends += [near, far]
                for pair in ((near, far), (far, near)):
                    self._pumps.append(threading.Thread(target=self._pump, args=pair))
                    self._pumps[-1].start()

    def _connected(self) -> socket.socket | None:
        for _ in range(len(self._targets)):
            self._targets.rotate()
            with contextlib.suppress(OSError):
                return socket.create_connection(("127.0.0.1", self._targets[0]))
        return None

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                sink.sendall(data)
                self.carried += len(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
