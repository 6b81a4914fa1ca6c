"""What an auditor asks about a job, or about all jobs of a cohort: facts from the logs, the terms and the receipts.

Every statement is one that a log entry, a proof of the protocol or a test bears; where nobody can check something, it
says so. A document is a list of sections of questions and answers, which `evidence_page` shows, and the raw facts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sedml.errors import counted
from sedml.privacy.unit import NO_PROTECTION, ORGANISATION
from sedml.service.client import evidence_words as words
from sedml.service.client.async_client import AsyncClient
from sedml.service.client.budgets import Budgets, read_budgets
from sedml.service.client.log_differences import UNDER_WAY, LoggedJob, logged_jobs
from sedml.service.client.log_reading import LogReading
from sedml.service.client.log_summary import complaints, plain_log
from sedml.service.client.receipts import KeptReceipt, kept, verify
from sedml.service.client.views import check_id
from sedml.service.messages import ServerName
from sedml.service.quantities import SECONDS
from sedml.service.terms import Terms, job_cost

_Rows: TypeAlias = Iterator[tuple[str, str]]
_Readings: TypeAlias = Mapping[ServerName, LogReading]


@dataclass(frozen=True)
class Section:
    """Questions and answers under one heading."""

    title: str
    rows: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True)
class Evidence:
    """A document for somebody's file."""

    title: str
    made_at: datetime
    made_by: str
    sections: tuple[Section, ...]
    facts: dict[str, Any]
    """The same and more, for programs: terms, entries of the logs, checkpoints, proofs."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        sections = [{"title": one.title, "note": one.note, "rows": dict(one.rows)} for one in self.sections]
        made = {"title": self.title, "made_at": self.made_at.isoformat(), "made_by": self.made_by}
        return made | {"sections": sections, "facts": self.facts}


async def evidence(client: AsyncClient, job: str | None = None, cohort: str = "") -> Evidence:
    """All that can be said with this kit about one job, or about every job of a cohort."""
    view = None if job is None else await client.status(check_id(job))
    now, readings = datetime.now(UTC), await client.log()
    budgets, jobs = await read_budgets(client.kit, client.patience), logged_jobs(readings)
    facts: dict[str, Any] = {"log": plain_log(readings, now)}
    if view is None:
        jobs = {name: one for name, one in jobs.items() if cohort in one.cohorts}
        own, charged = client.kit.role == "requester", sum(bool(one.charged) for one in jobs.values())
        what = f"Jobs in the logs: {len(jobs)}; charged: {charged}. Both logs were read from their first entry on. "
        what += "A server that keeps to the published code runs no job that is not there."
        every = "This requester's jobs in this cohort" if own else "Every job of this cohort"
        about = {every: _listed(jobs), "Charges": _budget(budgets, cohort, client)}
        title, logged, notes = f"Cohort {cohort}", None, words.NOTES | {every: what}
    else:
        terms, logged, notes = view.terms, jobs.get(view.id) or LoggedJob(view.id), words.NOTES
        receipts, damaged = kept(client.kit) if client.kit.role == "teacher" else ([], [])
        receipt = next((one for one in receipts if one.terms.id == view.id), None)
        problem = None if receipt is None else verify(client.kit, receipt)
        ballot = _ballot(client, terms, receipt, problem, view.id in [one.stem for one in damaged])
        about, title = _about_job(client, terms, logged, ballot, view.phase), f"Job {view.id}"
        about["Charges"] = _charges(logged, budgets, terms.cohort, client)
        about["In the logs"] = _inclusion(logged, receipt, problem)
        facts |= {"terms": terms.model_dump(mode="json"), "job": logged.plain()}
        facts["receipt"] = None if receipt is None else receipt.model_dump(mode="json")
    about["Software"] = _software(readings, logged)
    about["The logs"] = _checkpoints(readings, now)
    about["Retention and deletion"] = _retention(readings, logged)
    about["Assumptions"] = _rows(words.ASSUMPTIONS)
    if view is not None and logged is not None:
        about |= _frames(view.terms, logged)
    sections = tuple(Section(name, tuple(rows), notes.get(name, "")) for name, rows in about.items())
    return Evidence(title, now, client.kit.name, sections, facts)


def _about_job(client: AsyncClient, terms: Terms, logged: LoggedJob, ballot: str, state: str) -> dict[str, _Rows]:
    roster, cost = logged.told("roster", lambda one: counted(one["teachers"], "organisation")), job_cost(terms)
    whole = "is what is protected, as said above"
    if terms.unit != ORGANISATION:
        bound = cost.epsilon_organisation
        whole = "is in effect not protected" if bound >= NO_PROTECTION else f"is protected by epsilon {bound:.3g}"
        whole += ", and only it can check that its parts do not overlap"
    took_part = "is not settled yet"
    if roster:
        took_part = f"{roster}; the servers know which, and their logs do not name them to others"
    own = {"title": terms.title or "none was given", "took_part": took_part}
    own["state"] = state if logged.outcome == UNDER_WAY else f"{state}; in the servers' logs: {logged.outcome}"
    maker = f"{client.kit.name}, a {client.kit.role}"
    named = f" ({', '.join(terms.class_names)})" if terms.class_names else ""
    values = terms.model_dump() | {
        "id": terms.id,
        "named": named,
        "of": "of all votes" if "." in terms.threshold else "votes",
        "deadline": _moment(terms.deadline),
        "voters": counted(terms.min_teachers, "organisation"),
    }
    figures = {"epsilon": cost.epsilon, "delta": terms.delta, "promised": terms.epsilon, "apart": cost.epsilon_apart}
    meant = {"protected": _protected(terms), "odds": _odds(terms, cost.epsilon)}
    return {
        "Purpose and parties": _rows(words.PARTIES, **own, requester=terms.requester, maker=maker),
        "Terms in plain words": _rows(words.TERMS, **values),
        "What the guarantee means": _rows(words.MEANING, **figures, **meant),
        "Against whom it holds, and against whom not": _rows(words.AGAINST, whole=whole),
        "What left the organisation": _rows(words.LEFT, ballot=ballot),
    }


def _frames(terms: Terms, logged: LoggedJob) -> dict[str, _Rows]:
    cost, moves = job_cost(terms), terms.protected.moves
    bound = {"epsilon": cost.epsilon, "delta": terms.delta, "order": cost.order, "unit": terms.unit}
    voters = counted(terms.min_teachers, "organisation")
    inputs = {"samples": terms.samples, "requester": terms.requester, "voters": voters}
    return {
        words.NIST_TITLE: _rows(words.NIST, **bound, moved=counted(moves, "vote")),
        "For a data protection impact assessment": _rows(words.IMPACT, **inputs, outcome=logged.outcome),
    }


def _protected(terms: Terms) -> str:
    if terms.unit == ORGANISATION:
        return f"organisation, with all its votes: {terms.votes} on each sample"
    whose = "an organisation's"
    return f"{terms.unit}, whose data is {terms.protected.whereabouts(whose, whose)}"


def _odds(terms: Terms, epsilon: float) -> str:
    factor = math.exp(min(epsilon, 700.0))
    said = f"Whatever somebody believed about one {terms.unit} before, the labels change its odds by a factor of at "
    said += f"most {factor:,.3g}: what was as likely as not may become {100 * factor / (1 + factor):.3g}% likely. "
    said += f"Delta is a small allowance: with a probability of about {terms.delta:g} they may tell more."
    return said + (" That bounds next to nothing." if epsilon >= NO_PROTECTION else "")


def _ballot(client: AsyncClient, terms: Terms, receipt: KeptReceipt | None, problem: str | None, damaged: bool) -> str:
    if client.kit.role != "teacher":
        return f"nothing: {client.kit.name} is not a teacher; each one that voted sent one ballot, {_sizes(terms)}"
    if damaged or problem is not None:
        return "unknown: the receipt for this job in this kit is damaged, or does not hold"
    if receipt is None:
        return "nothing, according to the receipts in this kit; what follows is about those that voted"
    taken = " and ".join(f"{name.upper()} at {_day(at)}" for name, at in receipt.taken.items())
    return f"one ballot, {_sizes(terms)}; signed as taken by {taken}"


def _sizes(terms: Terms) -> str:
    return " and ".join(f"{size:,} bytes to S{role}" for role, size in enumerate(terms.ballot.sizes))


def _listed(jobs: Mapping[str, LoggedJob]) -> _Rows:
    for one in jobs.values():
        cost = one.told("charge", lambda charge: f"epsilon {charge['epsilon']:g} for each {charge['unit']}")
        at = one.told("job", lambda job: _moment(job["at"])) or "at an unknown time"
        yield one.job, f"{at}: {cost or 'not charged'}; {one.outcome}"


def _software(readings: _Readings, logged: LoggedJob | None) -> _Rows:
    for name, reading in readings.items():
        start = None if logged is None else logged.found.get("charge", {}).get(name)
        known = [one.what for one in reading.public("software") if start is None or one.number < start["number"]]
        for what in known if logged is None else known[-1:]:
            code = f"sedml {what['version']}, release {what['release']}, compiled kernel {what['kernel'] or 'none'}"
            yield f"{name.upper()} since {_moment(what['at'])}", code


def _charges(logged: LoggedJob, budgets: Budgets, cohort: str, client: AsyncClient) -> _Rows:
    for name in logged.servers if "charge" in logged.found else ():
        told = "no charge in what is cosigned"
        if (charge := logged.found["charge"].get(name)) is not None:
            told = f"epsilon {charge['epsilon']:g} at delta {charge['delta']:g} for each {charge['unit']}"
            when = _moment(charge["at"])
            charged = f"charged in full when it started, {when}"
            told += f", {charged if name in logged.charged else f'reserved {when}, and given back'}"
        yield f"This job in the log of {name.upper()}", told
    if "charge" not in logged.found:
        yield "This job", "was not charged: nothing was computed on votes"
    yield from _budget(budgets, cohort, client)


def _budget(budgets: Budgets, cohort: str, client: AsyncClient) -> _Rows:
    for line in budgets.lines:
        if line.cohort == cohort:
            promised = f"promised epsilon {line.epsilon:g} at delta {line.delta:g} for each {line.unit}"
            left = f"{promised}; {100 * line.left_share:.3g}% of that is left"
            yield f"Cohort {cohort} at {line.server.upper()}", left
    for name, own in budgets.own.items():
        used = f"the jobs that counted its votes have used {100 * own.used:.3g}% of that"
        yield f"{client.kit.name} at {name.upper()}", used


def _inclusion(logged: LoggedJob, receipt: KeptReceipt | None, problem: str | None) -> _Rows:
    for kind, said in (("job", "Terms"), ("roster", "Roster"), ("charge", "Charge"), ("labels", "Release of labels")):
        found = sorted(logged.found.get(kind, {}).items())
        if found:
            yield (
                said,
                "; ".join(f"{name.upper()}: entry {one['number']:,}, {_moment(one['at'])}" for name, one in found),
            )
    if receipt is not None:
        yield "Proofs of inclusion from before the vote", "hold" if problem is None else f"DO NOT HOLD: {problem}"


def _checkpoints(readings: _Readings, now: datetime) -> _Rows:
    for name, one in readings.items():
        other, when = "S1" if name == "s0" else "S0", _moment(one.cosigned_at)
        root = f"{one.checkpoint.size:,} entries, all of them read, with the root {one.checkpoint.root.hex()}"
        yield f"Log of {name.upper()}", f"{root}; cosigned by {other}, by its own clock at {when}"
    for number, what in enumerate(complaints(readings, now), 1):
        yield f"To look into ({number})", what


def _retention(readings: _Readings, logged: LoggedJob | None) -> _Rows:
    for name, reading in readings.items():
        for entry in list(reading.public("settings"))[-1:]:
            labels, inputs = (_lasting(entry.what[key]) for key in ("keep_labels", "keep_inputs"))
            yield f"Ballots at {name.upper()}", f"deleted {inputs} both servers have their shares of the labels"
            labels += " the job has ended, or earlier if the requester asks for it"
            yield f"Label shares and public data at {name.upper()}", f"deleted {labels}"
    for name, what in sorted((logged.found.get("deleted", {}) if logged else {}).items()):
        yield f"Deleted at {name.upper()}", _moment(what["at"])
    yield "What stays", "terms, states, names and times, receipts (without votes), the ledger and the log"
    yield "Out of the servers' reach", "backups, snapshots, and traces of deleted files on a disk"


def _rows(text: str, **values: object) -> _Rows:
    for line in text.strip().splitlines():
        what, _, answer = line.partition(" | ")
        yield what, answer.format(**values)


def _day(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _moment(seconds: float) -> str:
    return _day(datetime.fromtimestamp(seconds, UTC))


def _lasting(seconds: float) -> str:
    if not seconds:
        return "as soon as"
    short = next((one for one in words.DURATIONS if seconds >= SECONDS[one]), "ms")
    unit, word = SECONDS[short], words.DURATIONS[short]
    return f"{seconds / unit:g} {word if seconds != unit else word[:-1]} after"
