"""Attempts at blocks on both servers' workers, many at once, each over a connection and with a set-up of its own.

1. `workers`: S0 tells S1 the key that the workers' connections open with (`worker_connections`).
2. S1 leads: for each attempt it hires a worker, which connects to the port of the link; S0 hires one for each
   connection that comes. Both put the attempt on disk before their worker hears of it, its label share when it comes,
   and `final` when the other server's worker has said that it was saved there too (`worker_messages`).
3. `workers/pulse`: meanwhile the two servers tell each other every second, over their own connection, how many attempts
   are pending; the run is over when none is.

A worker that is gone, at either end, ends its attempt, and nothing more: the two servers then say where they have each
block, and make another attempt at those that need one (`meeting`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import structlog

from sedml.errors import ChannelError, CheatingError, SedmlError, WorkerGoneError
from sedml.mpc.channel import Channel
from sedml.mpc.ring import Array
from sedml.protocol.task import Block
from sedml.service.server.jobs.records import Record
from sedml.service.server.live.worker_connections import KEY, opening_of
from sedml.service.server.node import Node
from sedml.service.server.run import blocks
from sedml.service.server.run.block_counts import counter
from sedml.service.server.run.blocks import Attempt
from sedml.service.server.run.run_state import RunState
from sedml.service.server.run.worker_messages import FAILED, SHARE, YES, Assignment, error_from, from_costed
from sedml.service.server.run.worker_pool import Route, Worker, WorkerPool

_PULSE = 1.0

_log = structlog.get_logger("sedml.workers")


@dataclass(frozen=True)
class _Run:
    node: Node
    record: Record
    pool: WorkerPool
    channel: Channel
    begin: Callable[[Attempt], None]
    counts: Callable[[Block], Array]
    state: RunState


def run_on_workers(
    node: Node,
    pool: WorkerPool,
    record: Record,
    channel: Channel,
    attempts: Sequence[Attempt],
    window: int,
    begin: Callable[[Attempt], None],
) -> None:
    """Either server's side of these attempts, `window` at a time; some may break off, but not all.

    `begin` puts one on record.
    """
    assert record.task is not None  # noqa: S101 - only a job with a roster is run
    state = RunState(attempts, window)
    run = _Run(node, record, pool, channel, begin, counter(node, record, record.task), state)
    # One more, as an attempt may begin here before the last one has quite ended.
    with ThreadPoolExecutor(window + 1, thread_name_prefix="sedml-blocks") as threads:
        try:
            if node.role == 0:
                with node.worker_connections.expected(lambda *visit: _answer(run, threads, *visit)) as key:
                    channel.exchange(0, "workers", [np.frombuffer(key, np.uint8)])
                    _keep_in_touch(run, channel)
            else:
                [told] = channel.exchange(0, "workers", [np.zeros(KEY, np.uint8)])
                for _ in range(window):
                    threads.submit(_lead, run, told.tobytes())
                _keep_in_touch(run, channel)
        except BaseException as error:
            state.stop(error)
    state.check()


def _keep_in_touch(run: _Run, channel: Channel) -> None:
    beat = min(_PULSE, run.node.settings.link_timeout / 3)
    pending = True
    while pending:
        run.state.wait(run.node.role, beat)
        left = run.state.pending(run.node.role)
        [theirs] = channel.exchange(0, "workers/pulse", [np.array([left], np.uint32)])
        pending = bool(left or theirs[0])


def _lead(run: _Run, key: bytes) -> None:
    """S1: attempt after attempt, until there is none left."""
    address = run.node.settings.link_host, run.node.settings.link_port
    while (attempt := run.state.take()) is not None:
        _make(run, attempt, partial(_to, (address, opening_of(key, attempt.block.index, attempt.number))))


def _to(route: Route, _: Worker) -> Route:
    return route


def _answer(run: _Run, threads: ThreadPoolExecutor, connection: socket.socket, block: int, number: int) -> None:
    """S0: a worker of S1 is there."""

    def follow(attempt: Attempt) -> None:
        try:
            _make(run, attempt, lambda worker: worker.pass_on(connection))
        finally:
            connection.close()

    attempt = run.state.take(block, number)
    if attempt is None:
        connection.close()
        return
    try:
        threads.submit(follow, attempt)
    except RuntimeError:  # it is over
        connection.close()


def _make(run: _Run, attempt: Attempt, route_of: Callable[[Worker], Route]) -> None:
    """This server's side of an attempt, whatever comes of it."""
    broke: SedmlError | None = WorkerGoneError("An attempt at a block was given up.", "Look at the server's log.")
    try:
        _oversee(run, attempt, route_of)
        broke = None
    except (ChannelError, WorkerGoneError) as error:
        broke = error
        if not run.state.stopped:
            where = {"job": run.record.id, "block": attempt.block.index, "attempt": attempt.number}
            _log.info("attempt.broke_off", **where, error=type(error).__name__, what=error.what)
    except BaseException as error:
        if isinstance(error, CheatingError):
            run.node.condemned[run.record.id] = error
        run.state.stop(error)
        run.channel.abort()  # the other server may hold back its pulse
    finally:
        run.state.ends(attempt, broke)


def _oversee(run: _Run, attempt: Attempt, route_of: Callable[[Worker], Route]) -> None:
    """A worker with an attempt, from its assignment until it is free again."""
    if run.state.stopped:
        raise WorkerGoneError("The run is over.", "Start it again.")
    worker = run.pool.hire(lambda: run.state.stopped)
    run.state.employs(attempt, worker)
    free = False
    try:
        run.begin(attempt)
        _send(run, worker, attempt, route_of)
        failed = _attend(run, worker, attempt)
        free = failed is None
    finally:
        if free:
            run.pool.release(worker)
        else:
            worker.end()
    if failed is not None:
        raise failed


def _send(run: _Run, worker: Worker, attempt: Attempt, route_of: Callable[[Worker], Route]) -> None:
    node, task = run.node, run.record.task
    assert task is not None  # noqa: S101 - see above
    try:
        address, opening = route_of(worker)
    except OSError:
        raise WorkerGoneError("A worker is gone before its block began.", "The block runs again.") from None
    counts, timeout = run.counts(attempt.block), node.settings.link_timeout
    worker.wire.send_assignment(
        Assignment(
            node.role,
            task,
            attempt.block,
            attempt.number,
            counts,
            node.credentials,
            node.kit.peer,
            address,
            opening,
            timeout,
        )
    )


def _attend(run: _Run, worker: Worker, attempt: Attempt) -> SedmlError | None:
    """Take its share, and then its word that the other server has saved its own; or what it has failed of."""
    kind, body = worker.wire.receive()
    if kind == SHARE:
        cost, share = from_costed(body)
        blocks.save(run.node, run.record, attempt, share, cost)
        worker.wire.send(YES)
        kind, body = worker.wire.receive()
    if kind == FAILED:
        return error_from(body)
    # If there was no share, nothing is saved that could be made final.
    blocks.make_final(run.node, run.record, [(attempt.block.index, attempt.number)])
    return None
