"""An organisation's own data, split by unit (patient, customer) into parts that have no unit in common; a model a part.

One unit then moves one vote of the organisation, whose models cast as many votes as there are parts.

In the order they depend on each other: `unit_ids`, `part_files`, `part_manifest`, `sharding`, `checking`;
`part_models`, `part_votes`; `classifiers`, `table_encoder` and `training`, which need scikit-learn.
"""

from sedml.parts.checking import check_parts
from sedml.parts.part_manifest import Parts
from sedml.parts.sharding import shard

__all__ = ["Parts", "check_parts", "shard"]
