"""What the labels of a job can be worth at best, said before anybody votes on it.

Nothing is assumed of the data: if all teachers agree on every sample, and are right, the noise alone decides how many
labels there are and how many of them are right. No votes give better labels than these, so where even these are bad,
the job is not worth its epsilon.
"""

from __future__ import annotations

import numpy as np

from sedml.errors import counted
from sedml.privacy.utility import Utility, public_votes, utility
from sedml.protocol.thresholds import read_threshold, threshold_count
from sedml.service.terms import Terms

_RIGHT = 0.9
"""The share of right labels below which a job is doubted."""
_LABELLED = 0.5
"""The share of samples with a label below which a job is doubted."""
_MOST_TEACHERS = 10**6


def if_all_agree(terms: Terms, teachers: int) -> Utility:
    """What the job brings, for one sample, if so many teachers all vote for the right class."""
    counts = np.zeros((1, terms.classes), np.int64)
    counts[0, 0] = teachers * terms.votes
    threshold = threshold_count(terms.threshold, teachers * terms.votes)
    return utility(public_votes(counts), 1, threshold, terms.sigma, terms.epsilon)


def doubts(terms: Terms, enrolled: int | None) -> list[tuple[str, str]]:
    """What speaks against a job, and what to do; `enrolled` is how many teachers there are, if that is known."""
    found = []
    if terms.min_teachers == 1:
        found.append(
            (
                "The job may run on the votes of a single teacher: its labels would be that teacher's, hidden by noise "
                "alone.",
                "Ask for more with min_teachers.",
            )
        )
    if enrolled is not None and enrolled < terms.min_teachers:
        found.append(
            (
                f"The job needs the votes of {counted(terms.min_teachers, 'teacher')}, and {_enrolled(enrolled)}: "
                "it cannot run until there are more.",
                "Lower min_teachers, or have more teachers enrolled.",
            )
        )
    teachers = max(terms.min_teachers, enrolled or 0)
    threshold = read_threshold(terms.threshold)
    if isinstance(threshold, int) and threshold > terms.min_teachers * terms.votes:
        found.append(
            (
                f"The threshold is {threshold:,} votes, and the job may run with {terms.min_teachers * terms.votes:,}: "
                "only noise would reach it then.",
                "Lower the threshold, or raise min_teachers.",
            )
        )
    return found + _noise_doubts(terms, teachers)


def _noise_doubts(terms: Terms, teachers: int) -> list[tuple[str, str]]:
    best = if_all_agree(terms, teachers)
    agreed = "the only teacher was right" if teachers == 1 else f"all {teachers:,} teachers agreed"
    if best.accuracy < _RIGHT:
        what = (
            f"At most {best.accuracy:.0%} of the labels would be right, even if {agreed}: "
            f"the noise (sigma {terms.sigma:g}) is too large for so few votes."
        )
        more = " more votes of each, as of a model for each part of its data," if terms.votes == 1 else ""
        do = (
            f"{_enough(terms, teachers)},{more} a larger epsilon or fewer samples would help; see `sedml privacy plan`."
        )
        return [(what, do)]
    if best.answered < _LABELLED:
        what = (
            f"At most {best.answered:.0%} of the samples would get a label, even if {agreed}: "
            f"too few votes pass the threshold {terms.threshold} with this noise (sigma {terms.sigma:g})."
        )
        return [(what, "A lower threshold, more teachers, a larger epsilon or fewer samples would help.")]
    return []


def _enough(terms: Terms, teachers: int) -> str:
    """How many teachers it takes, as the beginning of a sentence."""
    low, high = teachers, 2 * teachers
    while if_all_agree(terms, high).accuracy < _RIGHT:
        low, high = high, 2 * high
        if high > _MOST_TEACHERS:
            return "Many more teachers"
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if if_all_agree(terms, middle).accuracy < _RIGHT else (low, middle)
    return f"About {high:,} teachers"


def _enrolled(count: int) -> str:
    return "1 is enrolled" if count == 1 else f"{count:,} are enrolled"
