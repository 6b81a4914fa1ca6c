"""What a server sees over many runs, as in `viewing`: what was made before the votes as well.

Everything that the server knows beforehand is the same in every run: its seeds, its places in the other's trees, its
coins, its shares of the counts, and the votes themselves. The other's seeds, places and coins differ.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from sedml.lab.semi_honest.fused import duels
from sedml.lab.semi_honest.gadgets import millionaires
from sedml.lab.semi_honest.gadgets.choose import Choice
from sedml.lab.semi_honest.lookup import halves, pick
from sedml.lab.semi_honest.recipe import Recipes
from sedml.lab.semi_honest.semi_honest_block import recipes, run_block
from sedml.mpc.sharing import Additive, Field
from support.harness import Tap, fixed_seed, split_ring
from support.made import extensions, trusted_trees
from support.semi_honest import MadeRun, fixed_noises, revealed, run_made, zero_parts
from support.viewing import TOLD, Scene, assert_uncorrelated, assert_uniform, stack

_own = threading.local()
_PROOF = 48  # bytes of L(u) and the digest, behind the corrections
_MOST = 1024  # bits of a message that are compared with all other bits: there are a hundred thousand


@dataclass(frozen=True)
class MadeScene(Scene):
    """A job of one block with fixed shares and no noise; `plant` may tamper with a server's pieces."""

    alter: Callable[[Recipes], Recipes] = dict
    """May tamper with what is made."""

    def run(self, seed0: int, seed1: int) -> MadeRun:
        task, own = self.task, split_ring(self.counts, self.task.widths.counts, 21)
        noises, want = fixed_noises(task, self.counts, zero_parts(task.classes, task.samples))

        def side(party):
            _own.found = []
            share = run_block(party, task, lambda: own[party.role], noises[party.role], fixed_seed(300))
            return share, _own.found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(millionaires, "pick", _noted)
            run = run_made(
                self.alter(recipes(task, task.samples)),
                side,
                ends=extensions(b"view", trusted_trees(seed0, seed1)),
                keys=(seed0, seed1),
                plant=self.plant,
            )
        for party, (_, found) in zip(run.parties, run.shares, strict=True):
            party.found = found
        run.shares = tuple(share for share, _ in run.shares)
        assert (revealed(task, run) == want).all()  # a leak must not be noticed by a wrong answer
        return run

    def messages(self, run: MadeRun, role: int) -> list[tuple[str, np.ndarray]]:
        """All that a server received, offline and online."""
        came = []
        for tap in (run.offline[role], run.parties[role].channel):
            for (_, step), part in zip(tap.steps, tap.received, strict=True):
                if step == "ot/extend":
                    came += [("corrections", part[:-_PROOF]), ("proof", part[-_PROOF:])]
                elif step.endswith("/sum"):
                    # Where the strings are equal it is the sum that the receiver has itself: that is t, and public.
                    differs = halves(role, run.shares[role].consensus)[1]
                    if differs.any():
                        came.append((step, part.reshape(len(differs), -1)[differs].reshape(-1)))
                else:
                    came.append((step, part))
        return came

    def opened(self, run: MadeRun, role: int) -> list[tuple[str, np.ndarray]]:
        """All that both servers came to know, and the entries that this one found in tables."""
        party = run.parties[role]
        passed = int(run.shares[role].consensus.sum())
        values = [(step, layout.to_wire(value)) for step, layout, value in party.opened]
        values += self._swapped(party.channel, passed)
        return values + [(f"found/{number}", bits.reshape(-1) == 1) for number, bits in enumerate(party.found)]

    def _swapped(self, tap: Tap, passed: int) -> Iterator[tuple[str, np.ndarray]]:
        specs = duels(Choice, self.task, passed)
        for (_, step), sent, received in zip(tap.steps, tap.sent, tap.received, strict=True):
            if re.search(r"/(flip|and\d+)$", step):
                yield step, sent ^ received
            elif masked := re.fullmatch(r"label/(\d+)/ask", step):
                # The masked differences go along, ahead of what is asked.
                start = 0
                for layout in _differences(specs[int(masked[1])]):
                    here = slice(start, start + layout.wire_bytes)
                    mine, theirs = layout.from_wire(sent[here]), layout.from_wire(received[here])
                    yield f"{step}/{start}", layout.to_wire(layout.combine(mine, theirs))
                    start = here.stop
            else:
                # Whoever adds a step says here what both learn from it.
                assert step == TOLD or step.endswith(("/ask", "/answer", "/sum")), step


def _noted(spec, *arguments):
    found = pick(spec, *arguments)
    _own.found.append(found)
    return found


def _differences(spec: Choice) -> list[Field]:
    values = [Additive(spec.shape, spec.width)] if spec.value else []
    return values + ([Additive(spec.shape, spec.index_width)] if spec.secret_index else [])


def watch_made(scene: MadeScene, role: int, runs: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The messages that server `role` received, and the values that it learned, over so many runs."""
    seen = [scene.run(*((1, 5000 + number) if role == 0 else (5000 + number, 2))) for number in range(runs)]
    return stack([scene.messages(run, role) for run in seen]), stack([scene.opened(run, role) for run in seen])


def assert_nothing_leaks(scene: MadeScene, role: int, runs: int) -> None:
    """The whole test of one server's view."""
    received, opened = watch_made(scene, role, runs)
    for view in (received, opened):
        assert_uniform(view)
        # An odd step, so that all bits of a byte get their turn.
        assert_uncorrelated({name: bits[:, :: bits.shape[1] // _MOST | 1] for name, bits in view.items()})
