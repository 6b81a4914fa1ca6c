"""The blocks of a run on both servers' workers, many at once, each over a connection of its own.

1. `workers`: S0 tells S1 the key that the workers' connections open with (`worker_connections`).
2. S1 leads: for each block it hires a worker, which connects to the port of the link; S0 hires one for each connection
   that comes. Both oversee theirs (`worker_messages`): what a worker is about to say goes on record here, its label
   share on disk here. A worker that is gone, at either end, ends its connection, and S1 sends another one with the
   block: it says the very same again.
3. `workers/pulse`: meanwhile the two servers tell each other every second, over their own connection, how many blocks
   they lack; it is over when both have all. S0 also tells of a block that it had begun and has nobody at work on. S1
   may have finished that one, with the last word of S0's worker, and then runs it again. None of this follows from a
   vote, and none of it is on record.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
import structlog

from sedml.errors import ChannelError, PeerIdentityError, SedmlError, WorkerGoneError
from sedml.mpc.channel import Channel
from sedml.mpc.channel.frame import block_at
from sedml.mpc.ring import Array
from sedml.protocol.labels import from_bytes
from sedml.protocol.task import Block
from sedml.service.server.jobs.records import Record
from sedml.service.server.live.worker_connections import KEY, opening_of
from sedml.service.server.node import Node
from sedml.service.server.run import blocks
from sedml.service.server.run.block_work import BlockWork
from sedml.service.server.run.run_state import ATTEMPTS, RunState
from sedml.service.server.run.transcript import Transcript
from sedml.service.server.run.worker_messages import (
    DONE,
    FAILED,
    HEARD,
    SAYS,
    SHARE,
    YES,
    Assignment,
    error_from,
    from_costed,
    place_and_digest,
)
from sedml.service.server.run.worker_pool import Route, Worker, WorkerPool

__all__ = ["run_on_workers"]

_PULSE = 1.0
_NO_BLOCK = 2**32 - 1
_PAUSE = 0.05  # seconds before the second attempt, twice as long before each one after it

_log = structlog.get_logger("sedml.workers")


@dataclass(frozen=True)
class _Run:
    node: Node
    record: Record
    pool: WorkerPool
    transcript: Transcript
    work_of: Callable[[int], BlockWork]
    counts: Callable[[Block], Array]
    state: RunState


def run_on_workers(
    node: Node,
    pool: WorkerPool,
    record: Record,
    channel: Channel,
    transcript: Transcript,
    every: range,
    window: int,
    work_of: Callable[[int], BlockWork],
    counts: Callable[[Block], Array],
) -> None:
    """Either server's side of these blocks, `window` at a time."""
    state = RunState(every)
    run = _Run(node, record, pool, transcript, work_of, counts, state)
    try:
        _run_all(run, channel, window)
    except BaseException as error:  # all threads are over: one may know better what went wrong than a broken link says
        raise state.cause(error) from None


def _run_all(run: _Run, channel: Channel, window: int) -> None:
    node, state = run.node, run.state
    # One more, as a block may begin here before the last one has quite ended.
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
        finally:
            state.stop()


def _keep_in_touch(run: _Run, channel: Channel) -> None:
    beat = min(_PULSE, run.node.settings.link_timeout / 3)
    over = False
    while not over:
        run.state.wait(beat)
        left, abandoned = run.state.left, run.state.abandoned
        mine = left, _NO_BLOCK if abandoned is None else abandoned
        [theirs] = channel.exchange(0, "workers/pulse", [np.array(mine, np.uint32)])
        over = not left and not theirs[0]
        if run.node.role == 1:
            run.state.repeat(int(theirs[1]))


def _lead(run: _Run, key: bytes) -> None:
    """S1: block after block, until there is none left."""
    settings, state = run.node.settings, run.state
    while (block := state.take()) is not None:
        while not state.stopped:
            attempt = state.next_attempt(block)
            route: Route = (settings.link_host, settings.link_port), opening_of(key, block, attempt)
            try:
                _oversee(run, block, partial(_to, route))
                break
            except (ChannelError, WorkerGoneError) as error:
                if attempt + 1 >= ATTEMPTS or isinstance(error, PeerIdentityError):
                    return state.fail(error)
                _tell(run, block, error)
                state.pause(_PAUSE * 2 ** (attempt + 1))
            except BaseException as error:
                return state.fail(error)
    return None


def _to(route: Route, _: Worker) -> Route:
    return route


def _answer(run: _Run, threads: ThreadPoolExecutor, connection: socket.socket, block: int, attempt: int) -> None:
    """S0: a worker of S1 is there."""

    def follow() -> None:
        try:
            _oversee(run, block, lambda worker: worker.pass_on(connection))
        except (ChannelError, WorkerGoneError) as error:
            _tell(run, block, error)  # S1 sends another one
        except BaseException as error:
            run.state.fail(error)
        finally:
            connection.close()

    try:
        if not run.state.expects(block):
            raise RuntimeError
        threads.submit(follow)
    except RuntimeError:  # it is over
        connection.close()


def _tell(run: _Run, block: int, error: ChannelError | WorkerGoneError) -> None:
    if not run.state.stopped:
        _log.info("block.again", job=run.record.id, block=block, error=type(error).__name__, what=error.what)


def _oversee(run: _Run, block: int, route_of: Callable[[Worker], Route]) -> None:
    """A worker with a block, from its assignment until it is free again."""
    if run.state.stopped:
        raise WorkerGoneError("The run is over.", "Start it again.")
    worker = run.pool.hire(lambda: run.state.stopped)
    run.state.begins(block, worker)
    free = False
    try:
        failed = _attend(run, worker, _send(run, worker, block, route_of))
        free = True
    finally:
        run.state.ends(block, worker)
        if free:
            run.pool.release(worker)
        else:
            worker.end()
    if failed is not None:
        raise failed


def _send(run: _Run, worker: Worker, block: int, route_of: Callable[[Worker], Route]) -> Block:
    node, work = run.node, run.work_of(block)
    try:
        address, opening = route_of(worker)
    except OSError:
        raise WorkerGoneError("A worker is gone before its block began.", "The block runs again.") from None
    timeout = node.settings.link_timeout
    assignment = Assignment(work, run.counts(work.block), node.credentials, node.kit.peer, address, opening, timeout)
    worker.wire.send_assignment(assignment)
    return work.block


def _attend(run: _Run, worker: Worker, block: Block) -> SedmlError | None:
    """Answer it until it is free again; what it has failed of, if it has."""
    node, record, task, transcript, wire = run.node, run.record, run.record.task, run.transcript, worker.wire
    assert task is not None  # noqa: S101 - only a job with a roster is run
    said: set[bytes] = set()
    while True:
        kind, body = wire.receive()
        if kind in (HEARD, SAYS):
            place, digest = place_and_digest(body)
            if block_at(place) != block.index:
                raise WorkerGoneError("A worker speaks of another block than its own.", "Report this fault of sedml.")
            if kind == HEARD:
                transcript.hears(place, digest)
                continue
            transcript.says(place, digest, said)
        elif kind == SHARE:
            cost, document = from_costed(body)
            share = from_bytes(task, block.samples, document)
            transcript.keep()
            blocks.save(node, record, block, share, cost)
            node.traffic.add(cost.rounds, cost.bytes)
        elif kind == DONE:
            transcript.leave(block.index)
            run.state.has_done(block.index)
            return None
        elif kind == FAILED:
            with suppress(Exception):
                transcript.keep()
            return error_from(body)
        if run.state.stopped:
            raise WorkerGoneError("The run is over.", "Start it again.")
        wire.send(YES)
