"""Requests that mean no good, to a server with a job on record, from everybody who has a token and from nobody."""

from __future__ import annotations

import logging
import random
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import structlog

from sedml.service.kits import ClientKit, ServerKit
from sedml.service.server.access import Caller
from sedml.service.server.http import App
from sedml.service.server.jobs import lifecycle, public_data
from sedml.service.server.node import Node, open_node
from sedml.service.server.settings import load_settings
from support.cosigned import cosign_for
from support.deployment import DATA, make_ballot, terms_for
from support.http_check import check_api
from support.live_servers import make_kits, settings_of

__all__ = ["hostile_requests", "hostile_requests_to_a_fresh_server"]

REQUESTER = Caller("requester-1", "requester")
_EXAMPLES = 12
"""Of each kind in one go: few, so that servers in many states get some."""


def hostile_requests(node: Node, closed: bool, *, examples: int, seed: int | None = None) -> Counter[int]:
    """How often each status came; raises if one of them is a fault of the server, or not as it is described."""
    terms = terms_for(16, deadline=int(node.clock().timestamp()) + 3600)
    lifecycle.create(node, REQUESTER, terms.id, terms)
    cosign_for(node)
    file = node.incoming / "upload"
    file.write_bytes(DATA)
    public_data.accept(node, REQUESTER, terms.id, file)
    make_ballot("teacher-001", np.zeros(16, int), terms, random.Random(1)).send(node, terms.id)
    if closed:
        lifecycle.close(node, REQUESTER, terms.id)
    names = ("teacher-001", "teacher-002", "requester-1", "requester-2", f"operator-{node.kit.name}")
    callers = [ClientKit.load(node.kit.folder.parent / name).servers[node.kit.name].token for name in names]
    app = App(node)
    return check_api(app, callers, examples=examples, seed=seed, job=terms.id, block=0, name="teacher-009")


def hostile_requests_to_a_fresh_server(seed: int) -> tuple[Counter[int], str | None]:
    """A few hundred, to S0 or S1, before or after a vote was closed; and what is wrong with an answer, if anything.

    What is wrong ends it: then the count is of nothing.
    """
    # A request is a line in the log, and these are not looked at.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    with tempfile.TemporaryDirectory(prefix="sedml-hostile-") as folder:
        kits = make_kits(Path(folder) / "kits", settings_of(max_open_jobs=5))
        kit = ServerKit.load(kits / ("s0", "s1")[seed % 2])
        node = open_node(kit, load_settings(kit))
        try:
            return hostile_requests(node, seed % 4 > 1, examples=_EXAMPLES, seed=seed), None
        except Exception:
            return Counter(), traceback.format_exc()
        finally:
            node.close()
