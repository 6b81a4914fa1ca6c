"""What a server sees of garbled circuits: as in `made_viewing`, and the labels that it has of every AND gate.

Labels must not only look random. Whoever has both labels of a wire, or two labels or table rows that differ by Delta,
knows Delta and with it every value; so of all 16-byte blocks that a server sees, no two may be equal or Delta apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pytest

from sedml.lab.semi_honest import half_gates
from support.made_viewing import MadeScene, _own
from support.semi_honest import MadeRun
from support.viewing import LeakError

__all__ = ["GarbledScene", "assert_apart"]


@dataclass(frozen=True)
class GarbledScene(MadeScene):
    """A job of one block with fixed shares and no noise."""

    def run(self, seed0: int, seed1: int) -> MadeRun:
        evaluate, garble = half_gates.Evaluator.evaluate, half_gates.Garbler.garble

        def noted(side, inputs, tweak, tables):
            rows = tables.copy()
            found = evaluate(side, inputs, tweak, tables)
            outputs = [side.wires[gate.out] for layer in side.circuit.layers for gate in layer.ands]
            _own.found.append((np.concatenate(outputs).copy(), inputs.copy(), rows, half_gates.colours(found[1:])))
            return found

        deltas = {}

        def known(side, *arguments):
            deltas[side._delta.tobytes()] = side._delta
            return garble(side, *arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(half_gates.Evaluator, "evaluate", noted)
            patch.setattr(half_gates.Garbler, "garble", known)
            run = super().run(seed0, seed1)
        run.deltas = list(deltas.values())
        return run

    def opened(self, run: MadeRun, role: int) -> list[tuple[str, np.ndarray]]:
        """What was opened, the labels of the ANDs that this server evaluated, and its shares of the index."""
        party = run.parties[role]
        values = [(step, layout.to_wire(value)) for step, layout, value in party.opened]
        for labels, _, _, index in party.found:
            values.append(("ands", labels.reshape(-1).view(np.uint8)))
            values.append(("index", index.reshape(-1) == 1))
        return values

    def blocks(self, run: MadeRun, role: int) -> np.ndarray:
        """All 16-byte blocks that this server has of circuits that the other one garbled, uint64[n, 2]."""
        parts = [part.reshape(-1, 2) for found in run.parties[role].found for part in found[:3]]
        return np.concatenate(parts)


def assert_apart(blocks: np.ndarray, deltas: Iterable[np.ndarray]) -> None:
    """No two of them are equal, or differ by a Delta."""
    rows = blocks[(blocks != 0).any(axis=1)]
    if len(rows) != len(blocks) or len(np.unique(rows, axis=0)) != len(rows):
        raise LeakError("a label or a row of a table is there twice")
    for delta in deltas:
        both = np.concatenate([rows, rows ^ delta])
        if len(np.unique(both, axis=0)) != len(both):
            raise LeakError("two labels or rows of tables differ by Delta")
