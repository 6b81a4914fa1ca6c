"""The link over a network: frames inside one TLS connection that both servers write and read at once.

An `SSLSocket` must not be used by two threads at once, and two blocking ends that both send a large frame first
would wait for each other for ever. So one thread drives the socket without blocking: it sends what goes, takes
what is there, and sleeps only when neither moves.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import time
from collections import deque
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from sedml.errors import ChannelError, FrameMismatchError
from sedml.mpc.channel.base import Channel, peer_gone, peer_timeout
from sedml.mpc.channel.frame import HEADER_SIZE, STAMP, Frame, check_header
from sedml.mpc.channel.sharing_a_link import Lanes, Waiting

_CHUNK = 65536  # sent in one go, in between receiving
_LINGER = 1.0  # seconds to wait for the peer to notice a mismatch too
# Seconds to look again, letting others run, before sleeping: waking up takes longer than a small answer does.
_WATCH = 20e-6 if hasattr(os, "sched_yield") else 0.0


class TlsChannel(Channel):
    """One end of a link over an established and verified TLS connection, which it takes over."""

    def __init__(self, connection: ssl.SSLSocket, task: bytes, *, timeout: float = 30.0, delay: float = 0.0) -> None:
        super().__init__(task, timeout=timeout, delay=delay)
        connection.setblocking(False)
        self._socket = connection
        self._selector = selectors.DefaultSelector()
        self._events = selectors.EVENT_READ
        self._selector.register(connection, self._events)
        self._unsent: deque[bytes | memoryview | None] = deque()  # None: a time stamp, once the rest was sent
        self._send_failed = False
        self._in_frame = False
        self._bell: socket.socket | None = None

    def _swap(self, frame: Frame) -> tuple[NDArray[np.uint8], int]:
        self._in_frame = True
        self._queue(frame)
        message = np.empty(frame.size + (STAMP.size if self._delay else 0), np.uint8)
        self._drive(frame.header, message.data)
        self._in_frame = False
        return message, STAMP.unpack_from(message.data, frame.size)[0] if self._delay else 0

    def _queue(self, frame: Frame) -> None:
        self._unsent.extend(frame.pieces(_CHUNK))
        if self._delay:
            self._unsent.append(None)

    def _drive(self, header: bytes, message: memoryview) -> None:
        """Send and receive until all is sent and the message is full; stop as soon as its header is wrong."""
        missing = message
        checked = False
        deadline = watch_until = 0.0
        while missing or self._unsent:
            moved = self._push() if self._unsent else False
            if missing:
                received = self._pull(missing)
                if received:
                    moved = True
                    missing = missing[received:]
                    if not checked and len(message) - len(missing) >= HEADER_SIZE:
                        self._check(header, message[:HEADER_SIZE].tobytes())
                        checked = True
            if moved:
                deadline = 0.0
                continue
            now = time.monotonic()
            deadline = deadline or now + self._timeout
            watch_until = watch_until or now + _WATCH
            if checked or self._unsent or now >= watch_until:
                self._wait(bool(missing), deadline - now)
            else:
                os.sched_yield()
        if self._send_failed:
            raise peer_gone()

    def _stir(self, lanes: Lanes) -> None:
        if self._bell is not None:
            with suppress(OSError):  # it rings already, or nobody listens any more
                self._bell.send(b"!")

    def _carry(self, lanes: Lanes) -> None:
        ear, bell = socket.socketpair()
        with ear, bell:
            ear.setblocking(False)
            bell.setblocking(False)
            self._selector.register(ear, selectors.EVENT_READ)
            self._bell = bell
            try:
                self._in_frame = True
                self._drive_lanes(lanes, ear)
                self._in_frame = False
            finally:
                self._bell = None
                self._selector.unregister(ear)

    def _drive_lanes(self, lanes: Lanes, ear: socket.socket) -> None:
        """Send whatever there is, and read as long as a lane waits."""
        header = bytearray(HEADER_SIZE)
        missing, answer = memoryview(header), None
        held_up = False
        deadline = 0.0
        while lanes.error is None and not (lanes.finished and not self._unsent and not lanes.outgoing):
            while lanes.outgoing:
                self._queue(lanes.outgoing.popleft())
            moved = self._push() if self._unsent else False
            reading = not held_up and (answer is not None or len(missing) < HEADER_SIZE or lanes.expecting)
            if reading and missing and (received := self._pull(missing)):
                moved, missing = True, missing[received:]
            if answer is None and not missing:
                answer = self._claim(lanes, bytes(header))
                held_up = answer is None
                if answer is not None:
                    answer.message.data[:HEADER_SIZE] = header
                    moved, missing = True, answer.message.data[HEADER_SIZE:]
            if answer is not None and not missing:
                stamp = answer.frame.size
                lanes.deliver(answer, STAMP.unpack_from(answer.message.data, stamp)[0] if self._delay else 0)
                moved, missing, answer = True, memoryview(header), None
            if moved:
                deadline = 0.0
                continue
            now = time.monotonic()
            deadline = (deadline or now + self._timeout) if reading or self._unsent else 0.0
            self._wait(reading, deadline - now if deadline else None)
            with suppress(BlockingIOError):  # before the next look at what it may have rung for
                ear.recv(_CHUNK)
        if self._send_failed:
            raise peer_gone()

    def _claim(self, lanes: Lanes, header: bytes) -> Waiting | None:
        try:
            return lanes.claim(header)
        except FrameMismatchError:
            self._linger()
            raise

    def _check(self, ours: bytes, theirs: bytes) -> None:
        try:
            check_header(ours, theirs)
        except FrameMismatchError:
            self._linger()
            raise

    def _push(self) -> bool:
        """Send what goes of the first piece, up to a chunk; whether anything changed."""
        piece = self._unsent[0]
        if piece is None:
            piece = STAMP.pack(time.monotonic_ns())
        try:
            sent = self._socket.send(piece[:_CHUNK])
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return False
        except OSError:
            # The peer is gone, but may have left a header that says why: the reading side will find it.
            self._send_failed = True
            self._unsent.clear()
            return True
        if sent < len(piece):
            self._unsent[0] = memoryview(piece)[sent:]
            return True
        self._unsent.popleft()
        return True

    def _pull(self, target: memoryview) -> int:
        """Receive what is there; how many bytes that was."""
        try:
            received = self._socket.recv_into(target, len(target))
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            raise peer_gone() from None
        except ssl.SSLError as error:
            raise ChannelError(
                f"The connection to the peer is damaged ({error.reason}).", "Start the block again on both."
            ) from None
        except OSError:
            raise peer_gone() from None
        if not received:
            raise peer_gone()
        return received

    def _wait(self, reading: bool, seconds: float | None) -> None:
        if seconds is not None and seconds <= 0:
            raise peer_timeout(self._timeout)
        events = (selectors.EVENT_READ if reading else 0) | (selectors.EVENT_WRITE if self._unsent else 0)
        if events != self._events:
            if not self._events:
                self._selector.register(self._socket, events)
            elif events:
                self._selector.modify(self._socket, events)
            else:
                self._selector.unregister(self._socket)
            self._events = events
        self._selector.select(seconds)

    def _linger(self) -> None:
        """Let the peer see our header too: hanging up on unread data could destroy what is on the way."""
        deadline = time.monotonic() + min(_LINGER, self._timeout)
        scratch = bytearray(_CHUNK)
        with suppress(OSError):
            if self._unsent:
                self._push()
            self._socket.shutdown(socket.SHUT_WR)
            while (left := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv_into(scratch):
                    break

    def abort(self) -> None:
        """Shut the connection down under whoever uses it."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _shut(self) -> None:
        self._selector.close()
        if not self._in_frame:
            with suppress(OSError, ValueError):
                self._socket.unwrap()
        self._socket.close()
