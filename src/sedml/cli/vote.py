"""`sedml vote`: a teacher's vote on every sample of a job, or of each job that comes."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sedml.cli.clients import KitOption, find_kit, job_or_id
from sedml.cli.output import AsJson, answer, handling, stages
from sedml.privacy.unit import ORGANISATION

if TYPE_CHECKING:
    from sedml.service.client import VoteReceipt, WatchEvent

_FOR_WATCH = ("max_total_epsilon", "delta", "unit", "interval")


def vote(
    context: typer.Context,
    *,
    job: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The id of the job, or its first digits; `sedml job list` shows them. Default: the only open job.",
        ),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Your own model: .onnx, .pt2 (torch.export), or a joblib file; loading a joblib file runs its code."
        ),
    ] = None,
    models: Annotated[
        Path | None,
        typer.Option(
            help="A folder with a model for each part of your data, as `sedml train` makes it; each model has one vote."
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="One class per sample, by number or name (-1 abstains), or scores: .csv, .parquet, .npy or .npz. "
            "With several votes, one row or column for each. Rows with the samples' ids may come in any order."
        ),
    ] = None,
    balance: Annotated[
        bool,
        typer.Option(
            "--balance",
            help="For --models: correct each model for how frequent each class is in its own part. Use it only if your "
            "classes are not as frequent as in the job's samples; otherwise it costs accuracy.",
        ),
    ] = False,
    abstain_below: Annotated[
        float | None,
        typer.Option(
            help="For --models: abstain where a model is less sure than this, such as 0.9. Fewer votes, but a larger "
            "share of them correct."
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="For a model: the job's samples, if you have them. Default: download them."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="Which array of an .npz file of predictions to read.")] = None,
    max_epsilon: Annotated[
        float | None, typer.Option(help="Refuse a job that may cost more privacy (epsilon) than this.")
    ] = None,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Wait for jobs and vote on each within the limits, until Ctrl-C or SIGTERM."),
    ] = False,
    max_total_epsilon: Annotated[
        float | None,
        typer.Option(
            help="For --watch: the most that all votes with this kit may cost together. Default: --max-epsilon."
        ),
    ] = None,
    delta: Annotated[
        float, typer.Option(help="For --watch: the delta at which both limits hold, whatever delta a job has.")
    ] = 1e-5,
    unit: Annotated[
        str,
        typer.Option(
            help="For --watch: whom both limits protect, such as patient. A job that does not protect them costs them "
            "what it costs the organisation."
        ),
    ] = ORGANISATION,
    interval: Annotated[float, typer.Option(help="For --watch: seconds between checks for jobs.", min=0.05)] = 30.0,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Vote on every sample of a job. Each server gets one half of your ballot, and neither half reveals your votes.

    Voting again with the same predictions changes nothing, so it is safe to repeat a command that failed.

    With --watch, --max-epsilon is what any one job may cost and --max-total-epsilon what all votes with this kit may
    cost together, by the kit's own account in votes/. Each job is counted at the most that its terms allow. With
    --json, it prints one document per line for everything that happens.

    Example: sedml vote --kit kits/teacher-007 --job 3f2a --model model.joblib

    Example: sedml vote --kit kits/teacher-007 --job 3f2a --models models --abstain-below 0.9

    Example: sedml vote --kit kits/teacher-007 --watch --model model.joblib --max-epsilon 2 --max-total-epsilon 8
    """
    from sedml.service.client import Teacher
    from sedml.service.client.model_files import load_model
    from sedml.service.terms import promise_of

    if watch:
        if (model is None) == (models is None) or max_epsilon is None:
            raise typer.BadParameter("are needed to wait for jobs.", param_hint="--model or --models, --max-epsilon")
        if job is not None or predictions is not None or data is not None:
            raise typer.BadParameter("cannot go with it.", param_hint="--watch: --job, --predictions, --data")
        # One try at a time: the watch itself tries again, and says so once.
        teacher = Teacher(find_kit(kit, "teacher"), patience=0)
        events = teacher.watch(
            model,
            models=models,
            balance=balance,
            abstain_below=abstain_below,
            max_epsilon=max_epsilon,
            max_total_epsilon=max_total_epsilon,
            delta=delta,
            unit=unit,
            interval=interval,
        )
        total = max_epsilon if max_total_epsilon is None else max_total_epsilon
        if not as_json:
            limits = f"epsilon {max_epsilon:g} a job and {total:g} in all, for each {unit} at delta {delta:g}"
            typer.echo(f"Waiting for jobs, to vote on those within {limits}. Ctrl-C stops.")
        _follow(events, total, as_json)
        return
    sources = {name: context.get_parameter_source(name) for name in _FOR_WATCH}
    idle = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if idle:
        hint = ", ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise typer.BadParameter("would do nothing without --watch. --max-epsilon limits one job.", param_hint=hint)
    given = [one for one in (model, models, predictions) if one is not None]
    if len(given) != 1:
        what = "give one of the three." if not given else "give only one of the three."
        raise typer.BadParameter(what, param_hint="--model, --models, --predictions")
    teacher = Teacher(find_kit(kit, "teacher"))
    # Before anybody is asked: what cannot be loaded cannot vote.
    loaded = None if model is None else load_model(model)
    parts = None
    if models is not None:
        from sedml.parts.part_models import load_models

        parts = load_models(models, load_model)
    asked = job_or_id(teacher, job)
    if not as_json:
        view = teacher.status(asked) if isinstance(asked, str) else asked
        typer.echo(promise_of(view.terms))
    with stages() as progress:
        receipt = teacher.vote(
            asked,
            predictions,
            key=key,
            model=loaded,
            models=parts,
            balance=balance,
            abstain_below=abstain_below,
            data=data,
            max_epsilon=max_epsilon,
            progress=progress,
        )
    _acknowledged(receipt, as_json)


def _acknowledged(receipt: VoteReceipt, as_json: bool) -> None:
    """Say what both servers have on disk now."""
    halves = [half for half in (receipt.s0, receipt.s1) if half is not None]
    lines = [
        f"{half.server.upper()} has had its half on disk since {half.received_at:%Y-%m-%d %H:%M:%S} UTC."
        for half in halves
    ]
    teacher, parts = halves[0].teacher, halves[0].parts
    if parts is not None:
        lines.append(f"Both know your parts as {parts[:16]}... on this job, and nothing else about them.")
    found = {half.server: half.model_dump(mode="json") for half in halves}
    document = {"job": receipt.job, "complete": receipt.complete, "receipts": found}
    answer(as_json, document, *lines, f"The vote of {teacher} on job {receipt.job[:8]} counts.")


def _follow(events: Iterable[WatchEvent], total: float, as_json: bool) -> None:
    """Say what happens until Ctrl-C or SIGTERM, which is how a watch ends well."""
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
