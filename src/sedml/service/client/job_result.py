"""What a requester has of a finished job: its labels, what they cost, how long it took."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sedml.privacy.accounting import PrivacyReport
from sedml.protocol.class_names import named
from sedml.protocol.votes import NO_CONSENSUS
from sedml.service.client.views import JobView

if TYPE_CHECKING:
    from sedml.protocol.task import Task


@dataclass(frozen=True)
class JobSeconds:
    """How long the steps of a job took, as the requester saw it."""

    closing: float
    """How long both servers took to agree on the teachers."""
    aggregating: float
    """How long it then took until both servers were done."""
    fetching: float

    @property
    def total(self) -> float:
        """All steps together."""
        return self.closing + self.aggregating + self.fetching


@dataclass(frozen=True)
class JobResult:
    """A finished job: labels int64[Q], -1 where there was no consensus."""

    job: JobView
    task: Task
    labels: npt.NDArray[np.int64]
    seconds: JobSeconds
    privacy: PrivacyReport
    """What the job costs the teachers."""
    ids: list[str] | None = field(default=None, repr=False)
    """What the samples are called, if the data says so."""

    def __repr__(self) -> str:
        found = f"teachers={self.task.teachers}, answered={self.answered} of {self.task.samples}"
        return f"JobResult({self.job.id!r}, {found}, epsilon={self.epsilon:.4g}, delta={self.delta:g})"

    @property
    def answered(self) -> int:
        """How many samples have a label."""
        return int((self.labels != NO_CONSENSUS).sum())

    @property
    def names(self) -> list[str | None]:
        """The class of each sample by its name, or its id if it has none; None where there was no consensus."""
        return named(self.labels, self.job.terms.class_names or [str(number) for number in range(self.task.classes)])

    @property
    def epsilon(self) -> float:
        """What the job costs a teacher."""
        return self.privacy.epsilon

    @property
    def delta(self) -> float:
        """The small probability with which epsilon may fail to hold."""
        return self.privacy.delta
