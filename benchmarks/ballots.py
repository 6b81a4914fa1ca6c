"""What a ballot costs: bytes, and processor time to cast it, to examine each half, and to count 250 of them.

    python benchmarks/ballots.py                 1,000 samples x 10 classes and others, on this machine's kernel
    SEDML_KERNEL=off python benchmarks/ballots.py    the same with NumPy
    python benchmarks/ballots.py encodings       ways to prove m votes a sample, by upload and time

Times are processor times of this process, the least of several: other work on the machine hardly touches them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time

import numpy as np

from sedml.mpc.kernel import kernel_in_use
from sedml.mpc.prg import Seed
from sedml.protocol.ballots import BallotShape, add_up, cast, examine, to_ring
from sedml.protocol.ballots.casting import share
from sedml.protocol.ballots.page import examine_page
from sedml.protocol.ballots.shape import PageShape

JOB, TEACHER = bytes(16), "hospital"
SHAPES = [(100, 10, 1), (1000, 10, 1), (1000, 100, 1), (1000, 10, 10), (1000, 10, 31), (1000, 10, 50), (4096, 10, 1)]


def least(what: Callable[[], object], times: int = 25) -> float:
    """Milliseconds."""
    found = []
    for _ in range(times):
        start = process_time()
        what()
        found.append(process_time() - start)
    return 1e3 * min(found)


def whole_ballots() -> None:
    rng, secret = np.random.default_rng(1), Seed.random()
    print(f"kernel: {kernel_in_use()}")
    print(f"{'samples x classes, votes':>26} {'to S0':>9} {'to S1':>10} {'cast':>9} {'S0':>8} {'S1':>8}  ms")
    for samples, classes, votes in SHAPES:
        shape = BallotShape(samples, classes, votes)
        given = rng.integers(-1, classes, (votes, samples))
        ballot = cast(given, shape, JOB, TEACHER, secret)
        times = 5 if votes > 1 else 25
        made = least(lambda shape=shape, given=given: cast(given, shape, JOB, TEACHER, secret), times)
        seen = [
            least(lambda role=role, shape=shape, b=ballot: examine(role, b.halves[role], shape, JOB, TEACHER))
            for role in (0, 1)
        ]
        name = f"{samples:,} x {classes}, {votes}"
        print(f"{name:>26} {shape.sizes[0]:9,} {shape.sizes[1]:10,} {made:9.3f} {seen[0]:8.3f} {seen[1]:8.3f}")
    page = PageShape(1000, 10, 1)
    kept = [bytes([k]) * 32 for k in range(250)], [np.zeros(page.entries, np.uint32).tobytes()] * 250
    for role in (0, 1):
        whole = least(lambda role=role: to_ring(role, add_up(role, kept[role], page), 12), 10)
        print(f"250 ballots of 1,000 x 10 added up and brought into the ring by S{role}: {whole:.2f} ms")


def encodings() -> None:
    """The same engine on numbers of 0 ... m; on their bits, with those of what is left of m; on m one-hot rows."""
    rng, seeds = np.random.default_rng(1), (Seed.random(), Seed.random())
    print(f"kernel: {kernel_in_use()}; 1,000 samples")
    print(f"{'classes, votes':>15} {'encoding':>14} {'upload':>10} {'cast ms':>9} {'examine ms':>11}")
    for classes in (2, 10):
        for votes in (10, 31, 50):
            ways = {
                "numbers": PageShape(1000, classes, votes),
                "bits": PageShape(1000, (classes + 1) * votes.bit_length(), 1),
                "one-hot rows": PageShape(1000 * votes, classes, 1),
            }
            for way, shape in ways.items():
                x = rng.integers(0, 2, shape.entries).astype(np.uint32)
                made = least(lambda x=x, shape=shape: share(x, shape, b"", *seeds), 3)
                part = memoryview(share(x, shape, b"", *seeds)[2])
                seen = least(lambda part=part, shape=shape: examine_page(1, part, shape, b""), 5)
                print(f"{f'{classes}, {votes}':>15} {way:>14} {sum(shape.sizes):10,} {made:9.1f} {seen:11.2f}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("what", nargs="?", choices=["ballots", "encodings"], default="ballots")
    encodings() if arguments.parse_args().what == "encodings" else whole_ballots()
