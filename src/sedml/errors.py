"""Every exception that SEDML raises on purpose, in one tree.

Each carries *what* happened and what to *do* about it, and never a share, a vote, a noise value or a seed:
an error message may end up in a log that the other operator reads.
"""

from __future__ import annotations

__all__ = [
    "BudgetExceededError",
    "ChannelError",
    "CorrectionsError",
    "CorrelationError",
    "CorrelationReusedError",
    "FileFormatError",
    "FrameMismatchError",
    "InputError",
    "LedgerError",
    "PeerGoneError",
    "PeerIdentityError",
    "PeerTimeoutError",
    "PredictionsError",
    "PrivacyError",
    "RingError",
    "SedmlError",
    "ShareError",
    "TaskError",
]


class SedmlError(Exception):
    """The root of the tree: catch this to catch everything SEDML raises on purpose."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(f"{what} {do}")
        self.what = what
        self.do = do

    def __reduce__(self) -> tuple[type[SedmlError], tuple[str, str]]:
        return type(self), (self.what, self.do)


class InputError(SedmlError, ValueError):
    """Something the caller passed in cannot be used."""


class PredictionsError(InputError):
    """The teachers' predictions have the wrong shape, type or range."""


class TaskError(InputError):
    """The terms of a task make no sense: classes, samples, threshold, sigma, protocol."""


class RingError(TaskError):
    """The numbers of a task do not fit the widest ring, or the one that was asked for."""


class FileFormatError(InputError):
    """A file is missing, damaged, or not of a kind SEDML reads."""


class ShareError(SedmlError):
    """A secret share is truncated, too long, or belongs to something else."""


class CorrelationError(SedmlError):
    """The dealer's one-use randomness cannot be used."""


class CorrelationReusedError(CorrelationError):
    """A piece of one-use randomness was asked for a second time."""


class CorrectionsError(CorrelationError):
    """The corrections that the dealer sent to S1 do not have the size the task needs."""


class ChannelError(SedmlError):
    """The two servers cannot talk to each other."""


class FrameMismatchError(ChannelError):
    """The peer is at another task, block or step: going on would compute garbage."""


class PeerGoneError(ChannelError):
    """The peer closed the connection in the middle of the protocol."""


class PeerTimeoutError(ChannelError):
    """The peer has not answered within the set time-out."""


class PeerIdentityError(ChannelError):
    """The party on the other end of the connection is not the expected server."""


class PrivacyError(SedmlError):
    """A privacy guarantee cannot be given."""


class BudgetExceededError(PrivacyError):
    """The job would spend more privacy than the teachers' budget has left; nothing was opened."""


class LedgerError(SedmlError):
    """The privacy ledger cannot be read or written."""
