"""Histories one after another, on pairs of servers that last as long as they are good."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty
from typing import Any, TypeAlias
from unittest.mock import patch

import stamina.instrumentation

from histories.forge import Forge
from histories.history_plan import Stage, draw, on_postgres, stage_of
from histories.one_history import WITHIN, Outcome, play
from histories.site_pair import SitePair, standing
from sedml.errors import SedmlWarning
from sedml.protocol import task
from support.live_servers import on_postgres as stores_in
from support.postgres_server import Postgres

__all__ = ["Theatre", "theatre", "work"]

_PLAYED_BY_ONE_PAIR = 20

Ray: TypeAlias = tuple[str, int] | None
"""Where a cluster of this machine is, and the process that it ends with."""


class Theatre:
    """Plays histories one after another, on the same pair of servers as long as that is good."""

    def __init__(self, folder: Path, postgres: Postgres | None, keep: Path | None = None, ray: Ray = None) -> None:
        self._folder, self._postgres, self._keep, self._ray = folder, postgres, keep, ray
        self._forge = Forge()
        self._stack = ExitStack()
        self._pair: SitePair | None = None
        self._pairs = 0

    def play(self, seed: int, within: float = WITHIN) -> Outcome:
        kind = "PostgreSQL" if on_postgres(seed) and self._postgres is not None else "SQLite"
        kind += {"alone": "", "processes": ", several processes", "Ray": ", Ray" if self._ray else ""}[stage_of(seed)]
        if self._pair is None or self._pair.kind != kind or self._pair.played >= _PLAYED_BY_ONE_PAIR:
            self._renew(kind, stage_of(seed))
        outcome = play(self._pair, seed, within)
        if self._pair.spoilt:
            if outcome.violations and self._keep is not None:
                self._save(outcome)
            self._drop()
        return outcome

    def close(self) -> None:
        self._drop()
        self._forge.close()

    def _renew(self, kind: str, stage: Stage) -> None:
        self._drop()
        self._pairs += 1
        name = f"pair_{os.getpid()}_{self._pairs}"

        def change(settings: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
            return stores_in(settings, self._postgres, name) if kind.startswith("PostgreSQL") else settings

        ray = self._ray if stage == "Ray" else None
        self._pair = self._stack.enter_context(standing(self._folder / name, self._forge, kind, change, stage, ray))

    def _drop(self) -> None:
        self._stack.close()
        self._pair = None

    def _save(self, outcome: Outcome) -> None:
        """What there is to find out from."""
        place = self._keep / f"seed-{outcome.seed}"
        place.mkdir(parents=True, exist_ok=True)
        for server in self._pair.servers:
            shutil.copy(server.log, place)
        text = "\n\n".join([*outcome.violations, *map(repr, draw(outcome.seed).troubles)])
        (place / "violations.txt").write_text(text + "\n")


@contextmanager
def theatre(postgres: Postgres | None, keep: Path | None = None, ray: Ray = None) -> Iterator[Theatre]:
    """In memory where there is such a folder: databases wait for the disk at every commit."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    # For the requesters, who fetch the labels of each block.
    small = patch.object(task, "_BLOCK_ANDS", 8)
    hooks = stamina.instrumentation.get_on_retry_hooks()
    with small, tempfile.TemporaryDirectory(prefix="sedml-histories-", dir=memory) as folder:
        stamina.instrumentation.set_on_retry_hooks([])
        made = Theatre(Path(folder), postgres, keep, ray)
        try:
            yield made
        finally:
            made.close()
            stamina.instrumentation.set_on_retry_hooks(hooks)


def work(seeds: Any, outcomes: Any, postgres: Postgres | None, keep: Path, ray: Ray) -> None:
    """Of one process: until there are no more."""
    warnings.simplefilter("ignore", SedmlWarning)  # few teachers, and much noise that the servers do not add
    with theatre(postgres, keep, ray) as made:
        while True:
            try:
                seed = seeds.get(timeout=1.0)
            except Empty:
                return
            outcomes.put(made.play(seed))
