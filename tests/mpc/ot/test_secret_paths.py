"""Which lines run while transfers are set up does not depend on choice bits, nor on Delta, which follows from them."""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from sedml.mpc.ot import base_ot, trees
from support.lockstep import play
from support.made import share_trees


def path_of(work: Callable[[], object]) -> list[tuple[str, int]]:
    """The lines of both modules that it runs, in their order."""
    lines: list[tuple[str, int]] = []
    here = {base_ot.__file__, trees.__file__}

    def trace(frame, event, _):
        if frame.f_code.co_filename not in here:
            return None
        if event == "line":
            lines.append((frame.f_code.co_filename, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def test_the_lines_are_the_same_whatever_is_chosen():
    paths, chosen = [], []
    for keys in ((1, 2), (3, 4)):
        made = []

        def work(keys=keys, made=made) -> None:
            bases = play(base_ot.base_ots(0), base_ot.base_ots(1), keys=keys).results
            made.extend(bases)
            play(*map(share_trees, bases), keys=keys)

        paths.append(path_of(work))
        chosen.append(made[0].choices)
    assert not np.array_equal(*chosen)
    assert len(paths[0]) > 1000
    assert paths[0] == paths[1]
