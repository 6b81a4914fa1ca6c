"""Everything the paper reports, measured again and set next to its own numbers: `sedml reproduce all`.

The modules, in the order they depend on each other: `paper` (its numbers), `settings` (how large a run is), `result`
(what an item hands back), `drawing`, `measuring`, `votes`, `labelling`, `students`, `points`, `laws` (their tools);
one module to an item: `table1`, `table2`, `scaling`, `accuracy`, `threshold`, `homomorphic`, `peers`, `growth`, two of
them with their pictures apart; then `items` (the registry), `machine`, `page`, `running`.

Nothing is imported here: a machine with torch and numpy alone can use `students`.
"""

from __future__ import annotations

__all__: list[str] = []
