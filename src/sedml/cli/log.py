"""`sedml log`, `sedml receipts` and `sedml witness`: what is in the servers' logs, and whether it holds."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.clients import KitOption, find_kit, find_operator
from sedml.cli.job_tables import short_ids
from sedml.cli.output import AsJson, answer, stages
from sedml.errors import LogError, NotCosignedError, SedmlError, printable

if TYPE_CHECKING:
    from sedml.service.client.log_reading import LogReading
    from sedml.service.messages import ServerName
    from sedml.service.terms import Terms

_DIFFER, _ILL = 1, 3


def log(
    kit: KitOption = None,
    last: Annotated[int, typer.Option(min=1, max=100_000, help="The most jobs, or lines, to show.")] = 50,
    witnessed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A witness's note, to check against the log that you are shown.")
    ] = None,
    witness_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="For --witnessed: the key of the witness.")
    ] = None,
    accept_restored: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE:ROOT",
            help="For operators: go on although the other server was put back to this state: you know why.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the servers' logs from the first entry on, check them, and show what they say.

    To a teacher: every job and charge of its cohort, whoever asked for it. To a
    requester: its own jobs. To an operator: who did what at its server.

    Exit code 3 if a log is not what it was, or not what it should be; 1 if the
    two differ about a job.

    Example: sedml log --kit kits/teacher-007

    Example: sedml log --kit kits/operator-s0 --last 20
    """
    from sedml.service.client import Requester, Teacher
    from sedml.service.client.log_differences import differences
    from sedml.service.client.log_summary import complaints, plain_log
    from sedml.service.kits import ClientKit

    known = ClientKit.load(kit or find_kit(None, "teacher"))
    if accept_restored is not None:
        size, _, root = accept_restored.partition(":")
        if not re.fullmatch(r"\d{1,18}:[0-9a-f]{64}", accept_restored, re.ASCII):
            raise typer.BadParameter("is not SIZE:ROOT, as `sedml log` shows it.", param_hint="--accept-restored")
        operator, server = find_operator(known.folder)
        accepted = operator.accept_restored(int(size), root)
        line = (
            f"{server.upper()} goes on cosigning the other server's log. This is on record in its own, for everybody."
        )
        answer(as_json, {"server": server, "accepted": accepted.model_dump()}, line)
        return
    party: Any = (
        find_operator(known.folder)[0]
        if known.role == "operator"
        else (Teacher if known.role == "teacher" else Requester)(find_kit(known.folder, known.role))
    )
    now = datetime.now(UTC)
    try:
        # First the note: a log that is read later has what the witness saw of it.
        note = None if witnessed is None else _note_of(witnessed)
        with stages() as progress:
            found = party.log(progress)
        met = [] if note is None else [_held_against(known, found, note, witness_key)]
    except NotCosignedError:
        raise
    except LogError as error:
        raise _ill(error, as_json) from None
    wrong = complaints(found, now)
    tables = _lines(found, last) if known.role == "operator" else _jobs(party, found, last)
    marked = [Text(one, "bold red") for one in wrong]
    answer(as_json, plain_log(found, now), *tables, *_checked(found), *met, *marked)
    if differences(found, now):
        raise typer.Exit(_DIFFER)


def _note_of(path: Path) -> str:
    from sedml.service.kits.folder import read_small

    # As editors of Windows write it, too. What is no text is no checkpoint either.
    return read_small(path).decode("utf-8", "replace").replace("\r\n", "\n")


def _held_against(kit: Any, found: dict[ServerName, LogReading], text: str, key: str | None) -> str:  # noqa: ANN401
    from sedml.service.client.witnessing import check_witnessed, log_of, read_vkey
    from sedml.service.log.notes import parse

    if key is None:
        raise typer.BadParameter("is needed to check a witness's note.", param_hint="--witness-key")
    name, verifier = log_of(kit, text), read_vkey(key)
    other: ServerName = "s1" if name == "s0" else "s0"
    at = check_witnessed(kit, found[name], text, verifier, found.get(other))
    size, whole = parse(text)[0].size, found[name].checkpoint.size
    if at is None:
        was = f"{size:,} entries of the log of {name.upper()}, before it was put back"
        return (
            f"{verifier.name} saw {was}, as {other.upper()} has it on record. It vouches for nothing that came since."
        )
    seen = f"the first {min(size, whole):,} of these {whole:,} entries of {name.upper()}"
    return f"{verifier.name} saw {seen}, as cosigned by {_moment(at)} UTC."


def _jobs(party: Any, found: dict[ServerName, LogReading], last: int) -> list[Table | str]:  # noqa: ANN401 - of either role
    from sedml.service.client.log_differences import logged_jobs

    every = list(logged_jobs(found).values())
    jobs = every[-last:]
    ids = short_ids(job.job for job in jobs)
    table = Table(title="Jobs in the logs", title_justify="left")
    several = len({", ".join(job.cohorts) for job in jobs}) > 1
    for column in ("id", "title", *(["cohort"] if several else []), "logged\n(UTC)", "charged", "outcome", "log"):
        table.add_column(column, no_wrap=column not in ("title", "cohort", "outcome"), overflow="fold")
    for job in jobs:
        terms, where = _terms(party, job.job), " ".join(sorted(job.found.get("job", {}))).upper()
        cost = job.told("charge", lambda charge: f"epsilon {charge['epsilon']:g} /\n{charge['unit']}")
        at = job.told("job", lambda one: _moment(one["at"])[:-3])
        title = Text("terms not shown" if terms is None else terms.title)
        table.add_row(
            ids[job.job],
            title,
            *([", ".join(job.cohorts)] if several else []),
            at.replace(" ", "\n") or "-",
            cost.replace(" according", "\naccording") or "-",
            job.outcome,
            where,
        )
    return [table, *_earlier(len(every) - len(jobs), "jobs")]


def _earlier(count: int, what: str) -> list[str]:
    return [f"{count:,} earlier {what} are not shown (--last)."] if count > 0 else []


def _terms(party: Any, job: str) -> Terms | None:  # noqa: ANN401 - of either role
    from sedml.errors import SedmlError

    try:
        terms: Terms = party.status(job).terms
    except SedmlError:
        return None
    return terms


def _lines(found: dict[ServerName, LogReading], last: int) -> list[Table | str]:
    tables = list[Table | str]()
    for name, reading in found.items():
        table = Table(title=f"Log of {name.upper()}", title_justify="left")
        table.add_column("entry", justify="right")
        for column in ("at (UTC)", "who", "did", "to", "outcome"):
            table.add_column(column, overflow="fold", no_wrap=column == "at (UTC)")
        every = [(entry.number, entry.line) for entry in reading.entries if entry.line is not None]
        shown = every[-last:]
        jobs = short_ids(line.subject for _, line in shown if len(line.subject) == 32)
        for number, line in shown:
            told = line.actor, line.action, jobs.get(line.subject, line.subject), line.outcome[:16]
            table.add_row(str(number), _moment(line.at), *map(printable, told))
        tables += [table, *_earlier(len(every) - len(shown), "lines")]
    return tables


def _checked(found: dict[ServerName, LogReading]) -> list[str]:
    lines = []
    for name, one in found.items():
        later = f" {one.later:,} more {'waits' if one.later == 1 else 'wait'} to be cosigned." if one.later else ""
        lines.append(
            f"{name.upper()}: all {one.checkpoint.size:,} entries are as it signed them. The other server cosigned "
            f"them, by its own clock at {_moment(one.cosigned_at)} UTC.{later}"
        )
    return lines


def receipts(
    kit: KitOption = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check each of them; this asks no server.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the receipts of your votes, with the proof that each job is in the logs of both servers.

    Exit code 3 if a receipt does not hold, or is damaged.

    Example: sedml receipts --kit kits/teacher-007 --verify
    """
    from sedml.service.client import receipts as kept_receipts
    from sedml.service.kits import ClientKit

    known = ClientKit.load(find_kit(kit, "teacher"), "teacher")
    found, damaged = kept_receipts.kept(known)
    problems = [kept_receipts.verify(known, one) if verify else None for one in found]
    ids, documents = short_ids(one.terms.id for one in found), []
    table = Table(title=f"Receipts of {known.name}", title_justify="left")
    signed = "signed by S0, S1 (UTC)"
    for column in ("job", "title", signed, "epsilon", "entry at S0, S1", *(["proof"] if verify else [])):
        table.add_column(column, overflow="fold")
    for one, problem in zip(found, problems, strict=True):
        places = ", ".join(str(one.proofs[name].number) for name in sorted(one.proofs))
        proof = [problem or "holds"] if verify else []
        taken = ", ".join(dict.fromkeys(f"{at:%Y-%m-%d %H:%M}" for at in one.taken.values()))
        table.add_row(ids[one.terms.id], Text(one.terms.title), taken, f"{one.terms.epsilon:g}", places, *proof)
        documents.append(one.model_dump(mode="json") | {"problem": problem})
    every = len(found) + len(damaged)
    said = f"{problems.count(None)} of {every} receipts hold." if verify else "--verify checks them."
    marked = [Text(f"{path} is damaged. Restore it from your copy of the kit.", "bold red") for path in damaged]
    told = {"receipts": documents, "verified": verify, "damaged": list(map(str, damaged))}
    answer(as_json, told, table, said, *marked)
    if damaged or any(problems):
        raise typer.Exit(_ILL)


def witness(
    kit: KitOption = None,
    interval: Annotated[
        float | None, typer.Option(min=1.0, help="Keep going, and look again every so many seconds.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Cosign the logs of both servers from a third place, each only if it extends what you saw last.

    Any kit will do, even that of somebody without an account (`sedml enrol`).
    The notes that you cosign are kept in `log/` of the kit, for everybody: with
    `sedml log --witnessed` others see whether they are shown the same log.

    Exit code 3 if a log does not extend what you saw last.

    Example: sedml witness --kit kits/teacher-007 --interval 600
    """
    import anyio

    from sedml.service.client.witnessing import witness as cosign
    from sedml.service.kits import ClientKit

    known = ClientKit.load(kit or find_kit(None, "teacher"))
    while True:
        try:
            found = anyio.run(cosign, known)
        except SedmlError as error:
            if isinstance(error, LogError) and not isinstance(error, NotCosignedError):
                raise _ill(error, as_json) from None
            if interval is None:
                raise
            answer(as_json, {"problem": f"{error.what} {error.do}"}, f"{error.what} Trying again.")
            time.sleep(interval)
            continue
        notes = {one.server: {"size": one.checkpoint.size, "path": str(one.path), "note": one.note} for one in found}
        document = {"key": found[0].vkey, "notes": notes}
        lines = [f"{one.server.upper()}: {one.checkpoint.size:,} entries, cosigned in {one.path}" for one in found]
        answer(as_json, document, *lines, f"Key: {found[0].vkey}")
        if interval is None:
            return
        time.sleep(interval)


def _ill(error: LogError, as_json: bool) -> typer.Exit:
    what = Text.assemble((error.what, "bold red"), f" {error.do}")
    answer(as_json, {"complaints": [f"{error.what} {error.do}"]}, what)
    return typer.Exit(_ILL)


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
