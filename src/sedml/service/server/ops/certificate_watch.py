"""Certificates that expire, or have: the operator is told in time, as nothing works afterwards."""

from __future__ import annotations

import structlog

from sedml.service.kits.inspection import SOON, expiries
from sedml.service.server.node import Node

_DO = {
    "server": "Issue another with `sedml certify`, then send SIGHUP.",
    "authority": "Provision again before that: every kit is replaced.",
    "revoked": "Copy the authority's newest list into the kit, then send SIGHUP.",
}

_log = structlog.get_logger("sedml.certificates")


def warn(node: Node) -> None:
    """A line in the log for each that is good for less than thirty days, or no longer."""
    for which, ends in expiries(node.credentials).items():
        left = ends - node.clock()
        if left < SOON:
            event = "certificate.expires" if left.total_seconds() > 0 else "certificate.expired"
            _log.warning(event, certificate=which, days=left.days, until=ends.isoformat(), do=_DO[which])
