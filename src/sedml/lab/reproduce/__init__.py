"""Everything the paper reports, measured again and set next to its own numbers: `sedml reproduce all`.

The modules, in the order they depend on each other: `published` (the paper's numbers), `students`, `scale` (how large a
run is), `item_result` (what an item hands back), `drawing`, `measuring`, `phases`, `vote_data`, `labelling`, `points`,
`sweep`, `point_tables`, `cost_model` (their tools); one module per item: `table1`, `table2`, `scaling`, `accuracy`,
`threshold`, `homomorphic`, `peers`, `growth`, two of them with their pictures apart; then `items` (the registry),
`machine`, `results_page`, `running`.

Nothing is imported here: a machine that has only torch and numpy can use `students`.
"""

from __future__ import annotations

__all__: list[str] = []
