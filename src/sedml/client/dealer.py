"""An independent dealer: deals for the jobs whose terms name it, and learns nothing but that there are such jobs."""

from __future__ import annotations

from typing import ClassVar

from sedml.client.dealing import deal_task
from sedml.client.party import AsyncParty, Tell, look, silent, wait_for
from sedml.client.revealing import agreed_task
from sedml.client.views import JobView
from sedml.messages import Role

__all__ = ["AsyncDealer"]

_LAST_PAUSE = 5.0
"""Seconds between two looks at a vote that goes on for days."""


class AsyncDealer(AsyncParty):
    """A dealer: `await AsyncDealer("kits/dealer-1").deal(job)`."""

    role: ClassVar[Role | None] = "dealer"

    async def deal(self, job_id: str, progress: Tell | None = None) -> JobView:
        """Wait until both servers agree on who voted, and send each what it needs; again, the same bytes."""
        tell = progress or silent
        tell("waiting for the end of the vote", 0, 1)
        async with self._servers() as pair:
            view, task = await wait_for(pair, job_id, agreed_task, _LAST_PAUSE)
            tell("waiting for the end of the vote", 1, 1)
            await deal_task(pair, view, task, self.kit.secret, tell)
            return (await look(pair, job_id))[0]
