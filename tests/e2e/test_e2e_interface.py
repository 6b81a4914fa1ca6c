"""A server as it is, in this process, sent whatever its description allows and much that it does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sedml.service.kits import ServerKit
from sedml.service.server.node import Node, open_node
from sedml.service.server.settings import load_settings
from support.hostile import hostile_requests
from support.live_servers import make_kits, settings_of


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
    statuses = hostile_requests(node, closed, examples=2)
    assert {200, 401, 403, 404, 422} <= set(statuses)
    assert max(statuses) < 500
