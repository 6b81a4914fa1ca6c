"""What a worker runs: block after block, each over a connection of its own to its counterpart at the other operator.

It has nothing on disk and decides nothing: its server has put the attempt on record before, and what comes out goes to
its server (`worker_messages`). So it may be killed at any moment: that ends the attempt.
"""

from __future__ import annotations

import select
import socket
import sys
import threading
from collections.abc import Callable

from sedml.errors import ChannelError, WorkerGoneError
from sedml.mpc.channel import Channel, connect, take_over
from sedml.service.server.run.block_work import set_up, tell_saved, work_on
from sedml.service.server.run.worker_messages import DONE, FAILED, SHARE, Assignment, Wire, costed, error_to

_LOOK = 0.2  # seconds between two looks at whether the server is still there


def work_for(wire: Wire, handed: Callable[[], socket.socket]) -> None:
    """Work until the server hangs up; `handed` waits for a connection that it hands over."""
    while True:
        try:
            assignment = wire.receive_assignment()
        except WorkerGoneError:
            return
        try:
            _work(wire, assignment, handed)
        except WorkerGoneError:
            return


def _work(wire: Wire, assignment: Assignment, handed: Callable[[], socket.socket]) -> None:
    """One attempt, and its report.

    The report goes out before the connection is closed: the other operator, who sees that, must not be able to have the
    server end this worker before it has said that it was cheated.
    """
    try:
        channel = _channel(assignment, handed)
    except Exception as error:
        wire.send(FAILED, error_to(error))
        return
    with channel, _Watch(wire, channel):
        try:
            _run(wire, channel, assignment)
        except Exception as error:
            wire.send(FAILED, error_to(error))
        else:
            wire.send(DONE, b"")


def _run(wire: Wire, channel: Channel, assignment: Assignment) -> None:
    task, block = assignment.task, assignment.block
    session = set_up(channel, assignment.role, [block.index])
    try:
        share, cost = work_on(channel, session, task, block, lambda: assignment.counts)
    finally:
        session.wipe()
    wire.ask(SHARE, costed(cost, share))
    tell_saved(channel, block, assignment.attempt)


def _channel(assignment: Assignment, handed: Callable[[], socket.socket]) -> Channel:
    task, peer, timeout = assignment.task.id, assignment.peer, assignment.timeout
    if assignment.role == 1:
        assert assignment.address is not None  # noqa: S101 - S1 is the one that calls
        return connect(
            assignment.address, task, assignment.credentials, peer=peer, timeout=timeout, opening=assignment.opening
        )
    if assignment.address is None:
        plain = handed()
    else:
        try:
            plain = socket.create_connection(assignment.address, timeout)
            plain.sendall(assignment.opening)
        except OSError as error:
            raise ChannelError(
                f"A worker cannot reach its own server ({error.strerror}).", "Check `compute_host` and `compute_port`."
            ) from None
    return take_over(plain, task, assignment.credentials, peer=peer, timeout=timeout)


class _Watch:
    """Hangs up on the other operator as soon as the server hangs up on this worker."""

    def __init__(self, wire: Wire, channel: Channel) -> None:
        self._wire, self._channel = wire, channel
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="sedml-watch", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._wire.fileno(), select.POLLRDHUP)
        while not self._over.wait(_LOOK):
            if poll.poll(0):
                if not self._over.is_set():
                    self._channel.abort()
                return


def _main() -> None:
    from sedml.mpc.malloc import keep_freed_memory

    keep_freed_memory()
    wire, hand = (socket.socket(fileno=int(one)) for one in sys.argv[1:])

    def handed() -> socket.socket:
        _, [file], _, _ = socket.recv_fds(hand, 1, 1)
        return socket.socket(fileno=file)

    work_for(Wire(wire), handed)


if __name__ == "__main__":
    _main()
