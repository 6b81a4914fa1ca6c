"""What the two logs say of each job, and where one of them says less than the other, or something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sedml.service.client.log_reading import Entry, LogReading
from sedml.service.messages import ServerName

UNDER_WAY = "under way"
"""The outcome of a job that has none yet."""
_LATE = 60
_AHEAD = 3600  # seconds by which clocks are off, at most
_DAY = 86_400
_SAME = {
    "job": ("cohort",),
    "roster": ("teachers",),
    "charge": ("cohort", "unit", "epsilon", "delta"),
    "labels": (),
    "end": (),  # of two servers that give a job up, one may say that it has expired, and the other that it failed
}
_NAMES = {"job": "terms"}


@dataclass
class LoggedJob:
    """A job, with what each log says of it: by kind of entry, by server, when, and what."""

    job: str
    cohorts: list[str] = field(default_factory=list)
    """One, unless the logs differ about it."""
    found: dict[str, dict[ServerName, dict[str, Any]]] = field(default_factory=dict)
    twice: set[tuple[str, ServerName]] = field(default_factory=set)
    """Kinds of entries that a log has more than once, and whose log it is."""
    servers: tuple[ServerName, ...] = ("s0", "s1")
    """Whose logs were read."""

    def told(self, kind: str, plain: Callable[[dict[str, Any]], str]) -> str:
        """What the logs say of this kind, in these words, and which of them, unless all say the same."""
        return self._by_whom({name: plain(one) for name, one in self.found.get(kind, {}).items()})

    def _by_whom(self, told: Mapping[ServerName, str]) -> str:
        if len(told) == len(self.servers) and len(set(told.values())) == 1:
            return next(iter(told.values()))
        alone = " alone" if len(told) == 1 else ""
        return ", ".join(f"{what} according to {name.upper()}{alone}" for name, what in sorted(told.items()))

    @property
    def charged(self) -> list[ServerName]:
        """Which servers have charged it, in full; not those that say that nothing came of that, and show no labels."""
        ends, labels = self.found.get("end", {}), self.found.get("labels", {})
        back = [name for name, end in ends.items() if name not in labels and not end["charged"]]
        return [name for name in self.found.get("charge", {}) if name not in back]

    @property
    def outcome(self) -> str:
        """How it has ended, if it has, and according to which of the logs, unless all say the same."""
        ends = {name: str(one["state"]) for name, one in self.found.get("end", {}).items()}
        return self._by_whom(ends | dict.fromkeys(self.found.get("labels", {}), "labels released")) or UNDER_WAY

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"job": self.job, "cohort": ", ".join(self.cohorts), "outcome": self.outcome, "entries": self.found}


def logged_jobs(readings: Mapping[ServerName, LogReading]) -> dict[str, LoggedJob]:
    """Every job that is in one of the logs, in the order in which they were put there: by the later of two dates."""
    jobs: dict[str, LoggedJob] = {}
    for name, reading in readings.items():
        for entry in reading.entries:
            job = entry.what.get("job")
            if isinstance(job, str):
                known = jobs.setdefault(job, LoggedJob(job, servers=tuple(readings)))
                if (cohort := entry.what.get("cohort")) not in (None, *known.cohorts):
                    known.cohorts.append(str(cohort))
                told = {key: value for key, value in entry.what.items() if key != "job"} | {"number": entry.number}
                kind = str(entry.what.get("kind"))
                if name in known.found.setdefault(kind, {}):
                    known.twice.add((kind, name))
                known.found[kind].setdefault(name, told)
    return dict(sorted(jobs.items(), key=lambda item: max(_dates(item[1], "job").values(), default=math.inf)))


def _dates(job: LoggedJob, kind: str) -> dict[ServerName, int]:
    return {name: one["at"] for name, one in sorted(job.found.get(kind, {}).items())}


def other_than(name: ServerName) -> ServerName:
    """The other one of the two servers."""
    return "s1" if name == "s0" else "s0"


def is_ahead(reading: LogReading, at: int, now: datetime) -> bool:
    """Whether that is later than the cosignature under it, by more than clocks are off, and is yet to come.

    A server that doubts its clock dates no cosignature later than its last one.
    """
    return at > max(reading.cosigned_at, now.timestamp()) + _AHEAD


def apart(job: LoggedJob) -> Iterator[str]:
    """Of which entries about a job the two logs give dates that are more than a day apart.

    Of deletions they may, and of the terms, which the requester brings to each.
    """
    for kind in (one for one in _SAME if one != "job"):
        dates = _dates(job, kind)
        if dates and max(dates.values()) - min(dates.values()) > _DAY:
            told = " and ".join(
                f"{name.upper()} {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC" for name, at in dates.items()
            )
            yield f"The two logs date the {_NAMES.get(kind, kind)} of job {job.job} differently: {told}."


def differences(readings: Mapping[ServerName, LogReading], now: datetime) -> list[str]:
    """What one log says of a job and the other one does not, or not so: one of the two servers is wrong."""
    found = []
    promised = {name: list(reading.public("settings")) for name, reading in readings.items()}
    for job in logged_jobs(readings).values() if len(readings) > 1 else ():
        found += [
            f"{name.upper()} has more than one {_NAMES.get(kind, kind)} of job {job.job} in its log."
            for kind, name in sorted(job.twice)
            if kind in _SAME
        ]
        found += [
            f'The two logs differ about job {job.job}, in the entry "{kind}".'
            for kind in _SAME
            if _differ(job, kind, promised)
        ]
        for name, reading in readings.items():
            found += _left_out(job, reading, readings[other_than(name)], now)
    return found


def _differ(job: LoggedJob, kind: str, promised: Mapping[ServerName, list[Entry]]) -> bool:
    """Whether the two logs say something else in entries of one kind, and one of the two is wrong."""
    said = job.found.get(kind, {})
    found = {tuple(one.get(name) for name in _SAME[kind]) for one in said.values()}
    if kind != "charge" or len(said) < 2 or len(found) > 1:
        return len(found) > 1
    # How rho is counted depends on what a server has promised the cohort.
    promises = []
    for name, charge in said.items():
        rules = [one.what.get("budgets") for one in promised[name] if one.number < charge["number"]]
        promises.append(rules[-1].get(charge["cohort"]) if rules and isinstance(rules[-1], dict) else None)
    rhos = [one["rho"] for one in said.values()]
    return promises[0] == promises[1] and not math.isclose(*rhos, rel_tol=1e-6)


def _left_out(job: LoggedJob, mine: LogReading, theirs: LogReading, now: datetime) -> Iterator[str]:
    """What a log does not have of a job, although it has had the time, and the other one has."""
    # What was in the other log before this one was read to its end: it can be asked of this one.
    says = {kind: told[theirs.server] for kind, told in job.found.items() if theirs.server in told}
    says = {kind: told for kind, told in says.items() if told["number"] < theirs.known}
    own = {kind: told[mine.server]["at"] for kind, told in job.found.items() if mine.server in told}
    here = own.keys()
    who, other = mine.server.upper(), theirs.server.upper()
    where, until = "in its log", now.timestamp()
    if mine.later:  # it may be there, and not be cosigned yet; the other server may date what it cosigned a day ahead
        wait = "waits" if mine.later == 1 else "wait"
        where = f"in what {other} has cosigned of its log ({mine.later:,} more {wait} for that)"
        until = min(until, mine.cosigned_at - _DAY)

    def late(kind: str, seconds: float) -> bool:
        # The other server dates its entries as it likes; but none of them is older than what came before it here.
        at = min(max([says[kind]["at"], *own.values()]), theirs.cosigned_at)
        return until - at > seconds or (not mine.later and is_ahead(theirs, says[kind]["at"], now))

    if not here:
        if any(kind in says and (not mine.later or late(kind, _LATE)) for kind in ("charge", "labels")):
            yield f"{other} says that job {job.job} was run; {who} has it nowhere {where}."
        return
    # One that both gave up may have begun at one of them; and that it is over they hear from each other.
    given_up, over = "end" in says.keys() & here and "labels" not in here | says.keys(), here & {"labels", "end"}
    for kind in _SAME:
        excused = (kind == "end" and over) or (given_up and kind in ("roster", "charge"))
        if kind in says and kind not in here and not excused and late(kind, _DAY if kind == "end" else _LATE):
            yield f"{who} has no {_NAMES.get(kind, kind)} of job {job.job} {where}, and {other} has."
