"""The teacher's side: look at a job's terms, predict its samples, send each server its half of the ballot.

What a ballot is made of follows from the kit's secret, the job and the votes alone. So voting again after a lost answer
sends the same bytes, which the servers take for the same vote.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import anyio.from_thread
import anyio.to_thread

from sedml import Progress, silent
from sedml.errors import (
    ConflictError,
    InputError,
    JobStateError,
    KitError,
    NotFoundError,
    PrivacyError,
    SedmlError,
    ServerError,
    warn,
)
from sedml.mpc.prg import Seed
from sedml.privacy.unit import ORGANISATION
from sedml.protocol.ballots import Ballot, cast
from sedml.protocol.votes import Votes
from sedml.service.client import receipts, spending
from sedml.service.client.arguments import check_progress, is_path, number, path_of
from sedml.service.client.async_client import AsyncClient, Where, look
from sedml.service.client.connection import Connection
from sedml.service.client.fetching import download, download_to, ids_of_samples, samples_of
from sedml.service.client.log_reading import keys_of, proven
from sedml.service.client.pair import Pair, from_both
from sedml.service.client.predicting import as_samples
from sedml.service.client.spending import as_limits
from sedml.service.client.views import JobName, VoteReceipt, check_id
from sedml.service.client.voters import Voter, as_voter
from sedml.service.client.watching import WatchEvent, watched
from sedml.service.messages import BALLOT_HEADER, PARTS_HEADER, JobStatus, Receipt, Role
from sedml.service.states import JobState
from sedml.service.terms import Terms, check_terms


class AsyncTeacher(AsyncClient):
    """A teacher: `await AsyncTeacher("kits/teacher-007").vote(job, model=model)`."""

    role: ClassVar[Role | None] = "teacher"

    async def fetch(self, job_id: JobName, to: Where | None = None, progress: Progress = silent) -> Path | bytes:
        """Download a job's samples and check them against its terms: to a file or into a folder, or as bytes."""
        job_id = check_id(job_id)
        check_progress(progress)
        place = None if to is None else path_of("to", to)
        async with self._servers() as pair:
            view, _, _ = await look(pair, job_id)
            if place is None:
                content = io.BytesIO()
                await download(self.kit, pair, view.terms, content, progress)
                return content.getvalue()
            return await download_to(self.kit, pair, view.terms, place, progress)

    async def sample_ids(self, job_id: JobName) -> list[str] | None:
        """What the samples of a job are called, by its data; None if they are only numbered."""
        job_id = check_id(job_id)
        async with self._servers() as pair:
            view, _, _ = await look(pair, job_id)
            return await ids_of_samples(self.kit, pair, view.terms, None, silent)

    async def vote(
        self,
        job_id: JobName,
        predictions: object = None,
        *,
        key: str | None = None,
        model: object = None,
        models: object = None,
        balance: bool = False,
        abstain_below: float | None = None,
        data: object = None,
        max_epsilon: float | None = None,
        progress: Progress = silent,
    ) -> VoteReceipt:
        """Vote on every sample of a job, once; voting again with the same predictions changes nothing.

        `predictions` are class ids (Q,), negative to abstain, names where the terms name the classes, or scores (Q, N):
        an array, lists, a frame, a tensor, or a file (`key` names the array of an .npz file). Where the terms give a
        teacher m votes, there is a row for each, (m, Q) or (m, Q, N). Or give a `model`: an object with `predict` or
        `predict_proba`, a function, a PyTorch network, or a file (.onnx, .pt2, joblib's); or `models`, a folder of one
        for each part of your data, as `sedml train` makes it. These can abstain from samples on which they are surer
        of no class than `abstain_below`, and `balance` corrects each for how often its own part has seen each class.
        Models are shown the job's samples, or `data`, if they are at hand as a file or need another form.
        A job that promises more than `max_epsilon` is refused. Returns when both servers have the ballot on disk.
        """
        if sum(given is not None for given in (predictions, model, models)) != 1:
            raise InputError("A vote takes predictions, a model, or models.", "Pass one of the three.")
        job_id = check_id(job_id)
        check_progress(progress)
        limit = None if max_epsilon is None else number("max_epsilon", max_epsilon)
        voter = await anyio.to_thread.run_sync(as_voter, predictions, key, model, models, balance, abstain_below)
        data = data if data is None or is_path(data) else as_samples(data)
        return await self._vote(job_id, voter, data, limit, self._note, progress)

    def watch(
        self,
        model: object = None,
        *,
        models: object = None,
        balance: bool = False,
        abstain_below: float | None = None,
        max_epsilon: float,
        max_total_epsilon: float | None = None,
        delta: float = 1e-5,
        unit: str = ORGANISATION,
        interval: float = 30.0,
    ) -> AsyncIterator[WatchEvent]:
        """Wait for jobs and vote on each that can be afforded, once: what happens, one event after the other, for ever.

        One job may cost at most `max_epsilon`, and all votes with this kit together `max_total_epsilon` (without it, no
        more than one job), both at this teacher's own `delta` and for each `unit`: an organisation with all its votes,
        or whom the jobs protect if you name them, such as patients. The kit keeps the account, from the terms of the
        jobs alone. A job that costs too much, has passed its deadline or does not fit the model is skipped, with a
        reason. Servers that are away are asked again.
        """
        limits = as_limits(max_epsilon, max_total_epsilon, delta, unit)
        seconds = number("interval", interval)
        if seconds < 0:
            raise InputError(f"interval is {seconds:g}.", "Pass seconds between two looks at the servers.")
        if (model is None) == (models is None):
            raise InputError("A watch takes a model, or models.", "Pass one of the two.")
        voter = as_voter(None, None, model, models, balance, abstain_below)

        async def vote(job_id: str) -> None:
            reserve = partial(spending.reserve, self.kit, limits)
            await self._vote(job_id, voter, None, None, reserve, silent)

        return watched(self, voter, vote, limits, seconds)

    async def _vote(
        self,
        job_id: str,
        voter: Voter,
        data: object,
        limit: float | None,
        note: Callable[[Terms], None],
        progress: Progress,
    ) -> VoteReceipt:
        """Vote on a job that promises no more than `limit`; `note` puts it on the account, before anything is sent."""
        async with self._servers() as pair:
            # Nothing is predicted, let alone sent, before the job is seen to be in the logs of both.
            s0, s1 = await from_both(pair, lambda server: proven(self.kit, pair, server, job_id, self.patience))
            terms = s0.terms
            if limit is not None and not terms.epsilon <= limit:
                raise PrivacyError(
                    f"The job may cost epsilon {terms.epsilon:g} at delta {terms.delta:g}, more than {limit:g}.",
                    "Nothing was sent. Allow more if that is acceptable to you.",
                )
            samples = None
            if voter.predicts:
                await anyio.to_thread.run_sync(check_terms, terms)
                samples = await samples_of(self.kit, pair, terms, data, progress)

            def ids() -> list[str] | None:
                return anyio.from_thread.run(ids_of_samples, self.kit, pair, terms, data, progress)

            votes = await anyio.to_thread.run_sync(voter.votes, samples, terms, progress, ids)
            receipt = await self._cast(pair, s0, s1, terms, votes, voter.parts(terms.id), partial(note, terms))
            proofs = {status.server: status.log for status in (s0, s1) if status.log is not None}
            try:
                receipts.keep(self.kit, terms, receipt, proofs)
            except KitError as error:  # the vote counts all the same
                warn(f"The receipt is not in the kit. {error.what}", error.do)
            return replace(receipt, log=proofs)

    def _note(self, terms: Terms) -> None:
        try:
            spending.note(self.kit, terms)
        except KitError as error:
            # The vote was asked for by somebody who looked at the job; an account is for votes that nobody looks at.
            warn(f"This vote is not on the kit's account of votes. {error.what}", error.do)

    async def receipt(self, job_id: JobName) -> VoteReceipt:
        """What the servers have on record of this teacher's vote; raises if one of them cannot say."""
        job_id = check_id(job_id)
        async with self._servers() as pair:
            return VoteReceipt(job_id, *await from_both(pair, lambda server: self._on_record(server, job_id)))

    async def _cast(
        self,
        pair: Pair,
        s0: JobStatus,
        s1: JobStatus,
        terms: Terms,
        votes: Votes,
        parts: str | None,
        note: Callable[[], None],
    ) -> VoteReceipt:
        """Send S1 its half, then S0: of two votes at once S1 takes one, and the other gets nowhere."""
        job_id = terms.id

        def ready() -> tuple[Ballot, bool]:
            """The ballot, and whether all that is known speaks for sending it; if so, it is noted."""
            ballot = _fill_in(self.kit.secret, self.kit.name, terms, votes)
            name = ballot.name.hex()
            clear = all(status.state == JobState.OPEN and status.ballot in (None, name) for status in (s0, s1))
            if clear:
                note()
            return ballot, clear

        ballot, clear = await anyio.to_thread.run_sync(ready)
        on_record: dict[str, Receipt] = {}
        if not clear:
            _check_no_other(s0, s1, ballot.name.hex(), "Nothing was sent.")
            for server, status in ((pair.s0, s0), (pair.s1, s1)):
                # Half a vote is of no use: nothing goes to the one server if the other takes votes no more.
                if status.state != JobState.OPEN:
                    known = await self._on_record(server, job_id, voting=True)
                    if known is None or known.ballot != ballot.name.hex():
                        raise JobStateError(
                            f"The job is {status.state} at {server.name.upper()}, which takes no votes for it now.",
                            "Nothing was sent. `sedml job list` shows the jobs that are open for votes.",
                        )
                    on_record[server.name] = known
            await anyio.to_thread.run_sync(note)
        at1 = on_record.get("s1") or await self._deliver(pair, pair.s1, job_id, ballot, parts)
        at0 = on_record.get("s0") or await self._deliver(pair, pair.s0, job_id, ballot, parts)
        return VoteReceipt(job_id, at0, at1)

    async def _deliver(self, pair: Pair, server: Connection, job_id: str, ballot: Ballot, parts: str | None) -> Receipt:
        """Send a server its half."""
        name = ballot.name.hex()
        half = ballot.halves[server is pair.s1]
        headers = {BALLOT_HEADER: name} | ({} if parts is None else {PARTS_HEADER: parts})
        try:
            receipt = await server.put(f"/v1/jobs/{job_id}/ballot", Receipt, half, headers=headers)
            self._check(server, job_id, receipt, name, voting=True)
        except SedmlError as error:
            if server is pair.s0:
                raise type(error)(
                    f"S0 did not take the ballot: {error.what} S1 has its half.",
                    f"The vote does not count unless both servers have the same ballot. {error.do}",
                ) from None
            if isinstance(error, ConflictError):
                _, s0, s1 = await look(pair, job_id)
                _check_no_other(s0, s1, name, "This one was not taken.")
            raise type(error)(f"S1 did not take the ballot: {error.what} S0 was sent nothing.", error.do) from None
        return receipt

    async def _on_record(self, server: Connection, job_id: str, voting: bool = False) -> Receipt | None:
        try:
            receipt = await server.get(f"/v1/jobs/{job_id}/ballot", Receipt)
        except NotFoundError:
            return None
        self._check(server, job_id, receipt, receipt.ballot, voting)
        return receipt

    def _check(self, server: Connection, job_id: str, receipt: Receipt, ballot: str, voting: bool) -> None:
        """Raise unless the server says, and has signed, that it has this ballot."""
        said = (receipt.server, receipt.job, receipt.teacher, receipt.ballot)
        if said != (server.name, job_id, self.kit.name, ballot):
            raise ServerError(
                f"{server.name.upper()} acknowledged a different ballot from the one that was sent.",
                "Tell its operator; vote again when that is cleared up.",
            )
        keys = keys_of(self.kit)
        if keys or voting:  # a kit that has never looked at a log can still ask what is on record
            keys[server.name].check_receipt(receipt.text, receipt.signature)


def _fill_in(secret: bytes, teacher: str, terms: Terms, votes: Votes) -> Ballot:
    """The ballot of these votes, int[m, Q]: the same halves whenever it is made."""
    # Whoever created the job is not to be believed about what it costs, nor are the servers.
    check_terms(terms)
    return cast(votes, terms.ballot, bytes.fromhex(terms.id), teacher, Seed(secret))


def _check_no_other(s0: JobStatus, s1: JobStatus, name: str, fate: str) -> None:
    """Raise if a server has another ballot on record, as two halves would never fit; `fate` is that of this one."""
    known = [s0.ballot, s1.ballot]
    if all(one in (None, name) for one in known):
        return
    if known[0] == known[1]:
        raise ConflictError(
            "An earlier vote of yours, with other predictions, is on record at both servers.",
            f"That vote counts, and it stands. {fate}",
        )
    if None not in known:
        raise ConflictError(
            "Halves of two different votes of yours are on record, one at each server.",
            f"Neither can count for this job any more. {fate}",
        )
    where = "S1" if s0.ballot is None else "S0"
    raise ConflictError(
        f"Half of an earlier vote of yours, with other predictions, is on record at {where}.",
        f"Vote with those predictions again to complete it. {fate}",
    )
