"""How far away the other server is, and how much goes through in between: measured at greetings.

1. `link/ping`, empty, right after another exchange. One server may be ahead of the other; then it waits too long by
   as much as the other waits too short a time. So the mean of the two times is the delay one way.
2. `link/took`: each says how long that took, and whether it wants to know how much goes through: when it does not
   know, and ten minutes after it last heard.
3. If either does: 256 KB each way that open TCP's window (`link/open`), 256 KB that are timed (`link/load`), and
   `link/took` once more.

Only a requester's choice of protocol hangs on it, and how many blocks of a job are under way at a time
(`sedml.protocol.links`), so that it does not matter what the other server claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sedml.mpc.channel import Channel
from sedml.protocol.links import Link, blocks_under_way
from sedml.protocol.task import Task
from sedml.service.server.node import Node

__all__ = ["LinkQuality", "measure", "quality", "under_way"]

LOAD = 256 << 10
_EVERY = 600.0
_REMEMBERED = 6
_LONGEST = 60.0
_FASTEST = 1e10  # bits a second: faster links cannot be told apart by so little


@dataclass(frozen=True)
class LinkQuality:
    """What is known of the link; None where nothing is."""

    delay_ms: float | None
    mbit: float | None


def quality(node: Node) -> LinkQuality:
    """As it was measured last. What disturbs a measurement makes a delay longer, so the shortest of a minute counts."""
    delays, bits = node.link_figures.delays, node.link_figures.bits
    return LinkQuality(1e3 * min(delays) if delays else None, None if bits is None else bits / 1e6)


def under_way(node: Node, task: Task) -> int:
    """How many blocks of a job this server would work on at a time: one, as long as it does not know the link."""
    link = quality(node)
    if link.delay_ms is None:
        return 1
    bandwidth = _FASTEST if link.mbit is None else link.mbit * 1e6
    return blocks_under_way(task, Link(link.delay_ms / 1e3, bandwidth), node.settings.max_blocks_under_way)


def measure(node: Node, channel: Channel) -> None:
    """Either server's side, right after an exchange."""
    figures = node.link_figures
    last = figures.measured
    wants = last is None or node.steady() - last >= _EVERY
    delay, asked = _mean_time(node, channel, "link/ping", np.empty(0, np.uint8), wants)
    if delay is not None:
        figures.delays = (*figures.delays, delay)[-_REMEMBERED:]
    if not (wants or asked):
        return
    load = np.zeros(LOAD, np.uint8)
    channel.exchange(0, "link/open", [load])
    took, _ = _mean_time(node, channel, "link/load", load, wants)
    if took is not None and figures.delays:
        bits = 8 * LOAD
        figures.bits = bits / max(took - min(figures.delays), bits / _FASTEST)
    figures.measured = node.steady()


def _mean_time(
    node: Node, channel: Channel, step: str, content: np.ndarray[tuple[int], np.dtype[np.uint8]], wants: bool
) -> tuple[float | None, bool]:
    """Seconds that an exchange took, of both servers' times, if the other's makes sense; and what the other wants."""
    start = node.steady()
    channel.exchange(0, step, [content])
    mine = node.steady() - start
    [told] = channel.exchange(0, "link/took", [np.array([mine, wants])])
    theirs = float(told[0])
    return ((mine + theirs) / 2 if 0 <= theirs <= _LONGEST else None), bool(told[1] == 1)
