"""Write the test vectors of ballots anew, after a change of their format: `python tools/ballot_vectors.py`."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from sedml.protocol.ballots import BallotShape

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "protocol")]
tests = import_module("test_ballots")


def bad(why: str, shape: BallotShape, halves: tuple[bytes, bytes]) -> dict:
    """One that a server must not take, or that gets two names."""
    sizes = {"samples": shape.samples, "classes": shape.classes, "votes_of_a_teacher": shape.votes}
    names = tests.named_or_refused(shape, halves)
    return {"why": why, **sizes, "halves": [half.hex() for half in halves], "names": names}


def main() -> None:
    """Good ones and bad ones."""
    shape, rows = BallotShape(4, 3), np.eye(3, dtype=np.int64)[[0, 1, 2, 0]]
    two, double, less = rows.copy(), rows.copy(), rows.copy()
    two[1, 0], double[1, 1], less[1, 1] = 1, 2, -1
    right = tests.wrong_halves(shape, rows)
    other = tests.wrong_halves(shape, rows, 7)
    large = right[1][:-4] + b"\xff" * 4
    document = {
        "good": [tests.vector(1, 2, 1, 1), tests.vector(4, 3, 1, 2), tests.vector(3, 2, 3, 3)],
        "bad": [
            bad("two votes on a sample", shape, tests.wrong_halves(shape, two)),
            bad("a vote that counts twice", shape, tests.wrong_halves(shape, double)),
            bad("a vote that counts -1", shape, tests.wrong_halves(shape, less)),
            bad("halves of two ballots", shape, (right[0], other[1])),
            bad("a number that is not below p", shape, (right[0], large)),
            bad("a half that was cut short", shape, (right[0], right[1][:-4])),
        ],
    }
    (TESTS / "protocol" / "vectors" / "ballots.json").write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
