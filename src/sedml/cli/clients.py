"""What the commands of a deployment share: finding the kit, saying that a server is tried again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from sedml.cli.output import plain_console
from sedml.errors import InputError, KitError, NotFoundError

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

    from sedml.service.client import JobView, Operator, Requester, Teacher
    from sedml.service.messages import ServerName

_console = plain_console(stderr=True)
_ID = 32

KitOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--kit", envvar="SEDML_KIT", help="Folder of your kit. Default: the only one under ./kits that fits."),
]


def find_kit(kit: Path | None, role: str) -> Path:
    """The kit that was given, or the only one of this role under ./kits.

    Whoever has a kit calls servers: from here on a line on standard error says if one has to be asked again.
    """
    from stamina.instrumentation import set_on_retry_hooks

    from sedml.service.messages import a_role

    # Without this, retries would be logged to standard output, in the middle of a document.
    set_on_retry_hooks([_notice])
    if kit is not None:
        return kit
    found = sorted(path for path in Path("kits").glob(f"{role}-*") if path.is_dir())
    if len(found) == 1:
        return found[0]
    whose = a_role(role)
    what = f"There are {len(found)} kits of {whose} under ./kits." if found else f"No kit of {whose} was given."
    raise KitError(what, "Say which with --kit, or set SEDML_KIT.")


def find_operator(kit: Path | None) -> tuple[Operator, ServerName]:
    """The operator with this kit, or the only one's under ./kits, and the server that it looks after."""
    from sedml.service.client import Operator

    operator = Operator(find_kit(kit, "operator"))
    return operator, next(iter(operator.asynchronous.kit.servers))


def full_id(party: Requester | Teacher | Operator, text: str | None) -> str:
    """The id of the job that begins so, of those that the party knows; without a text, of the only one not over."""
    found = job_or_id(party, text)
    return found if isinstance(found, str) else found.id


def job_or_id(party: Requester | Teacher | Operator, text: str | None) -> JobView | str:
    """The same job as it stands, if that was asked on the way to its id."""
    from sedml.service.client.spending import voted_on

    if text is None:
        unfinished = [view for view in party.jobs() if not view.over]
        if len(unfinished) == 1:
            return unfinished[0]
        what = f"You can see {len(unfinished)} jobs that are not over." if unfinished else "There is no unfinished job."
        raise InputError(what, "Say which job you mean by its id; `sedml job list` shows them.")
    if len(text) >= _ID:
        return text
    kit = party.asynchronous.kit
    # Servers list a teacher the jobs that are open; which others it has voted on, its kit knows.
    known: dict[str, JobView | str] = {one: one for one in (voted_on(kit) if kit.role == "teacher" else ())}
    known |= {view.id: view for view in party.jobs()}
    found = [job for one, job in known.items() if one.startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{len(found)} jobs begin with {text}.", "Give more of the id.")
    if kit.role == "teacher":
        raise NotFoundError(
            f"No open job, and none that you voted on with this kit, has an id that begins with {text}.",
            "`sedml job list` shows the open ones. If the job has ended, give its whole id.",
        )
    raise NotFoundError(
        f"You have no job whose id begins with {text}."
        if kit.role == "requester"
        else f"No job on {next(iter(kit.servers)).upper()} has an id that begins with {text}.",
        "`sedml job list` shows all of them.",
    )


def _notice(details: RetryDetails) -> None:
    if details.retry_num == 1:
        _console.print(f"{details.caused_by} Trying again.", highlight=False, soft_wrap=True, style="dim")
