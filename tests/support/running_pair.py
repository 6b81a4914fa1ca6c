"""Both servers of a deployment in this process: over TLS on loopback, with a real link, driven by their runners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sedml.service.kits import Address, ServerKit
from sedml.service.kits.server_kit import server_text
from sedml.service.server.http import App
from sedml.service.server.node import Node, open_node
from sedml.service.server.run.runner import Runner
from sedml.service.server.settings import load_settings
from support.background_server import in_background
from support.server_process import free_ports, until


def move_kits(kits: Path) -> None:
    """To free ports of the loopback; their certificates stay as they are."""
    s0, s1, link = (Address("127.0.0.1", port) for port in free_ports(3))
    (kits / "s0" / "kit.toml").write_text(server_text("s0", s0, link, s1))
    (kits / "s1" / "kit.toml").write_text(server_text("s1", s1, link, s0))


@contextmanager
def running_pair(kits: Path, data: Path) -> Iterator[list[Node]]:
    """S0 and S1, from their start until the block ends; both have heard of each other."""
    move_kits(kits)
    with ExitStack() as stack:
        nodes = []
        for name in ("s0", "s1"):
            kit = ServerKit.load(kits / name)
            node = open_node(kit, load_settings(kit, data_dir=data / name))
            stack.callback(node.close)
            nodes.append(node)
            runner = Runner(node)
            stack.enter_context(in_background(node, App(node), on_start=runner.start, on_stop=runner.stop))
        until(lambda: all(node.peer.heard for node in nodes), "both have heard of each other")
        yield nodes
