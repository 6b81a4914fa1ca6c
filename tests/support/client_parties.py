"""Teachers and requesters of a test, and a job that they have voted on."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import numpy as np

from sedml.service.client import AsyncRequester, AsyncTeacher, Requester, Teacher

TERMS = {
    "classes": 3,
    "threshold": 0.5,
    "epsilon": 30.0,
    "delta": 1e-5,
    "min_teachers": 3,
    "deadline": "7d",
}

VOTES = np.arange(50) % 3
"""The class of each sample of the data file."""


class Parties:
    """Teachers and requesters, either the blocking or the asynchronous ones, called the same way."""

    def __init__(self, kits, blocking: bool) -> None:
        self.kits, self.blocking = kits, blocking

    def teacher(self, number: int, method: str, *args, **kwargs):
        return self._call(Teacher, AsyncTeacher, self.kits / f"teacher-{number:03}", method, args, kwargs)

    def requester(self, method: str, *args, number: int = 1, **kwargs):
        return self._call(Requester, AsyncRequester, self.kits / f"requester-{number}", method, args, kwargs)

    def create(self, data, **changes):
        return self.requester("create", data, **TERMS | changes)

    def _call(self, blocking, asynchronous, kit, method, args, kwargs):
        if self.blocking:
            return getattr(blocking(kit), method)(*args, **kwargs)

        async def call():
            return await getattr(asynchronous(kit), method)(*args, **kwargs)

        return anyio.run(call)


class Model:
    """Knows the class from the first column."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def predict(self, samples: np.ndarray) -> np.ndarray:
        self.batches.append(len(samples))
        return samples[:, 0]


class Job:
    """A job with the votes of some teachers in."""

    def __init__(self, parties: Parties, data, teachers: int = 4, **changes) -> None:
        self.id = parties.create(data, **changes).id
        self.votes = np.array([self.votes_of(number) for number in range(1, teachers + 1)])
        for number, row in enumerate(self.votes, 1):
            parties.teacher(number, "vote", self.id, row)

    @staticmethod
    def votes_of(number: int) -> np.ndarray:
        """Three of four agree on the class of the data file; the fourth always says 2, or abstains."""
        return VOTES if number < 4 else np.where(np.arange(50) < 25, 2, -1)


def records(kits: Path) -> dict[str, dict]:
    """What requester-1 keeps of the jobs that it creates, by job."""
    return {path.stem: json.loads(path.read_text()) for path in (kits / "requester-1" / "jobs").glob("*.json")}
