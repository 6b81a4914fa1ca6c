"""`sedml vote`: a teacher's vote on every sample of a job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sedml.cli.clients import KitOption, find_kit, full_id
from sedml.cli.output import AsJson, answer, stages
from sedml.cli.watch import follow

__all__ = ["vote"]


def vote(
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
            help="Your own model: .onnx, .pt2 (torch.export), or saved with joblib, and loading that runs its code."
        ),
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(help="One class per sample (negative to abstain), or scores: .npy, .npz, .csv or .parquet."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="For --model: the job's samples, if you have them. Default: download them.")
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
    interval: Annotated[float, typer.Option(help="For --watch: seconds between two looks.", min=0.05)] = 30.0,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Vote on every sample of a job. Each server gets one half of your ballot, and neither half reveals your votes.

    Voting again with the same predictions changes nothing, so it is safe to repeat a command that failed.

    With --watch, --max-epsilon is what any one job may cost and --max-total-epsilon what all votes with this kit may
    cost together, by the kit's own account in votes/. Each job counts at the most that its terms allow. With --json,
    it prints one document per line for everything that happens.

    Example: sedml vote --kit kits/teacher-007 --job 3f2a --model model.joblib

    Example: sedml vote --kit kits/teacher-007 --watch --model model.joblib --max-epsilon 2 --max-total-epsilon 8
    """
    from sedml.files import load_one_teacher
    from sedml.service.client import Teacher
    from sedml.service.client.model_files import load_model

    if watch:
        if model is None or max_epsilon is None:
            raise typer.BadParameter("is needed to wait for jobs.", param_hint="--model, --max-epsilon")
        if job is not None or predictions is not None or data is not None:
            raise typer.BadParameter("cannot go with it.", param_hint="--watch: --job, --predictions, --data")
        # One try at a time: the watch itself tries again, and says so once.
        teacher = Teacher(find_kit(kit, "teacher"), patience=0)
        follow(teacher, load_model(model), max_epsilon, max_total_epsilon, delta, interval, as_json)
        return
    if (model is None) == (predictions is None):
        raise typer.BadParameter("give one of the two, not both.", param_hint="--model, --predictions")
    teacher = Teacher(find_kit(kit, "teacher"))
    array = None if predictions is None else load_one_teacher(predictions, key)
    loaded = None if model is None else load_model(model)
    with stages() as progress:
        job = full_id(teacher, job)
        receipt = teacher.vote(job, array, model=loaded, data=data, max_epsilon=max_epsilon, progress=progress)
    halves = {"s0": receipt.s0, "s1": receipt.s1}
    found = {name: None if half is None else half.model_dump(mode="json") for name, half in halves.items()}
    lines = [
        f"{half.server.upper()} has had its half on disk since {half.received_at:%Y-%m-%d %H:%M:%S} UTC."
        for half in halves.values()
        if half is not None
    ]
    document = {"job": receipt.job, "complete": receipt.complete, "receipts": found}
    answer(as_json, document, *lines, "Your vote counts.")
