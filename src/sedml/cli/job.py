"""`sedml job`: create a job, look at it, run it, fetch its labels, delete it."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sedml.cli.clients import KitOption, find_kit, full_id
from sedml.cli.job_tables import SHORTEST_ID, job_document, job_list, job_view, result_table
from sedml.cli.output import AsJson, answer, plain_console, show, stages
from sedml.cli.protection import CLASSES, SpreadOption, UnitOption, VotesOption, read_class_names
from sedml.errors import counted
from sedml.files import check_labels_file
from sedml.privacy.unit import ORGANISATION

if TYPE_CHECKING:
    from sedml.service.client import JobResult, Operator, Requester, Teacher

job = typer.Typer(
    name="job", help="Jobs: create, watch and run them, fetch their labels, delete them.", no_args_is_help=True
)

JobArgument = Annotated[str, typer.Argument(metavar="ID", help="The job's id, or its first digits.")]
Out = Annotated[Path | None, typer.Option(help="Where to write the labels: .npy, .npz, .csv or .parquet.")]

_QUICK = 5.0
"""Seconds of patience where somebody only wants to look."""


@job.command()
def create(
    *,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The unlabelled samples: a table (.csv, .tsv, .parquet) with a row for each, .npz (array x, X, data, "
            "samples, or the only one) or .npy."
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option(
            help="Which column of a table has the samples' ids; teachers see them too. All others are features. "
            "Default: the first, if it is called like one (id, image_id)."
        ),
    ] = None,
    classes: Annotated[str | None, typer.Option(help=CLASSES)] = None,
    threshold: Annotated[
        str | None,
        typer.Option(help="How many votes make a consensus: a fraction of all votes (0.6) or a count (150)."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="The most privacy the job may cost each --unit: epsilon, where smaller is more private."),
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="The small probability with which epsilon may fail to hold, such as 1e-5.")
    ] = None,
    unit: UnitOption = ORGANISATION,
    votes: VotesOption = 1,
    spread: SpreadOption = 1,
    min_teachers: Annotated[
        int | None, typer.Option(help="The servers refuse the job if fewer teachers (organisations) have voted.")
    ] = None,
    deadline: Annotated[
        str | None, typer.Option(help="When voting ends: 45m, 12h, 7d, or a moment such as 2030-01-31T12:00.")
    ] = None,
    sigma: Annotated[
        float | None, typer.Option(help="Noise on every count, in votes. Default: as little as epsilon allows.")
    ] = None,
    title: Annotated[str, typer.Option(help="A title for teachers to see.")] = "",
    cohort: Annotated[
        str, typer.Option(help="The cohort (teachers who share a privacy budget) that the job is charged to.")
    ] = "teachers",
    resume: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Continue creating this job, which was interrupted; needs no other option."),
    ] = None,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Create a job: ask the teachers to vote on public samples, and upload those to both servers.

    If it is interrupted, the same command within a day continues it, and so does --resume: the terms are kept in
    jobs/ in the kit. Without --sigma, the job gets as little noise as epsilon allows.

    Example: sedml job create --data public.npz --classes 10 --threshold 0.6 --epsilon 2 --delta 1e-5
    --min-teachers 100 --deadline 7d

    Example: sedml job create --data public.csv --classes benign,malignant --threshold 0.7 --epsilon 1 --delta 1e-5
    --unit patient --votes 31 --min-teachers 8 --deadline 7d
    """
    from sedml.service.client import Requester

    requester = Requester(find_kit(kit, "requester"))
    if resume is not None:
        with stages() as progress:
            view = requester.resume(resume, progress)
    else:
        asked: dict[str, Any] = {
            "data": data,
            "classes": None if classes is None else read_class_names(classes),
            "threshold": threshold,
            "epsilon": epsilon,
            "delta": delta,
            "min_teachers": min_teachers,
            "deadline": deadline,
        }
        missing = [f"--{name.replace('_', '-')}" for name, value in asked.items() if value is None]
        if missing:
            raise typer.BadParameter("is needed to create a job.", param_hint=", ".join(missing))
        asked |= {"sigma": sigma, "unit": unit, "votes": votes, "spread": spread, "title": title, "cohort": cohort}
        asked["id_column"] = id_column
        with stages() as progress:
            view = requester.create(**asked, progress=progress)
    found = [] if data is None or as_json else _columns(data, id_column)
    having = "--models models" if view.terms.votes > 1 else "--model model.joblib"
    answer(
        as_json,
        job_document(view),
        *job_view(view),
        *found,
        f"Teachers vote with: sedml vote --job {view.id[:SHORTEST_ID]} {having}",
        f"When enough have: sedml job run {view.id[:SHORTEST_ID]} --out labels.csv",
    )


@job.command("list")
def list_(kit: KitOption = None, as_json: AsJson = False) -> None:
    """List the jobs that you can see: as a teacher, those open for votes; as a requester, your own.

    As an operator, all jobs of your server: their terms and how they stand. No
    server knows a vote or a label.

    Example: sedml job list --kit kits/requester-1
    """
    party = _party(kit)
    views = party.jobs()
    operator = party.asynchronous.kit.role == "operator"
    shown = job_list(views, for_operator=operator) if views else "There are no jobs."
    answer(as_json, {"jobs": [job_document(view) for view in views]}, shown)


@job.command()
def status(
    job_id: JobArgument,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep watching until the job has ended; as a teacher, until the vote has.")
    ] = False,
    interval: Annotated[float, typer.Option(help="Seconds between updates.", min=0.05)] = 1.0,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a job at both servers; as an operator, at yours.

    The servers work through a job in blocks, samples that are aggregated together.

    With --watch and --json, it prints one document per line whenever something changes.

    Example: sedml job status 3f2a --watch
    """
    party = _party(kit)
    job_id = full_id(party, job_id)
    if watch:
        _watch(party, job_id, interval, as_json)
        return
    view = party.status(job_id)
    answer(as_json, job_document(view), *job_view(view))


@job.command()
def run(
    job_id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="The job's id, or its first digits. Default: your only unfinished job."),
    ] = None,
    out: Out = None,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """End the vote, wait until the servers are done, and fetch the labels.

    If it is interrupted, the same command carries on from there. A vote with too few teachers is not ended before its
    deadline.

    Example: sedml job run 3f2a --kit kits/requester-1 --out labels.csv
    """
    if out is not None:
        check_labels_file(out)
    requester = _requester(kit)
    with stages() as progress:
        result = requester.run(full_id(requester, job_id), progress)
    _hand_over(result, out, as_json)


@job.command()
def labels(job_id: JobArgument, out: Out = None, kit: KitOption = None, as_json: AsJson = False) -> None:
    """Fetch the labels of a finished job: one class per sample, -1 where there was no consensus.

    Tables (.csv, .tsv, .parquet) have the samples' ids and the names of the classes, if they have any; a sample without
    a label then has none.

    Example: sedml job labels 3f2a --out labels.csv
    """
    from sedml.files import save_labels

    if out is not None:
        check_labels_file(out)
    requester = _requester(kit)
    with stages() as progress:
        job_id = full_id(requester, job_id)
        found = requester.labels(job_id, progress)
        names = requester.status(job_id).terms.class_names
    if out is not None:
        save_labels(out, found, names, requester.sample_ids(job_id))
    answered = int((found >= 0).sum())
    figures = {"id": job_id, "samples": found.size, "answered": answered, "class_names": names}
    line = f"{answered:,} of {found.size:,} samples have a label ({answered / found.size:.1%})."
    answer(as_json, figures | _where(out, found.tolist()), line, _written(out))


@job.command()
def fetch(
    job_id: JobArgument,
    out: Annotated[Path, typer.Option(help="A file (.npz, or .npy if that is what it is), or a folder.")] = Path(),
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Download the samples of a job and check them against its terms, to make predictions elsewhere.

    Example: sedml job fetch 3f2a --kit kits/teacher-007 --out samples.npz
    """
    from sedml.service.client import Teacher

    teacher = Teacher(find_kit(kit, "teacher"))
    with stages() as progress:
        path = teacher.fetch(full_id(teacher, job_id), out, progress)
    answer(as_json, {"file": str(path)}, str(path))


@job.command()
def delete(job_id: JobArgument, kit: KitOption = None, as_json: AsJson = False) -> None:
    """Delete everything that both servers hold for a job: ballots, randomness, labels, samples. It cannot be undone.

    As an operator, at your server; an unfinished job then ends at the other one too.

    Example: sedml job delete 3f2a
    """
    from sedml.service.client import Operator, Requester
    from sedml.service.kits import ClientKit

    loaded = ClientKit.load(find_kit(kit, "requester"))
    party = Operator(loaded) if loaded.role == "operator" else Requester(loaded)
    view = party.delete(full_id(party, job_id))
    where = "both servers" if len(view.asked) == 2 else view.asked[0].upper()
    answer(as_json, job_document(view), f"Job {view.id} is deleted at {where}.")


def _columns(data: Path, id_column: str | None) -> list[str]:
    """How the columns of a table of samples were read."""
    from sedml.protocol.class_names import shown_names
    from sedml.service.client.sample_tables import columns_of, is_table

    if not is_table(data, id_column):
        return []
    features, ids = columns_of(data, id_column)
    return [f"{counted(len(features), 'feature')}: {shown_names(features)}; ids: {ids or 'none, but numbers'}."]


def _watch(party: Requester | Teacher | Operator, job_id: str, interval: float, as_json: bool) -> None:
    """Redrawn in place on a terminal; elsewhere again whenever something has changed."""
    from rich.console import Group
    from rich.live import Live

    console, shown = plain_console(), None
    votes_only = party.asynchronous.kit.role == "teacher"
    with Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else nullcontext() as live:
        while True:
            view = party.status(job_id)
            document = job_document(view)
            if live is not None:
                live.update(Group(*job_view(view)), refresh=True)
            elif as_json and document != shown:
                typer.echo(json.dumps(document))
            elif document != shown:
                show(*job_view(view))
            shown = document
            # What becomes of a job after the vote is not for teachers.
            if view.over or (votes_only and view.state == "closed"):
                return
            time.sleep(interval)


def _party(kit: Path | None) -> Requester | Teacher | Operator:
    """Whoever has the kit; in a hurry."""
    from sedml.service.client import Operator, Requester, Teacher
    from sedml.service.kits import ClientKit

    loaded = ClientKit.load(find_kit(kit, "requester"))
    if loaded.role == "operator":
        return Operator(loaded, patience=_QUICK)
    return Teacher(loaded, patience=_QUICK) if loaded.role == "teacher" else Requester(loaded, patience=_QUICK)


def _requester(kit: Path | None) -> Requester:
    from sedml.service.client import Requester

    return Requester(find_kit(kit, "requester"))


def _hand_over(result: JobResult, out: Path | None, as_json: bool) -> None:
    from dataclasses import asdict

    from sedml.files import save_labels

    if out is not None:
        save_labels(out, result.labels, result.job.terms.class_names, result.ids)
    figures = {"answered": result.answered, "seconds": asdict(result.seconds) | {"total": result.seconds.total}}
    document = job_document(result.job) | figures | _where(out, result.labels.tolist())
    answer(as_json, document, result_table(result), _written(out))


def _where(out: Path | None, labels: list[int]) -> dict[str, Any]:
    """In a document the labels are in the file, or here if there is none."""
    return {"out": None, "labels": labels} if out is None else {"out": str(out)}


def _written(out: Path | None) -> str:
    return f"Labels written to {out}." if out else "Give --out to write them to a file."
