"""`sedml deal`: an independent dealer's one-use randomness for the jobs that name it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from sedml.cli.clients import AsJson, KitOption, find_kit, full_id
from sedml.cli.job_tables import job_document
from sedml.cli.output import complain, print_json, show, stages
from sedml.errors import SedmlError

if TYPE_CHECKING:
    from sedml.service.client import Dealer, JobView

__all__ = ["deal"]

_FIRST_PAUSE, _LAST_PAUSE = 0.5, 5.0


def deal(
    job: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Deal for this job only (its id or the first digits), and wait until its vote is over."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Keep dealing for whatever jobs come, until Ctrl-C.")] = False,
    kit: KitOption = None,
    as_json: AsJson = False,
) -> None:
    """Deal for the jobs that name you as their dealer: all that are waiting, or one.

    A dealer makes the one-use randomness that the two servers compute with. It must be trusted to deal it as the
    protocol says, and to keep it to itself: with one server's messages it could read votes.

    Dealing again sends the same bytes, so a command that failed can be repeated. With --watch and --json, it prints one
    document per line for every job.

    Example: sedml deal --kit kits/dealer-1 --watch
    """
    from sedml.service.client import Dealer

    if job is not None and watch:
        raise typer.BadParameter(
            "give only one of the two: --job waits for that job by itself.", param_hint="--job, --watch"
        )
    dealer = Dealer(find_kit(kit, "dealer"))
    if watch:
        _watch(dealer, as_json)
    dealt, errors = _deal(dealer, job)
    if as_json:
        print_json({"jobs": [job_document(view) for view in dealt]})
    else:
        show(*map(_said, dealt) if dealt or errors else ["No job is waiting for you."])
    if errors:
        raise errors[0]


def _deal(dealer: Dealer, job: str | None = None) -> tuple[list[JobView], list[SedmlError]]:
    """For one job, or for all that wait; a job that cannot be dealt for does not keep the others waiting."""
    dealt: list[JobView] = []
    errors: list[SedmlError] = []
    with stages() as progress:
        if job is not None:
            return [dealer.deal(full_id(dealer, job), progress)], []
        for view in dealer.jobs():
            if view.dealable:
                try:
                    dealt.append(dealer.deal(view.id, progress))
                except SedmlError as error:
                    errors.append(error)
    return dealt, errors


def _watch(dealer: Dealer, as_json: bool) -> NoReturn:
    """Go on for ever; say once what is wrong, and again after something went well."""
    pause, told = _FIRST_PAUSE, set[str]()
    while True:
        try:
            dealt, errors = _deal(dealer)
        except SedmlError as met:
            if not met.passing:
                raise
            dealt, errors = [], [met]
        if dealt:
            pause, told = _FIRST_PAUSE, set()
        for view in dealt:
            typer.echo(json.dumps(job_document(view)) if as_json else _said(view))
        for error in errors:
            if str(error) not in told:
                told.add(str(error))
                complain(error)
        time.sleep(pause)
        pause = min(_LAST_PAUSE, pause * 1.5)


def _said(view: JobView) -> str:
    return f"Dealt for job {view.id} of {view.terms.requester}."
