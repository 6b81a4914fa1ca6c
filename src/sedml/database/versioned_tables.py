"""A set of tables with a version, and what to say when something is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sqlalchemy as sa

from sedml.errors import SedmlError


@dataclass(frozen=True)
class Schema:
    """Tables of one kind, their version, and what to say when something is wrong with them."""

    name: str
    tables: sa.MetaData
    version: int
    error: type[SedmlError]
    again: str
    """What repeating a call that failed does."""
    restore: str
    """What to do about a damaged database."""
    older: str
    """What to do about a version that no migration leads on from."""
    migrations: Mapping[int, Callable[[sa.Connection], None]] = field(default_factory=dict)
    """The change from version n to n + 1."""

    @property
    def versions(self) -> sa.Table:
        """The table that holds the version, one of `tables`."""
        return self.tables.tables[f"sedml_{self.name}_version"]

    def damaged(self, what: str) -> SedmlError:
        """What the tables say cannot be."""
        return self.error(f"The {self.name} is damaged: {what}.", self.restore)
