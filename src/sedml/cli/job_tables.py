"""Jobs for people and for machines: tables, and the documents of `--json`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from sedml.cli.output import duration, epsilon_rows
from sedml.cli.protection import classes_row, voters

if TYPE_CHECKING:
    from sedml.service.client import JobResult, JobView
    from sedml.service.messages import CohortStatus
    from sedml.service.terms import Terms


SHORTEST_ID = 8
"""Digits of an id that people are shown, if they tell the jobs apart."""


def job_document(view: JobView) -> dict[str, Any]:
    """A job as both servers see it, as JSON."""
    from sedml.service.terms import job_cost

    least, most = view.votes
    return {
        "id": view.id,
        "state": "deleted" if view.phase == "deleted" else view.state.value,
        "phase": view.phase,
        "votes": {"least": least, "most": most},
        "teachers": view.teachers,
        "samples": view.terms.samples,
        "samples_done": view.samples_done,
        "eta_seconds": view.eta_seconds,
        "waiting_for": view.waiting_for,
        "privacy": asdict(job_cost(view.terms)),
        "terms": view.terms.model_dump(mode="json"),
        "servers": {
            name: None if status is None else status.model_dump(mode="json", exclude={"terms", "id"})
            for name, status in (("s0", view.s0), ("s1", view.s1))
            if name in view.asked
        },
        "problems": {name: str(error) for name, error in view.problems.items()},
    }


def job_list(views: list[JobView], *, for_operator: bool = False) -> Table:
    """Many jobs, one a line."""
    ids = short_ids(view.id for view in views)
    table = Table(title="Jobs", title_justify="left")
    table.add_column("id", no_wrap=True)
    figures = ("age",) if for_operator else ("samples", "epsilon")
    for column in ("title", "phase", "votes", *figures, "ends (UTC)"):
        right = column in ("votes", *figures)
        table.add_column(column, justify="right" if right else "left", no_wrap=column not in ("title", "phase"))
    for view in views:
        terms = view.terms
        own = (_age(view),) if for_operator else (f"{terms.samples:,}", f"{terms.epsilon:g}")
        table.add_row(
            ids[view.id],
            terms.title,
            view.phase,
            f"{_votes(view)} of {terms.min_teachers:,}",
            *own,
            _moment(terms.deadline).removesuffix(" UTC"),
        )
    return table


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Each id with as many of its digits as tell it apart, which is what commands need."""
    known = set(ids)
    digits = next(n for n in range(SHORTEST_ID, 33) if len({one[:n] for one in known}) == len(known))
    return {one: one[:digits] for one in known}


def job_view(view: JobView) -> list[Table]:
    """One job: what it is, and how it stands at each server."""
    terms = view.terms
    facts = Table(title=f"Job {view.id}", title_justify="left", show_header=False)
    if terms.title:
        facts.add_row("title", terms.title)
    share = f", {view.samples_done / terms.samples:.0%}" if view.phase == "aggregating" else ""
    facts.add_row("phase", view.phase + share)
    for status in view.statuses:
        if view.phase == "deleted" and status.deleted_at is not None:
            by = "the server itself, after its time" if status.deleted_by == status.server else status.deleted_by
            facts.add_row(f"deleted at {status.server.upper()}", f"{status.deleted_at:%Y-%m-%d %H:%M} UTC by {by}")
    facts.add_row("votes in", f"{_votes(view)}, at least {voters(terms.min_teachers, terms.votes)} needed")
    facts.add_row("voting ends", _moment(terms.deadline))
    facts.add_row("samples", f"{terms.samples:,} of {classes_row(terms.classes, terms.class_names)}")
    if view.eta_seconds is not None:
        facts.add_row("done in about", duration(view.eta_seconds))
    facts.add_row("threshold, noise", f"{_threshold(view)}, sigma {terms.sigma:g}")
    facts.add_row("costs at most", f"epsilon {terms.epsilon:g} at delta {terms.delta:g}")
    facts.add_row("for whom", _promise(terms))
    if view.budget is not None:
        facts.add_row("budget", _budget(view.budget))
    if view.waiting_for is not None:
        facts.add_row("the servers say", view.waiting_for)
    return [facts, _servers(view)]


def result_table(result: JobResult) -> Table:
    """A finished job."""
    seconds, samples = result.seconds, result.task.samples
    table = Table(title=f"Job {result.job.id}", title_justify="left", show_header=False)
    table.add_row("teachers", voters(result.task.teachers, result.task.votes))
    table.add_row("consensus", f"{result.answered:,} of {samples:,} samples ({result.answered / samples:.1%})")
    for what, text in epsilon_rows(result.privacy):
        table.add_row(what, text)
    for what, value in (
        ("agreeing on who voted", seconds.closing),
        ("aggregating", seconds.aggregating),
        ("fetching the labels", seconds.fetching),
        ("in all", seconds.total),
    ):
        table.add_row(what, duration(value))
    return table


def _threshold(view: JobView) -> str:
    """Of the votes of all who take part, or of those who must."""
    from sedml.protocol.thresholds import threshold_count

    terms = view.terms
    most = terms.votes * (view.teachers or max(terms.min_teachers, view.votes[1]))
    return f"{threshold_count(terms.threshold, most):,} of {most:,} votes"


def _promise(terms: Terms) -> str:
    from sedml.service.terms import job_cost

    unit = terms.protected
    whole = job_cost(terms).epsilon_organisation if unit.moves < unit.votes else terms.epsilon
    return unit.promise(terms.epsilon, whole, "a teacher's", "that teacher's")


def _servers(view: JobView) -> Table:
    table = Table()
    table.add_column("server")
    for column in ("state", "votes", "blocks done", "time"):
        table.add_column(column, justify="left" if column == "state" else "right")
    for name in view.asked:
        status = view.s0 if name == "s0" else view.s1
        if status is None:
            error = view.problems.get(name)
            table.add_row(name.upper(), Text("not known here" if error is None else error.what, style="red"))
            continue
        state = "deleted" if status.deleted else status.state.value
        done = f"{status.blocks_done} of {status.blocks}" if status.blocks else ""
        spent = duration(status.protocol_seconds) if status.protocol_seconds else ""
        table.add_row(name.upper(), state, f"{status.votes:,}", done, spent)
    return table


def _votes(view: JobView) -> str:
    least, most = view.votes
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _budget(budget: CohortStatus) -> str:
    used = (budget.rho_spent + budget.rho_reserved) / budget.rho_limit
    promise = f"epsilon {budget.epsilon:g} at delta {budget.delta:g}"
    return f"{used:.1%} used of {promise}, promised to each {budget.unit} of {budget.cohort}"


def _age(view: JobView) -> str:
    hours = (datetime.now(UTC) - min(status.created_at for status in view.statuses)).total_seconds() / 3600
    if hours < 2:
        return f"{hours * 60:.0f} min"
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"


def _moment(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
