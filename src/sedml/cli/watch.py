"""What `sedml vote --watch` says while it waits for jobs, and how it is stopped."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from sedml.cli.output import handling

if TYPE_CHECKING:
    from sedml.service.client import Teacher, WatchEvent

__all__ = ["follow"]


def follow(
    teacher: Teacher,
    model: object,
    max_epsilon: float,
    max_total_epsilon: float | None,
    delta: float,
    interval: float,
    as_json: bool,
) -> None:
    """Say what happens until Ctrl-C or SIGTERM, which is how a watch ends well."""
    total = max_epsilon if max_total_epsilon is None else max_total_epsilon
    events = teacher.watch(
        model, max_epsilon=max_epsilon, max_total_epsilon=max_total_epsilon, delta=delta, interval=interval
    )
    if not as_json:
        limits = f"epsilon {max_epsilon:g} a job and {total:g} in all, at delta {delta:g}"
        typer.echo(f"Waiting for jobs, to vote on those within {limits}. Ctrl-C stops.")
    # A shell's background jobs would ignore the first.
    with handling(signal.default_int_handler, "SIGINT", "SIGTERM"):
        try:
            for event in events:
                typer.echo(json.dumps(_document(event)) if as_json else _line(event, total))
        except KeyboardInterrupt:
            if not as_json:
                typer.echo("Stopped. What was voted on stays voted on.")


def _line(event: WatchEvent, most: float) -> str:
    moment = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} "
    if event.what == "away":
        return f"{moment}{event.reason} Trying again until it works."
    if event.job is None or event.epsilon is None or event.total is None:
        return f"{moment}The servers answer again."
    title = event.job.terms.title
    job = f"{moment}{event.what} {event.job.id}" + (f" ({title})" if title else "")
    if event.what == "skipped":
        return f"{job}: {event.reason}"
    return f"{job}: epsilon {event.epsilon:.4g}, {event.total:.4g} of {most:g} in all."


def _document(event: WatchEvent) -> dict[str, Any]:
    terms = None if event.job is None else event.job.terms
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "event": event.what,
        "job": None if terms is None else terms.id,
        "title": None if terms is None else terms.title,
        "reason": event.reason or None,
        "epsilon": event.epsilon,
        "total_epsilon": event.total,
    }
