"""Every exception that SEDML raises on purpose, in one tree, and the warning it gives.

Each carries *what* happened and what to *do* about it, and never a share, a vote, a noise value or a seed:
an error message may end up in a log that the other operator reads. A class also says what it means for whoever catches
it: `passing` errors are worth a retry, `ends_job` errors must not be retried.
"""

from __future__ import annotations

import sys
import warnings
from typing import ClassVar


class SedmlError(Exception):
    """The root of the tree: catch this to catch everything SEDML raises on purpose."""

    passing: ClassVar[bool] = False
    """The same call may succeed later, unchanged."""
    ends_job: ClassVar[bool] = False
    """A job in which a server meets this is over: going on, or trying again, could reveal shares."""
    field: str | None = None
    """Which entry of a form it is about, where somebody fills one in."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(f"{what} {do}")
        self.what = what
        self.do = do

    def __reduce__(self) -> tuple[type[SedmlError], tuple[str, str]]:
        return type(self), (self.what, self.do)


class SedmlWarning(UserWarning):
    """What was asked for is done, and is probably not what was meant; says what and do, like an error."""

    def __init__(self, what: str, do: str) -> None:
        super().__init__(f"{what} {do}")
        self.what = what
        self.do = do

    def __reduce__(self) -> tuple[type[SedmlWarning], tuple[str, str]]:
        return type(self), (self.what, self.do)


def warn(what: str, do: str) -> None:
    """Warn the caller of this package, whoever in it noticed."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "sedml":
        frame, level = frame.f_back, level + 1
    warnings.warn(SedmlWarning(what, do), stacklevel=level)


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


class PartsError(InputError):
    """Parts of an organisation's data have units in common, or are not as they were made."""


class MissingExtraError(InputError, ImportError):
    """An optional part of SEDML is needed here, and a library of it is not installed."""


class BallotError(InputError):
    """A ballot, or a server's half of one, is not what a ballot of its shape can be."""


class ShareError(SedmlError):
    """A secret share is truncated, too long, or belongs to something else."""

    ends_job = True


class CorrelationError(SedmlError):
    """One-use randomness cannot be used."""

    ends_job = True


class CorrelationReusedError(CorrelationError):
    """A piece of one-use randomness was asked for a second time."""


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


class CheatingError(SedmlError):
    """The other server deviates from the protocol, and was caught."""

    ends_job = True


class WorkerGoneError(SedmlError):
    """A process or a machine that worked on a block is gone; another attempt is made at it."""


class PrivacyError(SedmlError):
    """A privacy guarantee cannot be given."""


class BudgetExceededError(PrivacyError):
    """The job would spend more privacy than the teachers' budget has left; nothing was opened."""

    field = "epsilon"


class OtherCohortError(PrivacyError):
    """The teacher belongs to another cohort than the one that the job is charged to."""


class LedgerError(SedmlError):
    """The privacy ledger cannot be read or written."""

    passing = True


class StoreError(SedmlError):
    """A server's database cannot be read or written."""

    passing = True


class LogError(SedmlError):
    """A server's log lacks what must be in it, or is not what it was: somebody may be shown another one."""


class NotCosignedError(LogError):
    """The other server has not cosigned the log as far as it must before this can be done."""

    passing = True


class KitError(InputError):
    """A party's folder of credentials is missing something, damaged, or of another kind than needed."""


class AccessError(SedmlError):
    """Whoever calls a server may not do this."""


class MissingTokenError(AccessError):
    """No bearer token came with the request."""


class InvalidTokenError(AccessError):
    """The token is none that this server knows."""


class RevokedError(AccessError):
    """The account of this token was revoked by the operator."""


class ForbiddenError(AccessError):
    """The token is good, and its role or name may not do this."""


class RequestError(SedmlError):
    """A request to a server cannot be taken."""


class MalformedRequestError(RequestError):
    """The request is not one of the interface, or its parts do not fit."""


class BodyTooLargeError(RequestError):
    """The body is longer than what is expected here; it was cut off."""


class BodyTruncatedError(RequestError):
    """The body ended before all of it had come, or is shorter than it must be."""


class RequestTimeoutError(RequestError):
    """The client was too slow to send its request."""


class RateLimitedError(RequestError):
    """Too many requests in a short time."""

    passing = True


class JobError(SedmlError):
    """Something that a job does not admit."""


class NotFoundError(JobError):
    """There is no such job, ballot, block or account here, or the caller may not see it."""


class TermsMismatchError(JobError):
    """The terms do not have the hash that they are called by, or differ between the servers."""


class ConflictError(JobError):
    """Other bytes are on record under the same name; those stand."""


class JobStateError(JobError):
    """The job is not in a state in which this can be done."""


class DeadlineError(JobStateError):
    """The time for voting is over."""


class NoRoomError(JobError):
    """A server takes no more jobs or public data, of this requester or at all."""


class NoRoomForVotesError(NoRoomError):
    """The disk of a server is too full for votes; nothing was written."""

    passing = True


class TooFewTeachersError(JobError):
    """Fewer teachers took part than the terms ask for; nothing was opened."""


class ReplayError(JobError):
    """A job cannot go on from where a server's records have it, as after a restored backup."""

    ends_job = True


class AttemptsError(JobError):
    """The blocks of a job broke off so often that no more attempts are made at them."""

    ends_job = True


class ServerError(SedmlError):
    """A server answered with an error of its own, or not as this release expects."""

    passing = True


class UnreachableError(ServerError):
    """A server cannot be reached."""


class ServerIdentityError(ServerError):
    """What answers at a server's address cannot prove that it is that server."""


def counted(number: int, thing: str) -> str:
    """How many of something, as people say it: 1 teacher, 2 teachers, 2 classes."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}{'es' if thing.endswith('s') else 's'}"


def printable(text: str) -> str:
    """What somebody else wrote, with blanks in place of what a terminal would obey and not show."""
    return "".join(one if one.isprintable() else " " for one in text)
