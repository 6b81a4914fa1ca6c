"""What the two logs say together, for people: the jobs, their charges, and what somebody should look into."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sedml.errors import LogError
from sedml.service.client.log_differences import apart, differences, is_ahead, logged_jobs, other_than
from sedml.service.client.log_entries import ODD
from sedml.service.client.log_reading import Entry, LogReading
from sedml.service.log.notes import Checkpoint, parse
from sedml.service.messages import LogHead, ServerName

_STALE = 3600
_MOST = 20


def complaints(readings: Mapping[ServerName, LogReading], now: datetime) -> list[str]:
    """What does not fit, or is for somebody to look into."""
    found = []
    for name, reading in readings.items():
        if odd := odd_age(name, now.timestamp() - reading.cosigned_at):
            found.append(odd)
        found += _of_the_other(name, reading.head, readings.get(other_than(name)))
        found += _few(
            f"{name.upper()} has raised an alarm about {_about(entry)} (entry {entry.number})."
            for entry in reading.public("alarm")
        )
        found += _few(
            f"Entry {entry.number} of the log of {name.upper()} makes no sense: ask its operator."
            for entry in reading.public(ODD)
        )
        if ahead := [entry.number for entry in reading.entries if is_ahead(reading, entry.what.get("at", 0), now)]:
            found.append(
                f"{name.upper()} dates {len(ahead):,} of the entries of its log, the first of them entry {ahead[0]}, "
                f"more than an hour after {other_than(name).upper()} says that it cosigned them."
            )
        found += _few(_put_back(reading, readings))
    dates = (one for job in logged_jobs(readings).values() for one in apart(job))
    return found + _few(dates) + _few(differences(readings, now))


def _few(told: Iterable[str]) -> list[str]:
    """The first and the last of them, and how many more there are: one server does not get to bury the rest."""
    every, half = list(told), _MOST // 2
    if len(every) <= _MOST:
        return every
    return [*every[:half], f"There are {len(every) - _MOST:,} more of this kind.", *every[-half:]]


def _about(alarm: Entry) -> str:
    return alarm.what.get("job") or f"the log of {str(alarm.what.get('log', '?')).upper()}"


def _put_back(reading: LogReading, readings: Mapping[ServerName, LogReading]) -> list[str]:
    """What a server says of a log that was put back: its word, unless the log that was read shows something else."""
    found = []
    left = dict[str, int]()  # how many entries of what was read are from before it was put back once more
    for entry in reversed(list(reading.public("restored"))):
        whose, was, kept, now = (entry.what[key] for key in ("log", "was", "kept", "now"))
        told = (
            f"{reading.server.upper()} says that the log of {whose.upper()} was put back when it had {was['size']:,} "
            f"entries and went on from {now['size']:,}, of which the first {kept['size']:,} are proven to be what they "
            "were."
        )
        if (theirs := readings.get(whose)) is not None:
            before = left.get(whose, sys.maxsize)
            there = [one for one in (kept, now) if one["size"] <= before]
            if all(_has(theirs, one["size"], bytes.fromhex(one["root"])) for one in there):
                left[whose] = min(before, kept["size"])
            elif theirs.cosigned_at <= entry.what["at"] and _is_part(theirs, was, kept):
                told += f" The log of {whose.upper()} that was read here does not show it: it is from before that, "
                told += f"or {reading.server.upper()} is wrong."
            else:
                told += f" That is doubtful: the log of {whose.upper()} that was read here does not show it."
        found.append(told)
    return found[::-1]


def _is_part(reading: LogReading, was: dict[str, Any], kept: dict[str, Any]) -> bool:
    """Whether a log that was read can be what another one was, of which this much was kept."""
    size = reading.tree.size
    heads = [(one["size"], bytes.fromhex(one["root"])) for one in (kept, was)]
    return size <= was["size"] and all(one[0] > size or _has(reading, *one) for one in heads)


def _has(reading: LogReading, size: int, root: bytes) -> bool:
    """Whether a log that was read begins with the entries of this head."""
    return size <= reading.tree.size and reading.tree.root(size) == root


def odd_age(name: ServerName, seconds: float) -> str | None:
    """What is odd about a checkpoint that was cosigned so many seconds ago, if anything."""
    if abs(seconds) <= _STALE:
        return None
    when = f"{seconds / 3600:,.0f} hours ago" if seconds > 0 else "at a time that is yet to come"
    who = other_than(name).upper()
    return f"The newest checkpoint that {name.upper()} shows was cosigned {when}, as {who} dates it."


def _of_the_other(name: ServerName, head: LogHead, theirs: LogReading | None) -> list[str]:
    """What a server has not cosigned of the other one's log."""
    found, other = [], other_than(name).upper()
    if head.conflict is not None:
        what = f"{name.upper()} does not cosign what {other} shows of its log"
        shown: Checkpoint | None = None
        try:
            shown = parse(head.conflict)[0]
        except LogError:
            found.append(f"{what}, without a good signature.")
        if shown is not None and theirs is not None and _has(theirs, *shown.head):
            found.append(
                f"{what}, {shown.size:,} entries, and yet the log of {other} that was read here begins with these: "
                f"either {other} was put back, or {name.upper()} refuses a log that is in order."
            )
        elif shown is not None and theirs is not None and shown.size > theirs.tree.size:
            found.append(
                f"{what}, {shown.size:,} entries. Those that {other} shows as cosigned are fewer: either it was put "
                f"back, or {name.upper()} refuses a log that has merely grown."
            )
        elif shown is not None:
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
