"""Everything the paper reports, measured again and set next to its own numbers: `sedml reproduce all`.

An item is a function of the settings that hands back rows for tables, what its charts show, and the words between
them. The modules, in the order they depend on each other: `published` (the paper's numbers), `scale` (how large a run
is), `drawing` (the one place that draws), `results` (what an item hands back, its files and the page), `measuring`,
`vote_data`, `labelling`, `students`, `sweep` (their tools); the items: `phases`, `scaling`, `accuracy`; and `items`,
which has their names and runs them.
"""

from __future__ import annotations

__all__: list[str] = []
