"""Whether the two servers are in touch: when this one last heard of the other, by time that only passes.

S1 greets S0 every ten seconds, whatever else there is to do. So S0 knows from the greetings that come, and S1 from the
answers to them, and either knows within `SILENT` seconds that the other is gone.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sedml.service.server.node import Node

__all__ = ["SILENT", "hear", "is_silent", "last_heard", "silent_seconds", "verdict"]

SILENT = 35.0
"""Three greetings were missed, and the next should have come."""


def hear(node: Node) -> None:
    """The other server has said something; from any thread."""
    node.activity.heard = node.steady()


def silent_seconds(node: Node) -> float:
    """Since the other server was last heard of; if it was not yet, since this one was started."""
    heard = node.activity.heard
    return max(0.0, node.steady() - (node.started if heard is None else heard))


def last_heard(node: Node) -> datetime | None:
    """When that was, by this server's clock as it is now."""
    return None if node.activity.heard is None else node.clock() - timedelta(seconds=silent_seconds(node))


def is_silent(node: Node) -> bool:
    """Whether it is gone for so long that something is wrong."""
    return silent_seconds(node) > SILENT


def verdict(node: Node) -> str:
    """For people: "ok", or how long nothing has been heard."""
    seconds = f"{silent_seconds(node):.0f} s"
    if node.activity.heard is None:
        return f"not heard of yet, since {seconds}"
    return f"silent for {seconds}" if is_silent(node) else "ok"
