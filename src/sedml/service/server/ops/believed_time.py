"""Whether the server's clock can be believed: what is deleted, or closed, by a wrong one cannot be brought back.

A clock is doubted

- from each start, and from each jump (it has moved by a minute more or less than time has passed), until the other
  server's agrees with it, or else until it has gone steadily for an hour;
- as long as the other server's is more than five minutes away from it.

While it is doubted, nothing is deleted, expired or closed because of its age. Whatever else a server does goes on.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from sedml.service.server.node import Anchor, Node, now

__all__ = ["doubt", "hear"]

_JUMP = 60.0
_APART = 300.0
_STEADY = 3600.0

_log = structlog.get_logger("sedml.clock")


def doubt(node: Node) -> str | None:
    """Why the clock is not believed now, if it is not."""
    anchor = _steadied(node)
    if anchor.peer_ahead is not None:
        if abs(anchor.peer_ahead) <= _APART:
            return None
        return f"the other server's clock is {anchor.peer_ahead:+.0f} s away from it"
    if node.steady() - anchor.steady >= _STEADY:
        return None
    return "the other server has not confirmed it since it was started or set"


def hear(node: Node, theirs: float) -> None:
    """The other server has said what time it is."""
    node.activity.anchor = replace(_steadied(node), peer_ahead=theirs - now(node))


def _steadied(node: Node) -> Anchor:
    """The anchor, which a jump sets anew."""
    current, anchor = Anchor(now(node), node.steady()), node.activity.anchor
    if anchor is not None:
        moved = (current.wall - anchor.wall) - (current.steady - anchor.steady)
        if abs(moved) <= _JUMP:
            return anchor
        _log.warning("clock.jump", seconds=round(moved), what="Nothing is deleted until the clock is believed again.")
    node.activity.anchor = current
    return current
