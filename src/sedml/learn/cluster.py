"""Training as tasks of a Ray cluster: on processors, or on parts of GPUs.

What is trained follows from the data, the settings, the seed and the numbers of the teachers alone, so it does not
matter where a task runs, nor how often: one whose worker or node is lost is done again. Tasks have as many threads as
this process has, because sums over other numbers of threads are rounded otherwise.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from sedml.errors import InputError, SedmlError, ServerError, require_libraries

__all__ = ["Cluster", "connected"]

R = TypeVar("R")

_AUTO = "auto"
_TASKS_A_GPU = 4
"""Small networks leave a GPU mostly idle: as many tasks share one."""
_RETRIES = 5
_PATIENCE = 10.0  # seconds


@dataclass(frozen=True)
class Cluster:
    """A Ray cluster that this process is connected to."""

    cpus: int
    gpus: int
    largest: int
    """Processors of the largest node."""

    def places(self, threads: int = 1, *, on_gpu: bool = False) -> int:
        """How many tasks of so many threads run at the same time."""
        return max(1, _TASKS_A_GPU * self.gpus if on_gpu else self.cpus // self._asked(threads))

    def run(
        self,
        work: Callable[..., R],
        shared: Sequence[object],
        pieces: Sequence[Sequence[object]],
        *,
        threads: int = 1,
        on_gpu: bool = False,
    ) -> Generator[tuple[int, R], None, None]:
        """What `work(*shared, *piece)` returns for every piece, with its number, in the order in which they get done.

        What is shared goes to every node once. Whoever stops listening early closes this, which stops the tasks.
        """
        import ray

        resources = {"num_gpus": 1 / _TASKS_A_GPU} if on_gpu else {"num_cpus": self._asked(threads)}
        task = ray.remote(max_retries=_RETRIES, **resources)(work)
        sent = [ray.put(one) for one in shared]
        waiting = {task.remote(*sent, *piece): number for number, piece in enumerate(pieces)}
        try:
            while waiting:
                [done], _ = ray.wait(list(waiting))
                yield waiting.pop(done), _result(done)
        finally:
            for one in waiting:
                ray.cancel(one, force=True)

    def _asked(self, threads: int) -> int:
        """Processors to ask for: no node has more than the largest, and one that no node has is waited for for ever."""
        return max(1, min(threads, self.largest))


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """The cluster at an address, "host:6379" or "ray://host:10001", until the block ends.

    "auto": the one that RAY_ADDRESS names or that runs on this machine; where there is none, one is started on this
    machine for as long as it takes.
    """
    require_libraries("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to anybody
    import ray

    if ray.is_initialized():
        raise InputError("This process is connected to a Ray cluster already.", "Leave it first: ray.shutdown().")
    try:
        _connect(address)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise InputError(
            f"No Ray cluster answers at {address} ({type(error).__name__}).",
            "Start one with `ray start --head`, and give its address; or use 'auto'.",
        ) from None
    try:
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        yield Cluster(
            cpus=int(sum(one.get("CPU", 0) for one in alive)),
            gpus=int(sum(one.get("GPU", 0) for one in alive)),
            largest=int(max((one.get("CPU", 0) for one in alive), default=1)),
        )
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    import ray
    from ray._private.services import find_bootstrap_address

    local = False
    if address == _AUTO:
        known = os.environ.get("RAY_ADDRESS") or find_bootstrap_address(None)  # of the last `ray start` here
        local = known is None or ("RAY_ADDRESS" not in os.environ and not _answers(known))
        address = known or _AUTO
    quietly: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if local:
        ray.init(address="local", include_dashboard=False, **quietly)
    elif _answers(address):
        ray.init(address=address, **quietly)
    else:
        raise ConnectionError


def _answers(address: str) -> bool:
    """Whether anybody is there: Ray itself would go on asking for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_PATIENCE):
            return True
    except (OSError, ValueError, OverflowError):
        return False


def _result(done: Any) -> Any:  # noqa: ANN401 - whatever the task returns
    import ray

    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, SedmlError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise ServerError(
            f"The Ray cluster could not finish a task ({type(error).__name__}).",
            "Check its nodes with `ray status`; then run the same command again.",
        ) from None
