"""The requester's side: create a job, end the vote when enough teachers have voted, and fetch the labels.

Every step can be repeated: a creation that broke off is continued from its draft in the kit, and labels can be fetched
until the servers delete them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import (
    FileFormatError,
    JobStateError,
    TooFewTeachersError,
    counted,
    warn,
)
from sedml.privacy.unit import ORGANISATION
from sedml.service.client import drafts
from sedml.service.client.arguments import check_progress
from sedml.service.client.async_client import AsyncClient, look, wait_for
from sedml.service.client.drafts import Draft
from sedml.service.client.job_result import JobResult, JobSeconds
from sedml.service.client.pair import Pair, from_both
from sedml.service.client.publishing import infos_of, publish, releases_of, samples_file
from sedml.service.client.revealing import agreed_task, fetch_labels
from sedml.service.client.samples import count_samples, fingerprint, sample_ids
from sedml.service.client.views import JobName, JobView, check_id, check_live
from sedml.service.messages import JobStatus, Role
from sedml.service.states import JobState
from sedml.service.terms import job_cost

if TYPE_CHECKING:
    from sedml.protocol.task import Task
    from sedml.service.client.request import Deadline, JobRequest


class AsyncRequester(AsyncClient):
    """A requester: `await AsyncRequester("kits/requester-1").create("public.npz", classes=10, ...)`."""

    role: ClassVar[Role | None] = "requester"

    async def create(
        self,
        data: object,
        *,
        classes: int | str | Sequence[str],
        threshold: float | str,
        epsilon: float,
        delta: float,
        min_teachers: int,
        deadline: Deadline,
        sigma: float | None = None,
        unit: str = ORGANISATION,
        votes: int = 1,
        spread: int = 1,
        title: str = "",
        cohort: str = "teachers",
        id_column: str | None = None,
        progress: Progress = silent,
    ) -> JobView:
        """Ask teachers to vote on samples: a file, an array, lists, a frame; the job's id is `.id`.

        The file is .npz or .npy, or a table (.csv, .tsv, .parquet) with a row for each sample: `id_column` has their
        ids, which the labels are then given with, and all other columns are features. `classes` says how many there
        are, or what they are called: ["benign", "malignant"].
        `threshold` is a fraction of the votes of those who take part (0.6) or a count of votes (150); `epsilon` and
        `delta` are what the job may cost at most each `unit`: a teacher with all its `votes` on a sample
        ("organisation"), or one of those whose data it holds ("patient"), in at most `spread` parts of all teachers
        together, each of which has a vote. Without a sigma, it has the least noise that keeps to that. Voting ends at
        the `deadline`: a moment, a timedelta, seconds, or "7d". If this breaks off, the same call within a day
        continues it, and so does `resume`; it never makes a second job out of one. A `SedmlWarning` says if most labels
        would be wrong or missing whatever the teachers know.
        """
        from sedml.service.client.request import JobRequest

        request = JobRequest(
            classes=classes,
            threshold=threshold,
            epsilon=epsilon,
            delta=delta,
            min_teachers=min_teachers,
            deadline=deadline,
            sigma=sigma,
            unit=unit,
            votes=votes,
            spread=spread,
            title=title,
            cohort=cohort,
            id_column=id_column,
        )
        return await self.ask(data, request, progress)

    async def ask(self, data: object, request: JobRequest, progress: Progress = silent) -> JobView:
        """Create a job, as `create` does, from a request that is there."""
        from sedml.service.client.prospects import doubts
        from sedml.service.client.request import terms_for

        check_progress(progress)
        path, own = await anyio.to_thread.run_sync(samples_file, self.kit, data, request)
        samples = await anyio.to_thread.run_sync(count_samples, path)
        known = await anyio.to_thread.run_sync(fingerprint, path, progress)
        now = datetime.now(UTC)
        terms = await anyio.to_thread.run_sync(terms_for, request, self.kit.name, samples, known, now)
        async with self._servers() as pair:
            infos = await infos_of(pair, known[0])
            terms = terms.model_copy(update={"releases": await releases_of(pair)})
            enrolled = min((info.teachers for info in infos if info.teachers is not None), default=None)
            for what, do in doubts(terms, enrolled):
                warn(what, do)
            wanted = Draft(
                terms=terms,
                data=str(path.resolve()),
                own_data=own,
                deadline=str(request.deadline),
                started=now,
            )
            draft = drafts.begin(self.kit, wanted)
            drafts.keep_ids(self.kit, draft.terms.id, await anyio.to_thread.run_sync(sample_ids, path))
            return await publish(self.kit, pair, draft, progress)

    async def resume(self, job_id: JobName, progress: Progress = silent) -> JobView:
        """Continue the creation of a job that broke off."""
        check_progress(progress)
        record = drafts.load(self.kit, check_id(job_id))
        if not record.complete:
            found = await anyio.to_thread.run_sync(fingerprint, Path(record.data), progress)
            if found != (record.terms.data_bytes, record.terms.data_sha256):
                raise FileFormatError(
                    f"{record.data} has changed since the job was begun.", "Put it back, or create another job."
                )
        async with self._servers() as pair:
            return await publish(self.kit, pair, record, progress)

    async def run(self, job_id: JobName, progress: Progress = silent) -> JobResult:
        """End the vote, wait until the servers are done, and fetch the labels.

        If it breaks off, at whatever point, the same call goes on from there.
        """
        job_id = check_id(job_id)
        check_progress(progress)
        marks = [anyio.current_time()]
        async with self._servers() as pair:
            await self._close(pair, job_id)
            await wait_for(pair, job_id, partial(_agreed, progress))
            marks.append(anyio.current_time())
            view, task = await wait_for(pair, job_id, partial(_finished, progress))
            marks.append(anyio.current_time())
            labels = await fetch_labels(pair, job_id, task, progress)
            marks.append(anyio.current_time())
        seconds = JobSeconds(*(after - before for before, after in pairwise(marks)))
        cost = await anyio.to_thread.run_sync(job_cost, view.terms)
        return JobResult(view, task, labels, seconds, privacy=cost, ids=drafts.load_ids(self.kit, job_id))

    async def sample_ids(self, job_id: JobName) -> list[str] | None:
        """What the samples of a job that was created with this kit are called; None if they are only numbered."""
        return drafts.load_ids(self.kit, check_id(job_id))

    async def labels(self, job_id: JobName, progress: Progress = silent) -> npt.NDArray[np.int64]:
        """The labels of a finished job, int64[Q], -1 where there was no consensus; as often as wanted."""
        job_id = check_id(job_id)
        check_progress(progress)
        async with self._servers() as pair:
            view, s0, s1 = await look(pair, job_id)
            check_live(view)
            task = agreed_task(s0, s1)
            if not view.done or task is None:
                raise JobStateError(
                    f"Job {job_id} is {view.state} and has no labels yet.", "`sedml job run` finishes it."
                )
            return await fetch_labels(pair, job_id, task, progress)

    async def delete(self, job_id: JobName) -> JobView:
        """Delete what both servers hold of a job: ballots, randomness, label shares and data."""
        job_id = check_id(job_id)
        async with self._servers() as pair:
            s0, s1 = await from_both(pair, lambda server: server.delete(f"/v1/jobs/{job_id}", JobStatus))
        drafts.forget(self.kit, job_id)
        return JobView(job_id, s0, s1)

    async def _close(self, pair: Pair, job_id: str) -> None:
        view, s0, s1 = await look(pair, job_id)
        check_live(view)
        if view.state == JobState.CREATED:
            raise JobStateError(
                f"Job {job_id} has no data yet.", f"Finish its creation: `sedml job create --resume {job_id}`."
            )
        voting = (s0.state, s1.state) == (JobState.OPEN, JobState.OPEN)
        deadline = datetime.fromtimestamp(view.terms.deadline, UTC)
        if voting and view.votes[0] < view.terms.min_teachers and datetime.now(UTC) < deadline:
            # Closing now would make the servers refuse the job for good, and waste the votes.
            raise TooFewTeachersError(
                f"{counted(view.votes[0], 'teacher')} {'has' if view.votes[0] == 1 else 'have'} voted, and the terms "
                f"ask for {view.terms.min_teachers:,}.",
                f"Wait for more until {deadline:%Y-%m-%d %H:%M} UTC. The vote stays open.",
            )
        for server, status in ((pair.s0, s0), (pair.s1, s1)):
            if status.state == JobState.OPEN:
                await server.post(f"/v1/jobs/{job_id}/close", JobStatus)


def _doing(what: str, *statuses: JobStatus) -> str:
    """What is being waited for, and what is in the way as a server says."""
    problems = [f"{status.server.upper()}: {status.problem.title}" for status in statuses if status.problem]
    return " - ".join([what, *problems])


def _agreed(progress: Progress, s0: JobStatus, s1: JobStatus) -> Task | None:
    progress(_doing("agreeing on who voted", s0, s1), 0, 1)
    return agreed_task(s0, s1)


def _finished(progress: Progress, s0: JobStatus, s1: JobStatus) -> Task | None:
    progress(_doing("aggregating", s0, s1), min(s0.samples_done, s1.samples_done), s0.terms.samples)
    return agreed_task(s0, s1) if s0.state == s1.state == JobState.DONE else None
