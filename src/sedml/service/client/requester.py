"""The requester's side: create a job, end the vote when enough teachers have voted, and fetch the labels.

Every step can be repeated: a creation that broke off is continued from its draft in the kit, and labels can be fetched
until the servers delete them.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import (
    BodyTooLargeError,
    FileFormatError,
    JobStateError,
    KitError,
    SedmlError,
    TooFewTeachersError,
    warn,
)
from sedml.files.digest import CHUNK
from sedml.privacy.accounting import PrivacyReport
from sedml.privacy.unit import ORGANISATION
from sedml.protocol.task import Task
from sedml.protocol.votes import NO_CONSENSUS
from sedml.service.client import drafts
from sedml.service.client.arguments import check_progress, is_path, path_of, rows_of
from sedml.service.client.async_client import AsyncClient, look, wait_for
from sedml.service.client.connection import Connection
from sedml.service.client.drafts import Draft
from sedml.service.client.pair import Pair, asked, from_both
from sedml.service.client.prospects import doubts
from sedml.service.client.request import Deadline, JobRequest, terms_for
from sedml.service.client.revealing import agreed_task, fetch_labels
from sedml.service.client.samples import count_samples, fingerprint
from sedml.service.client.views import JobName, JobView, check_id, check_live
from sedml.service.messages import JobStatus, Role, ServerInfo
from sedml.service.states import JobState
from sedml.service.terms import Terms, job_cost

__all__ = ["AsyncRequester", "JobResult", "JobSeconds"]


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

    def __repr__(self) -> str:
        found = f"teachers={self.task.teachers}, answered={self.answered} of {self.task.samples}"
        return f"JobResult({self.job.id!r}, {found}, epsilon={self.epsilon:.4g}, delta={self.delta:g})"

    @property
    def answered(self) -> int:
        """How many samples have a label."""
        return int((self.labels != NO_CONSENSUS).sum())

    @property
    def epsilon(self) -> float:
        """What the job costs a teacher."""
        return self.privacy.epsilon

    @property
    def delta(self) -> float:
        """The small probability with which epsilon may fail to hold."""
        return self.privacy.delta


class AsyncRequester(AsyncClient):
    """A requester: `await AsyncRequester("kits/requester-1").create("public.npz", classes=10, ...)`."""

    role: ClassVar[Role | None] = "requester"

    async def create(
        self,
        data: object,
        *,
        classes: int,
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
        progress: Progress = silent,
    ) -> JobView:
        """Ask teachers to vote on samples: a file (.npz or .npy), an array, lists, a frame; the job's id is `.id`.

        `threshold` is a fraction of the votes of those who take part (0.6) or a count of votes (150); `epsilon` and
        `delta` are what the job may cost at most each `unit`: a teacher with all its `votes` on a sample
        ("organisation"), or one of those whose data it holds ("patient"), in at most `spread` parts of all teachers
        together, each of which has a vote. Without a sigma, it has the least noise that keeps to that. Voting ends at
        the `deadline`: a moment, a timedelta, seconds, or "7d". If this breaks off, the same call within a day
        continues it, and so does `resume`; it never makes a second job out of one. A `SedmlWarning` says if most labels
        would be wrong or missing whatever the teachers know.
        """
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
        )
        return await self.ask(data, request, progress)

    async def ask(self, data: object, request: JobRequest, progress: Progress = silent) -> JobView:
        """Create a job, as `create` does, from a request that is there."""
        check_progress(progress)
        path, own = await anyio.to_thread.run_sync(self._file, data)
        samples = await anyio.to_thread.run_sync(count_samples, path)
        known = await anyio.to_thread.run_sync(fingerprint, path, progress)
        now = datetime.now(UTC)
        terms = await anyio.to_thread.run_sync(terms_for, request, self.kit.name, samples, known, now)
        async with self._servers() as pair:
            infos = await self._infos(pair, known[0])
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
            return await self._publish(pair, drafts.begin(self.kit, wanted), progress)

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
            return await self._publish(pair, record, progress)

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
        return JobResult(view, task, labels, seconds, privacy=cost)

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

    def _file(self, data: object) -> tuple[Path, bool]:
        """The file of samples, and whether it was made here."""
        if is_path(data):
            return path_of("data", data), False
        content = np.ascontiguousarray(rows_of("data", data))
        # One name for the same samples, so that what broke off leaves one file at most.
        name = hashlib.sha256(repr((content.shape, content.dtype)).encode() + content.tobytes()).hexdigest()[:32]
        path = drafts.record_folder(self.kit) / f"{name}.npy"
        try:
            np.save(path, content, allow_pickle=False)
        except OSError as error:
            raise KitError(
                f"{path} cannot be written ({error.strerror}).", "Free some disk space, or pass a file."
            ) from None
        return path, True

    async def _infos(self, pair: Pair, size: int) -> tuple[ServerInfo, ServerInfo]:
        """What both servers say of themselves; raises if one of them does not take so many bytes of data."""
        infos = await from_both(pair, lambda server: server.get("/v1/server", ServerInfo))
        for info in infos:
            if size > info.max_data_bytes:
                raise BodyTooLargeError(
                    f"The data has {size:,} bytes, and {info.server.upper()} takes at most {info.max_data_bytes:,}.",
                    "Send fewer samples, in a narrower type, or as np.savez_compressed.",
                )
        return infos

    async def _publish(self, pair: Pair, record: Draft, progress: Progress) -> JobView:
        terms = record.terms
        statuses = await self._announce(pair, terms)
        missing = {status.server for status in statuses if status.state == JobState.CREATED}
        sent = dict.fromkeys(missing, 0)

        async def publish(server: Connection) -> JobStatus:
            if server.name not in missing:
                return await server.get(f"/v1/jobs/{terms.id}", JobStatus)

            async def parts() -> AsyncIterator[bytes]:
                sent[server.name] = 0
                async with await anyio.open_file(record.data, "rb") as stream:
                    while part := await stream.read(CHUNK):
                        yield part
                        sent[server.name] += len(part)
                        progress("uploading", sum(sent.values()), len(sent) * terms.data_bytes)

            return await server.put(f"/v1/jobs/{terms.id}/data", JobStatus, parts, size=terms.data_bytes)

        s0, s1 = await from_both(pair, publish)
        if not record.complete:
            drafts.save(self.kit, record.model_copy(update={"complete": True}))
            if record.own_data:
                Path(record.data).unlink(missing_ok=True)
        return JobView(terms.id, s0, s1)

    async def _announce(self, pair: Pair, terms: Terms) -> tuple[JobStatus, JobStatus]:
        """Both servers put the terms on record; what one will never take is kept neither at the other nor here."""
        s0, s1 = await asked(pair, lambda server: server.put(f"/v1/jobs/{terms.id}", JobStatus, terms))
        if not isinstance(s0, SedmlError) and not isinstance(s1, SedmlError):
            return s0, s1
        refusals = [answer for answer in (s0, s1) if isinstance(answer, SedmlError)]
        if not any(refusal.passing for refusal in refusals):
            for server, answer in ((pair.s0, s0), (pair.s1, s1)):
                # One that takes votes already may have some: it was on record at both once.
                if not isinstance(answer, SedmlError) and answer.state == JobState.CREATED:
                    await server.delete(f"/v1/jobs/{terms.id}", JobStatus)
            drafts.forget(self.kit, terms.id)
        raise refusals[0]

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
                f"{view.votes[0]} teachers have voted, and the terms ask for {view.terms.min_teachers}.",
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
