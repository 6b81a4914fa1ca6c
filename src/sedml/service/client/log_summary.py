"""What the two logs say together, for people: the jobs, their charges, and what somebody should look into."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sedml.errors import LogError
from sedml.service.client.log_entries import ODD
from sedml.service.client.log_reading import LogReading
from sedml.service.log.notes import Checkpoint, parse
from sedml.service.messages import LogHead, ServerName

__all__ = ["UNDER_WAY", "LoggedJob", "complaints", "differences", "logged_jobs", "odd_age", "plain_log"]

UNDER_WAY = "under way"
"""The outcome of a job that has none yet."""
_LATE = 60
_STALE = 3600
_SAME = {"job": ("cohort",), "roster": ("teachers",), "charge": ("cohort", "unit", "epsilon", "delta"), "labels": ()}


@dataclass
class LoggedJob:
    """A job, with what each log says of it: by kind of entry, by server, when, and what."""

    job: str
    cohorts: list[str] = field(default_factory=list)
    """One, unless the logs differ about it."""
    found: dict[str, dict[ServerName, dict[str, Any]]] = field(default_factory=dict)
    twice: set[tuple[str, ServerName]] = field(default_factory=set)
    """Kinds of entries that a log has more than once, and whose log it is."""

    def said(self, kind: str) -> dict[str, Any] | None:
        """What a log says of this kind, S0's first."""
        by_server = self.found.get(kind, {})
        return next((by_server[name] for name in sorted(by_server)), None)

    def at(self, kind: str) -> datetime | None:
        """When that was."""
        said = self.said(kind)
        return None if said is None else datetime.fromtimestamp(said["at"], UTC)

    @property
    def charged(self) -> bool:
        """Whether it was started, and so charged in full."""
        return "charge" in self.found

    @property
    def outcome(self) -> str:
        """How it has ended, if it has."""
        end = self.said("end")
        return "labels released" if "labels" in self.found else UNDER_WAY if end is None else str(end["state"])

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        return {"job": self.job, "cohort": ", ".join(self.cohorts), "outcome": self.outcome, "entries": self.found}


def logged_jobs(readings: Mapping[ServerName, LogReading]) -> dict[str, LoggedJob]:
    """Every job that is in one of the logs, in the order in which they were put there."""
    jobs: dict[str, LoggedJob] = {}
    for name, reading in readings.items():
        for entry in reading.entries:
            job = entry.what.get("job")
            if isinstance(job, str):
                known = jobs.setdefault(job, LoggedJob(job))
                if (cohort := entry.what.get("cohort")) not in (None, *known.cohorts):
                    known.cohorts.append(str(cohort))
                told = {key: value for key, value in entry.what.items() if key != "job"} | {"number": entry.number}
                kind = str(entry.what.get("kind"))
                if name in known.found.setdefault(kind, {}):
                    known.twice.add((kind, name))
                known.found[kind].setdefault(name, told)
    return dict(sorted(jobs.items(), key=lambda item: item[1].at("job") or datetime.now(UTC)))


def complaints(readings: Mapping[ServerName, LogReading], now: datetime) -> list[str]:
    """What does not fit, or is for somebody to look into."""
    found = []
    for name, reading in readings.items():
        if odd := odd_age(name, now.timestamp() - reading.cosigned_at):
            found.append(odd)
        found += _of_the_other(name, reading.head, readings.get("s1" if name == "s0" else "s0"))
        for entry in reading.public("alarm"):
            about = entry.what.get("job") or f"the log of {str(entry.what.get('log', '?')).upper()}"
            found.append(f"{name.upper()} has raised an alarm about {about} (entry {entry.number}).")
        for entry in reading.public(ODD):
            found.append(f"Entry {entry.number} of the log of {name.upper()} makes no sense: ask its operator.")
        least = sys.maxsize  # what is proven of a log that was put back twice is what was left the first time
        for entry in reading.public("restored"):
            was, kept, went_on = (entry.what[key]["size"] for key in ("was", "kept", "now"))
            least = kept = min(kept, least)
            found.append(
                f"The log of {entry.what['log'].upper()} was put back when it had {was:,} entries, and went on from "
                f"{went_on:,}. The first {kept:,} are proven to be what they were."
            )
    return found + differences(readings, now)


def odd_age(name: ServerName, seconds: float) -> str | None:
    """What is odd about a checkpoint that was cosigned so many seconds ago, if anything."""
    if abs(seconds) <= _STALE:
        return None
    when = f"{seconds / 3600:,.0f} hours ago" if seconds > 0 else "at a time that is yet to come"
    return f"The newest checkpoint that {name.upper()} shows was cosigned {when}."


def _of_the_other(name: ServerName, head: LogHead, theirs: LogReading | None) -> list[str]:
    """What a server has not cosigned of the other one's log."""
    found, other = [], "S1" if name == "s0" else "S0"
    if head.conflict is not None:
        what = f"{name.upper()} does not cosign what {other} shows of its log"
        try:
            shown = parse(head.conflict)[0]
        except LogError:
            found.append(f"{what}, without a good signature.")
        else:
            found.append(
                f"{what}, {shown.size:,} entries. The first {head.proven or 0:,} are proven to be what they were. Once "
                f"the operator of {other} has said why, and the same figures, that of {name.upper()} runs: "
                f"sedml log --accept-restored {shown.size}:{shown.root.hex()}"
            )
    if theirs is not None and any(_beside(theirs, parse(one)[0]) for one in head.forks):
        found.append(
            f"{other} has signed two logs that do not fit together. {name.upper()} keeps a checkpoint of the other one "
            "(`forks` in --json). If it was not put back, ask both operators."
        )
    return found


def _beside(reading: LogReading, earlier: Checkpoint) -> bool:
    """Whether a log that was read does not begin with an earlier one; of one that is longer, nobody can say."""
    return earlier.size <= reading.tree.size and reading.tree.root(earlier.size) != earlier.root


def differences(readings: Mapping[ServerName, LogReading], now: datetime) -> list[str]:
    """What one log says of a job and the other one does not, or not so: one of the two servers is wrong."""
    found = []
    for job in logged_jobs(readings).values() if len(readings) > 1 else ():
        ran = {"charge", "labels"} & set(job.found)
        over = set(job.found.get("end", {})) == set(readings) and "labels" not in job.found
        for kind, fields in _SAME.items():
            said = job.found.get(kind, {})
            found += [
                f"{name.upper()} has more than one {kind} of job {job.job} in its log."
                for of, name in sorted(job.twice)
                if of == kind
            ]
            if len({tuple(one.get(name) for name in fields) for one in said.values()}) > 1:
                found.append(f'The two logs differ about job {job.job}, in the entry "{kind}".')
            # The two do not write at the same moment; and of a job that both gave up, one may have begun.
            late = any(now.timestamp() - one["at"] > _LATE for one in said.values()) and not over
            for name in set(readings) - set(said):
                if kind == "job" and ran:
                    found.append(f"Job {job.job} was run, and {name.upper()} has it nowhere in its log.")
                elif kind in ran and late:
                    found.append(f"{name.upper()} has no {kind} of job {job.job} in its log, and the other server has.")
    return found


def plain_log(readings: Mapping[ServerName, LogReading], now: datetime) -> dict[str, Any]:
    """All of it as JSON."""
    return {
        "servers": {
            name: {
                "entries": one.checkpoint.size,
                "root": one.checkpoint.root.hex(),
                "cosigned_at": datetime.fromtimestamp(one.cosigned_at, UTC).isoformat(),
                "not_cosigned_yet": one.later,
                "checkpoint": one.note,
                "conflict": one.head.conflict,
                "forks": one.head.forks,
                **{kind: [entry.what for entry in one.public(kind)] for kind in ("software", "settings", "account")},
            }
            for name, one in readings.items()
        },
        "jobs": [job.plain() for job in logged_jobs(readings).values()],
        "complaints": complaints(readings, now),
    }
