"""Whom epsilon protects, and how many votes one of them can move: the unit of protection.

Four things are counted. An *organisation* casts one *ballot* on a job. A ballot has up to m *votes* on every sample,
one of each of the parts into which the organisation has split its data. A *unit* is what is protected: the
organisation, all of whose votes may change; or a patient, a customer, a record, whose data is in at most g parts (the
`spread`), so that the votes of no other part can depend on it. Parts of all organisations count together: whoever is a
patient of two hospitals moves a vote in each.

That parts overlap no more than is said is the organisation's promise to those whose data it holds, and nobody else can
check it: `sedml shard` keeps it, and `sedml shard --check` finds where it is broken.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from numbers import Integral

from sedml.errors import TaskError

ORGANISATION = "organisation"
UNIT_NAME = r"^[a-z]{1,31}([ -][a-z]{1,31}){0,2}$"
"""A word or two in small letters, as they stand in a sentence: "protects each patient"."""
_ORGANISATIONS = re.compile(
    r"(organi[sz]ation|teacher|hospital|clinic|bank|company|site|institution|institute|member)s?"
)
"""Whoever writes one of these means the organisation, and would be promised what a single vote costs."""
MAX_VOTES = 64
"""Votes that one organisation may have on a sample."""
NO_PROTECTION = 10.0
"""An epsilon from which on people are told that it protects nobody: e^10 is 22,000 to one."""


@dataclass(frozen=True)
class Unit:
    """Who is protected, by how many votes of an organisation on a sample, of which one unit moves `moves` at most."""

    name: str = ORGANISATION
    votes: int = 1
    spread: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(UNIT_NAME, self.name):
            raise TaskError(
                "The unit of protection is not a word in small letters.", "Use organisation, patient, customer, ..."
            )
        if self.name != ORGANISATION and _ORGANISATIONS.fullmatch(self.name):
            raise TaskError(
                f'"{self.name}" as the unit of protection can be taken for the organisation.',
                f"Write {ORGANISATION} to protect all its votes, or name those whose data it holds, such as patient.",
            )
        for name in ("votes", "spread"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= int(value) <= MAX_VOTES:
                raise TaskError(f"{name} must be a whole number from 1 to {MAX_VOTES}.", f"Set {name}.")
            object.__setattr__(self, name, int(value))
        if self.name == ORGANISATION and self.spread > 1:
            raise TaskError(
                "A spread was given, and it is organisations that are protected, with all their parts.",
                "Leave it out, or name the unit whose data may be in several parts, such as patient.",
            )

    @property
    def moves(self) -> int:
        """Votes on a sample that can change with one unit's data."""
        return self.votes if self.name == ORGANISATION else self.spread

    def moves_of(self, unit: str) -> int:
        """The same for a unit of another name: of one that it does not protect, all votes may depend on it."""
        return self.moves if unit == self.name else max(self.votes, self.spread)

    def promise(self, epsilon: float, epsilon_organisation: float, your: str = "your", yours: str = "yours") -> str:
        """Who is protected, and who is not, as a sentence: for a teacher, unless its parts are called otherwise."""
        if self.name == ORGANISATION:
            having = f"with all its {self.votes} votes on a sample" if self.votes > 1 else "with all its votes"
            return f"Protects each organisation, {having}: epsilon {judged(epsilon)}."
        return (
            f"Protects each {self.name}, whose data is {self.whereabouts(your, yours)}: epsilon {judged(epsilon)}. "
            f"The organisation as a whole: epsilon {judged(epsilon_organisation)}."
        )

    def whereabouts(self, your: str, yours: str) -> str:
        """In which parts the data of one unit may be; `your` and `yours` say whose parts they are."""
        if self.spread > 1:
            return f"in at most {self.spread} parts, {yours} ({self.votes}) and other organisations' together"
        parts = f"{self.votes} parts" if self.votes > 1 else "part"
        return f"in at most 1 of {your} {parts} and in no other organisation's"


def judged(epsilon: float) -> str:
    """A figure, and that it protects nobody where that is so."""
    shown = f"{epsilon:.3g}" if math.isfinite(epsilon) else "without limit"
    return f"{shown}, in effect none" if epsilon >= NO_PROTECTION else shown
