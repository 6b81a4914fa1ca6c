"""What a block of a large job costs, with the servers working alone and with workers: `docs/explanation/scale.md`.

Two jobs of different lengths are run for each number of workers, in turn, and their difference divided by the blocks
between them: seconds that pass, and seconds of all cores together, of both servers and their workers.

    python benchmarks/block_cost.py --teachers 250 --samples 10000 60000 --workers 1 2 --repeat 3
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys

_RUN = """
import json, resource, sys
from sedml.lab.bench.deployment import bench_deployment
report = bench_deployment(int(sys.argv[1]), int(sys.argv[2]), 10, epsilon=8.0, prepared=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"seconds": report.aggregate_seconds, "cpu": used.ru_utime + used.ru_stime,
                  "right": report.plausible, "peak": report.peak_rss_mb}))
"""


def _measure(workers: int, teachers: int, samples: int) -> dict[str, float]:
    environment = os.environ | {"SEDML_SERVER__COMPUTE_WORKERS": str(workers)}
    command = [sys.executable, "-W", "ignore", "-c", _RUN, str(teachers), str(samples)]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    if not found["right"]:
        sys.exit("The labels are not those of the votes.")
    return found


def _blocks(teachers: int, samples: int) -> int:
    from sedml.protocol.task import Task

    return Task(10, samples, teachers, teachers // 2, 40.0).block_count


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teachers", type=int, default=250)
    parser.add_argument("--samples", type=int, nargs=2, default=[10_000, 60_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    few, many = (_blocks(asked.teachers, samples) for samples in asked.samples)
    print(f"{asked.teachers} teachers, {asked.samples} samples: {few} and {many} blocks; {os.cpu_count()} cores")
    found: dict[int, list[tuple[float, float, float]]] = {workers: [] for workers in asked.workers}
    for _ in range(asked.repeat):
        for workers in asked.workers:
            short, long = (_measure(workers, asked.teachers, one) for one in asked.samples)
            seconds, cpu = ((long[key] - short[key]) / (many - few) for key in ("seconds", "cpu"))
            found[workers].append((seconds, cpu, long["seconds"]))
            print(f"  {workers} workers: {1 / seconds:.1f} blocks/s, {cpu * 1e3:.0f} ms of cores a block", flush=True)
    print("workers a server | blocks a second | cores busy | ms of cores a block | the longer job, s")
    for workers, runs in found.items():
        seconds, cpu, whole = (statistics.median(column) for column in zip(*runs, strict=True))
        print(f"{workers} | {1 / seconds:.1f} | {cpu / seconds:.2f} | {cpu * 1e3:.0f} | {whole:.1f}")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"The largest process had {peak:.0f} MB.")


if __name__ == "__main__":
    main()
