"""Which protocol a job gets: the one asked for, or the faster one on the link that the two servers have measured.

What a server says of the link decides nothing but that: the labels, and who learns what, are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Literal, get_args

from sedml.errors import TaskError
from sedml.protocol.links import Link, choose
from sedml.protocol.task import AskedProtocol
from sedml.service.messages import ServerInfo
from sedml.service.terms import Terms, task_of

__all__ = ["Chosen", "choose_protocol", "link_between", "named_protocol"]

_LEAST_MBIT = 0.01


@dataclass(frozen=True)
class Chosen:
    """A protocol, and why it was taken, in one line."""

    protocol: Literal["fused", "garbled"]
    reason: str


def named_protocol(name: object) -> AskedProtocol:
    """What a caller passed; raises if there is no such protocol."""
    for known in get_args(AskedProtocol):
        if isinstance(name, str) and name == known:
            found: AskedProtocol = known
            return found
    raise TaskError("The protocol that was asked for is unknown.", f"Use one of {', '.join(get_args(AskedProtocol))}.")


def link_between(infos: Sequence[ServerInfo]) -> Link | None:
    """What both servers say of the link between them, the worse of each; None where one of them cannot say."""
    delays = [info.link_delay_ms for info in infos if info.link_delay_ms is not None]
    widths = [info.link_mbit for info in infos if info.link_mbit is not None]
    if not len(delays) == len(widths) == len(infos) or not all(map(isfinite, (*delays, *widths))):
        return None
    return Link(max(0.0, *delays) / 1e3, max(_LEAST_MBIT, min(widths)) * 1e6)


def choose_protocol(asked: AskedProtocol, terms: Terms, infos: Sequence[ServerInfo], teachers: int) -> Chosen:
    """For a job that so many teachers may vote on."""
    if asked != "auto":
        return Chosen(asked, "as asked for")
    link = link_between(infos)
    if link is None:
        return Chosen("fused", "the servers have not measured the link between them yet")
    choice = choose(task_of(terms, teachers, ""), link)
    found: Literal["fused", "garbled"] = "garbled" if choice.protocol == "garbled" else "fused"
    other = "fused" if found == "garbled" else "garbled"
    took = {"fused": _duration(choice.fused), "garbled": _duration(choice.garbled)}
    measured = f"{1e3 * link.delay:.3g} ms and {link.bandwidth / 1e6:,.4g} Mbit/s between the servers"
    return Chosen(found, f"about {took[found]}, {other} {took[other]}: {measured}")


def _duration(seconds: float) -> str:
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:,.0f} min"
