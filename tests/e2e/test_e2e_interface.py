"""A server as it is, in this process, sent whatever its description allows and much that it does not."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sedml.service.kits import ClientKit, ServerKit
from sedml.service.server.access import Caller
from sedml.service.server.http import make_app
from sedml.service.server.jobs import lifecycle, voting
from sedml.service.server.node import Node, open_node
from sedml.service.server.settings import load_settings
from support.deployment import DATA, make_ballot, terms_for
from support.http_check import check_api
from support.live_servers import make_kits, settings_of

REQUESTER = Caller("requester-1", "requester")


@pytest.fixture
def node(request: pytest.FixtureRequest, place: Path) -> Iterator[Node]:
    kits = make_kits(place / f"interface-{request.param}", settings_of(max_open_jobs=5))
    kit = ServerKit.load(kits / request.param)
    opened = open_node(kit, load_settings(kit))
    try:
        yield opened
    finally:
        opened.close()


@pytest.mark.parametrize(("node", "closed"), [("s0", False), ("s1", True)], indirect=["node"])
def test_no_request_makes_a_server_fail(node: Node, closed: bool):
    """Nor does it answer anything that its description does not have, whoever asks."""
    terms = terms_for(16, deadline=int(node.clock().timestamp()) + 3600)
    lifecycle.create(node, REQUESTER, terms.id, terms)
    file = node.incoming / "upload"
    file.write_bytes(DATA)
    voting.accept_data(node, REQUESTER, terms.id, file)
    make_ballot("teacher-001", np.zeros(16, int), terms, random.Random(1)).send(node, terms.id)
    if closed:
        lifecycle.close(node, REQUESTER, terms.id)
    names = ("teacher-001", "teacher-002", "requester-1", "requester-2", f"operator-{node.kit.name}")
    callers = [ClientKit.load(node.kit.folder.parent / name).servers[node.kit.name].token for name in names]
    examples = int(os.environ.get("SEDML_TEST_REQUESTS", "2"))
    statuses = check_api(make_app(node), callers, examples=examples, job=terms.id, block=0, name="teacher-009")
    assert {200, 401, 403, 404, 422} <= statuses
    assert max(statuses) < 500
