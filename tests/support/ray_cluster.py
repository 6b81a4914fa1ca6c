"""A Ray cluster of this machine, of two nodes: `python -m support.ray_cluster FOLDER` runs one until its input ends.

Apart from the test, which must not have Ray's threads and handlers in it. On its output it says where it is and which
process runs the second node, then "killed" once that node is gone, at the word "kill". Nothing of it is left when it
ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

CORES = 4
"""Of each node; they are only counted."""


class RayCluster:
    """One that runs, seen from a test."""

    def __init__(self, process: subprocess.Popen[str], folder: Path) -> None:
        self.folder, self._process = folder, process
        self.address, second = _line(process.stdout).split()
        self._second = int(second)
        self.process = process.pid
        """The one that all others come from."""

    def on_second_node(self, port: int) -> bool:
        """Whether the process at this end of a connection runs there."""
        process = _process_at(port)
        while process > 1 and process != self._second:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        return process == self._second

    def kill_second_node(self) -> None:
        """All its processes, at once."""
        assert self._process.stdin is not None
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        assert _line(self._process.stdout) == "killed"


@contextmanager
def ray_cluster(folder: Path) -> Iterator[RayCluster]:
    """A head and a second node, until the block ends."""
    with (folder / "cluster.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.ray_cluster", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=Path(__file__).parents[1],
        )
    try:
        yield RayCluster(process, folder)
    finally:
        with process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    said = stream.readline().strip()
    assert said, "the cluster did not start"
    return said


def _process_at(port: int) -> int:
    """Who has the socket of this port of 127.0.0.1; 0 for nobody."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    socket = next((f"socket:[{one[9]}]" for one in lines if one[1].endswith(f":{port:04X}") and one[9] != "0"), None)
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if str(file.readlink()) == socket:
                return int(file.parts[2])
    return 0


def _main(folder: str) -> None:
    import os
    import signal

    # Ray prints as it likes: the output is for the test alone.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["RAY_TMPDIR"] = folder
    os.environ["RAY_NUM_REDIS_GET_RETRIES"] = "120"  # seconds in which it may start: the machine may be busy
    quiet = str(Path(__file__).parent / "without_noise")
    os.environ["PYTHONPATH"] = os.pathsep.join([quiet, *filter(None, [os.environ.get("PYTHONPATH")])])
    (Path(folder) / "ray").mkdir()
    from ray.cluster_utils import Cluster

    from sedml.lab.bench.resident import family
    from support.server_process import free_ports

    [client] = free_ports(1)
    common = {"num_cpus": CORES, "num_gpus": 0, "object_store_memory": 100 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={**common, "ray_client_server_port": client})
    second = cluster.add_node(**common)
    cluster.wait_for_nodes()
    try:
        raylet = second.all_processes["raylet"][0].process.pid
        print(f"ray://127.0.0.1:{client} {raylet}", file=output, flush=True)
        for order in sys.stdin:
            assert order == "kill\n"
            # Ray kills the node alone, and its workers would go on for a moment.
            for one in family(raylet)[1:]:
                with suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            cluster.remove_node(second, allow_graceful=False)
            print("killed", file=output, flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    _main(sys.argv[1])
