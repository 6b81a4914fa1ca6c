"""A server in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sedml.service.server.http import HttpsServer
from sedml.service.server.http.app import App
from sedml.service.server.node import Node


@contextmanager
def in_background(
    node: Node,
    app: App,
    *,
    on_start: Callable[[], object] = lambda: None,
    on_stop: Callable[[], object] = lambda: None,
) -> Iterator[HttpsServer]:
    """Serve in a thread of this process, for as long as the block runs."""
    ready = threading.Event()

    def started() -> None:
        on_start()
        ready.set()

    server = HttpsServer(node, app, on_start=started, on_stop=on_stop)
    failed: list[BaseException] = []

    def run() -> None:
        try:
            server.run()
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run, name=f"sedml-https-{node.kit.name}")
    thread.start()
    try:
        ready.wait()
        if failed:
            raise failed[0]
        yield server
    finally:
        server.stop()
        thread.join()
