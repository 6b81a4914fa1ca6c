"""The process that speaks with a Ray cluster for a server: `python -m sedml.service.server.run.ray_process`.

Apart from the server, so that Ray's threads, handlers and memory are. It is told on its input, a line of JSON each, to
`hire` a worker (by number) or to let one `go`, and says on its output how many can work at the same time (`size`), and
which have `failed`, and how. A worker is a Ray task of one core for one block. All that Ray is given is where the
server is, where on the nodes its kit lies, and an opening that is good once: shares, keys and votes go from the server
to the worker over TLS (`ray_workers`), and there is nothing of them in Ray's object store, its dashboard or its logs.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import IO, Any

_LOOK = 0.5
_PATIENCE = 20.0  # seconds in which a worker must have reached its server


def work_on_node(kit: str, address: tuple[str, int], opening: bytes) -> None:
    """What a Ray task does: call the server, and work for it until it hangs up."""
    from sedml.errors import ChannelError
    from sedml.mpc.channel import dial
    from sedml.service.kits import ServerKit
    from sedml.service.server.run.block_worker import work_for
    from sedml.service.server.run.worker_messages import Wire

    credentials = ServerKit.load(Path(kit)).credentials
    stream = dial(address, credentials, credentials.name, _PATIENCE, opening)
    stream.settimeout(None)

    def handed() -> Any:  # noqa: ANN401 - never
        raise ChannelError("Nobody hands a connection to a worker on another machine.", "Report this fault of sedml.")

    wire = Wire(stream)
    try:
        work_for(wire, handed)
    finally:
        wire.close()


class _RayProcess:
    def __init__(self, ray: Any, output: IO[str]) -> None:  # noqa: ANN401 - Ray has no types
        self._ray, self._output = ray, output
        self._task = ray.remote(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD", name="sedml-block")(
            work_on_node
        )
        self._at_work: dict[Any, int] = {}
        self._lock = threading.Lock()

    def say(self, **what: object) -> None:
        with self._lock:
            print(json.dumps(what), file=self._output, flush=True)

    def size(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))

    def told(self, order: dict[str, Any]) -> None:
        if "size" in order:
            self.say(size=self.size())
        elif "hire" in order:
            address, opening = (order["host"], order["port"]), bytes.fromhex(order["opening"])
            task = self._task.remote(order["kit"], address, opening)
            with self._lock:
                self._at_work[task] = order["hire"]
        elif "go" in order:
            with self._lock:
                going = [task for task, number in self._at_work.items() if number == order["go"]]
            for task in going:
                self._ray.cancel(task, force=True)

    def watch(self) -> None:
        """Report tasks that failed; a task ends by itself when its server hangs up."""
        pause = threading.Event()
        while True:
            with self._lock:
                tasks = list(self._at_work)
            ended = self._ray.wait(tasks, num_returns=1, timeout=_LOOK)[0] if tasks else []
            if not tasks:
                pause.wait(_LOOK)
            for task in ended:
                with self._lock:
                    number = self._at_work.pop(task)
                try:
                    self._ray.get(task)
                except Exception as error:
                    cause = getattr(error, "cause", None) or error
                    self.say(failed=number, what=type(cause).__name__)


def _main() -> None:
    # Whatever Ray prints goes nowhere: the output is for the server alone.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import ray

    try:
        ray.init(
            address=sys.argv[1],
            namespace="sedml",
            log_to_driver=False,
            logging_level=logging.CRITICAL,
        )
    except Exception as error:
        print(json.dumps({"unreachable": type(error).__name__}), file=output, flush=True)
        sys.exit(1)
    ray_process = _RayProcess(ray, output)
    ray_process.say(size=ray_process.size())
    threading.Thread(target=ray_process.watch, daemon=True).start()
    try:
        for line in sys.stdin:
            ray_process.told(json.loads(line))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    _main()
