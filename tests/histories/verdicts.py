"""What must be true of a history, whatever struck it. Each check says what is wrong, or nothing.

Where a store was put back, its server may have forgotten votes and jobs: then a job may end without a result, clearly,
or with one that is right for the roster agreed on; nothing else is forgiven.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import sqlalchemy as sa

from histories.people import Case, Proof, Scene
from sedml.errors import LogError, NotCosignedError
from sedml.privacy.ledger import Ledger, Reservation, State
from sedml.service.client import Teacher
from sedml.service.client.log_differences import logged_jobs
from sedml.service.server.settings import load_settings
from sedml.service.server.storage.tables import ballots, blocks, jobs, log
from sedml.service.states import ENDED, ENDED_WITHOUT_RESULT, JobState
from sedml.service.terms import Terms, charge_at, task_of
from support.deployment import labels_without_noise
from support.live_servers import accept

__all__ = ["alarms", "called_about_for_ever", "check", "check_logs", "prove", "reserved"]

_EXPLAINED = 20.0
"""Seconds after which a log that was put back is explained to everybody."""
_OURS = {"job.error", "runner", "link.call", "crashed", "thread crashed"}


def prove(scene: Scene, case: Case) -> Proof:
    """What is on record of a job now."""
    with scene.pair.stores() as nodes:
        found = [_on_record(node, case.id) for node in nodes]
    return Proof(*(tuple(column) for column in zip(*found, strict=True)))


def _on_record(node: SimpleNamespace, job: str) -> tuple:
    with node.store.read() as connection:
        row = connection.execute(sa.select(jobs).where(jobs.c.id == job)).mappings().one_or_none()
        held = connection.execute(sa.select(ballots).where(ballots.c.job == job)).mappings().all()
    if row is None:
        return "unknown", None, {}, []
    roster = None if row["roster_digest"] is None else (row["roster_teachers"], row["roster_digest"])
    seated = sorted((one for one in held if one["seat"] is not None), key=lambda one: one["seat"])
    names = {one["teacher"]: one["name"] for one in held}
    return row["state"], roster, names, [one["teacher"] for one in seated]


def check(scene: Scene) -> Iterator[str]:
    """Everything but the logs; after all is calm and every job has ended."""
    yield from scene.complaints
    with scene.pair.stores() as nodes:
        for case in scene.cases:
            if case.terms is not None:
                rows = [_row(node, case.id) for node in nodes]
                for what in (*_ended(scene, case, rows), *_kept(scene, case, rows), *_labels(scene, case, rows)):
                    yield f"job {case.id}: {what}"
        yield from _charged(scene, nodes)
    yield from _logged(scene)


def _logged(scene: Scene) -> Iterator[str]:
    """Both logs are what was signed and cosigned, to teachers who saw them before and to one who never did."""
    until, both = time.monotonic() + _EXPLAINED, {one.role for one in scene.history.troubles if one.kind == "restore"}
    while True:
        try:
            for number in (1, 2, 3):
                teacher = Teacher(scene.kit(f"teacher-{number:03}"))
                found = logged_jobs(teacher.log())
            break
        except LogError as error:
            if (not both and not isinstance(error, NotCosignedError)) or time.monotonic() > until:
                yield f"a teacher finds a log wrong: {error.what}"
                return
        # A store may have been put back at the very end: the operators talk, and the servers cosign.
        for server in scene.pair.servers:
            accept(server, scene.pair.token(f"operator-{server.name}", server.name))
        if len(both) == 2:  # no log is left that could explain the other: teachers hear it from both operators
            for note in scene.pair.kits.glob("teacher-*/log/*.note"):
                note.unlink()
        time.sleep(0.2)
    for case in scene.cases:
        if case.terms is not None and case.labels and not scene.history.restores:
            where = {kind: set(found[case.id].found.get(kind, {})) for kind in ("job", "roster", "charge", "labels")}
            if any(servers != {"s0", "s1"} for servers in where.values()):
                yield f"job {case.id} has labels and is not whole in both logs: {where}"


def _row(node: SimpleNamespace, job: str) -> SimpleNamespace | None:
    unfinished = sa.select(sa.func.count()).where(blocks.c.job == job, blocks.c.state != "final")
    with node.store.read() as connection:
        row = connection.execute(sa.select(jobs).where(jobs.c.id == job)).mappings().one_or_none()
        if row is None:
            return None
        return SimpleNamespace(**row, unfinished=connection.execute(unfinished).scalar_one())


def _ended(scene: Scene, case: Case, rows: list[SimpleNamespace | None]) -> Iterator[str]:
    """At both servers, in the same way."""
    states = ["unknown" if row is None else row.state for row in rows]
    scene.counts[f"jobs {' and '.join(sorted(set(states)))}"] += 1
    if scene.history.restores:
        unended = [state for state in states if state != "unknown" and JobState(state) not in ENDED]
        if unended:
            yield f"it did not end: {states}"
        return
    if "unknown" in states or any(JobState(state) not in ENDED for state in states):
        yield f"it did not end: {states}"
    elif (JobState.DONE in states) and len(set(states)) > 1:
        yield f"it is done at one server only: {states}"
    elif JobState.FAILED in states and not case.delete_asked:
        yield f"it failed though nothing was put back: {states}, {[row.problem for row in rows if row]}"


def _kept(scene: Scene, case: Case, rows: list[SimpleNamespace | None]) -> Iterator[str]:
    """Nothing is deleted, expired or closed that nobody wanted to: every job has an hour, and inputs stay a day."""
    if case.delete_asked or case.withdrawn:
        return
    for server, row in zip(scene.pair.servers, rows, strict=True):
        if row is None:
            continue
        if row.state == JobState.EXPIRED and not scene.history.restores:
            yield f"it expired at {server.name}, and nobody has deleted it"
        if row.deleted:
            yield f"{server.name} has deleted it ({row.state}), and nobody asked for that"
        elif row.inputs_deleted:
            yield f"{server.name} has deleted its inputs ({row.state}) within a day"
        elif row.state in ENDED_WITHOUT_RESULT or scene.history.restores:
            continue  # the data of a job without a result is deleted at once
        elif not (server.kit.folder / "data" / "public" / f"{case.id}.data").exists():
            yield f"{server.name} has deleted its public data"


def _labels(scene: Scene, case: Case, rows: list[SimpleNamespace | None]) -> Iterator[str]:
    """Exactly what Algorithm 1 makes of the votes that count, and the same whenever they are fetched."""
    for proof, labels in zip(case.proofs, case.labels, strict=True):
        if not np.array_equal(labels, case.labels[0]):
            yield "it was answered twice, and differently"
        if set(proof.states) != {"done"} and not scene.history.restores:
            yield f"it had labels when it was {proof.states}"
        if None in proof.rosters:
            if not (case.delete_asked or scene.history.restores):
                yield "its roster is gone"
            scene.counts["results without a record"] += 1
            continue
        yield from _right(scene, case, proof, labels)
    done = all(row is not None and row.state == JobState.DONE for row in rows)
    if done and not case.labels and not case.delete_asked:
        yield "it is done, and its labels could not be fetched"
    for row in rows:
        if row is not None and row.state == JobState.DONE and row.unfinished:
            yield f"it is done, and {row.unfinished} blocks are not final"


def _right(scene: Scene, case: Case, proof: Proof, labels: np.ndarray) -> Iterator[str]:
    (first, second), (seats, theirs) = proof.ballots, proof.seats
    if proof.rosters[0] != proof.rosters[1] or seats != theirs:
        yield f"the servers have different rosters: {seats}, {theirs}"
        return
    both = {teacher: one for teacher, one in first.items() if second.get(teacher) == one}
    for teacher, name in (*first.items(), *second.items()):
        if (teacher, name) not in case.sent:
            yield f"there is a ballot of {teacher} that it never sent"
            return
    if not scene.history.restores:
        if set(seats) != set(both):
            yield f"{seats} count, and both servers have the ballots of {sorted(both)}"
        if lost := {name for name, one in case.acknowledged.items() if both.get(name) != one}:
            yield f"acknowledged votes do not count: {sorted(lost)}"
    if len(seats) != len(set(seats)) or not set(seats) <= set(both):
        yield f"{seats} count, and both servers have the ballots of {sorted(both)}"
        return
    task = task_of(case.terms, *proof.rosters[0])
    votes = np.stack([case.sent[teacher, both[teacher]] for teacher in seats])
    if not np.array_equal(labels, labels_without_noise(task, votes)):
        yield "other labels than Algorithm 1 gives"
    scene.counts["results checked"] += 1


def _charged(scene: Scene, nodes: list[SimpleNamespace]) -> Iterator[str]:
    """Once and in full; whatever did not run has given back its reservation."""
    terms = {case.id: case.terms for case in scene.cases if case.terms is not None}
    for server, node in zip(scene.pair.servers, nodes, strict=True):
        with Ledger.open(load_settings(server.kit).ledger) as ledger:
            for cohort in ("teachers", "tight"):
                entries = ledger.jobs(cohort)
                used = ledger.status(cohort).rho
                total = sum(entry.rho for entry in entries if entry.state is not State.CANCELLED)
                if not np.isclose(used.spent + used.reserved, total, rtol=1e-9):
                    yield f"the ledger of {server.name} does not add up"
                for entry in entries:
                    if entry.job in terms and terms[entry.job].cohort == cohort:
                        yield from _entry(scene, server.name, ledger, terms[entry.job], entry, _row(node, entry.job))
                charged = {entry.job for entry in entries}
                for job, one in terms.items():
                    row = _row(node, job)
                    if row is not None and row.state == JobState.DONE and one.cohort == cohort and job not in charged:
                        yield f"job {job} is done at {server.name} and not on its ledger"


def _entry(
    scene: Scene, name: str, ledger: Ledger, terms: Terms, entry: Reservation, row: SimpleNamespace | None
) -> Iterator[str]:
    where, state = f"job {entry.job}: the ledger of {name}", entry.state.value
    if row is None:
        if not scene.history.restores:
            yield f"{where} knows a job that its store does not"
        scene.counts["charges of forgotten jobs"] += 1
    elif row.state == JobState.DONE:
        rho = charge_at(terms, ledger.status(terms.cohort).order).rho
        if state != "started" or not np.isclose(entry.rho, rho, rtol=1e-6):
            yield f"{where} says {state} and charges {entry.rho:.6g} for what costs {rho:.6g}"
    elif JobState(row.state) in ENDED_WITHOUT_RESULT:
        fine = {"cancelled", "started"} if row.state == JobState.FAILED else {"cancelled"}
        if state not in fine and not (scene.history.restores and state != "reserved"):
            yield f"{where} says {state} of a job that is {row.state}"


def reserved(scene: Scene) -> bool:
    """Whether a job of the history still holds a reservation at a server that knows it.

    One that a store put back has forgotten keeps it: nobody there can tell whether it ran (`_entry` counts these).
    """
    ids = {case.id for case in scene.cases if case.terms is not None}
    with scene.pair.stores() as nodes:
        for server, node in zip(scene.pair.servers, nodes, strict=True):
            with Ledger.open(load_settings(server.kit).ledger) as ledger:
                held = {entry.job for cohort in ("teachers", "tight") for entry in ledger.jobs(cohort, State.RESERVED)}
            if any(_row(node, job) is not None for job in held & ids):
                return True
    return False


def called_about_for_ever(scene: Scene) -> int:
    """Jobs that S1 has ended and wants to tell S0 of, which does not know them and does not listen."""
    with scene.pair.stores() as (node, other):
        with node.store.read() as connection:
            known = set(connection.execute(sa.select(jobs.c.id)).scalars())
        with other.store.read() as connection:
            untold = sa.select(jobs.c.id).where(jobs.c.state.in_(ENDED_WITHOUT_RESULT), ~jobs.c.peer_told)
            return len(set(connection.execute(untold).scalars()) - known)


def alarms(scene: Scene) -> int:
    """How often one server has ever accused the other."""
    found = 0
    with scene.pair.stores() as nodes:
        for node in nodes:
            with node.store.read() as connection:
                query = sa.select(sa.func.count()).where(log.c.action == "alarm")
                found += connection.execute(query).scalar_one()
    return found


def check_logs(scene: Scene, marks: dict[str, int]) -> Iterator[str]:
    """No secret, no fault of ours, and no job that fails without a reason."""
    restless = scene.history.restores
    deleted = {case.id for case in scene.cases if case.terms is not None and case.delete_asked}
    for name, content in scene.pair.log_since(marks).items():
        for line in content.splitlines():
            if b'"error"' not in line and b'"critical"' not in line:
                continue
            try:
                event = json.loads(line)
            except ValueError:  # torn by a kill
                continue
            if event.get("level") not in ("error", "critical"):
                continue
            kind = event.get("event")
            if kind in _OURS:
                yield f"{name} logged a fault: {line.decode()}"
            elif kind == "job.failed" and not (restless or event.get("job") in deleted):
                yield f"{name} gave up a job: {line.decode()}"
            elif kind != "job.failed" and not (restless and kind == "log.alarm"):
                yield f"{name} logged an error: {line.decode()}"
    try:
        scene.pair.check_logs()
    except AssertionError as error:
        yield f"the logs hold what they must not: {str(error)[:500]}"
