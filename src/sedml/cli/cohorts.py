"""`sedml budget`: what is left of the privacy that each cohort was promised, and a teacher's own account and limit."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.clients import KitOption, find_kit
from sedml.cli.output import AsJson, answer
from sedml.errors import InputError

if TYPE_CHECKING:
    from sedml.service.client.budgets import Budgets

_UNKNOWN = 1
_BAR = 10
_ONE_ORDER = (
    "Epsilons do not add up: the books count all jobs at one Rényi order, at which the first job may show several "
    "times the epsilon of its terms, and later ones add little."
)

LimitOption = Annotated[
    float | None, typer.Option("--limit", help="For teachers: what all jobs together may cost you, in epsilon.")
]
NoLimit = Annotated[bool, typer.Option("--no-limit", help="For teachers: remove your own limit.")]


def budget(
    kit: KitOption = None, limit: LimitOption = None, no_limit: NoLimit = False, as_json: AsJson = False
) -> None:
    """Show how much of each cohort's privacy budget is used, at each server that your kit has access to.

    A budget protects each organisation, or each patient or customer whose data it holds. A server refuses a job that
    would use more than is left. Teachers see their own account too: what the jobs that counted their votes cost. With
    `--limit`, a teacher sets a limit of its own at both servers: from then on, no job that could exceed it counts
    the teacher's votes.

    Exit code 1 if a server does not answer.

    Example: sedml budget --kit kits/teacher-007 --limit 2
    """
    import anyio

    from sedml.service.client.budgets import read_budgets, set_limit
    from sedml.service.kits import ClientKit

    loaded = ClientKit.load(find_kit(kit, "requester"))
    if limit is not None or no_limit:
        if loaded.role != "teacher":
            raise InputError(f"{loaded.name} is not a teacher.", "Only teachers have a limit of their own.")
        if limit is not None and no_limit:
            raise InputError("--limit and --no-limit contradict each other.", "Use one of them.")
        if limit is not None and not 0 < limit < float("inf"):
            raise InputError(f"A limit of {limit:g} makes no sense.", "Use a number above 0.")
        anyio.run(set_limit, loaded, limit)
    found = anyio.run(read_budgets, loaded)
    document = {
        "cohorts": [asdict(line) for line in found.lines],
        "own": {name: own.model_dump() for name, own in found.own.items()},
        "problems": {name: str(error) for name, error in found.problems.items()},
    }
    notes = [Text(f"{name.upper()}: {error.what}", style="red") for name, error in found.problems.items()]
    tables = [_cohorts(found)] if found.lines else [Text("No cohort has a budget.")]
    answer(as_json, document, *tables, *([_own(found)] if found.own else []), *notes)
    if found.problems:
        raise typer.Exit(_UNKNOWN)


def _cohorts(found: Budgets) -> Table:
    whom = sorted({f"The budget of {line.cohort} protects each {line.unit}." for line in found.lines})
    table = Table(title="Privacy budgets", title_justify="left", caption="\n".join(whom), caption_justify="left")
    table.add_column("cohort", overflow="fold")
    table.add_column("server")
    table.add_column("epsilon", justify="right", no_wrap=True)
    table.add_column("at delta", justify="right", no_wrap=True)
    table.add_column("used", no_wrap=True)
    table.add_column("reserved", justify="right")
    for line in found.lines:
        promise = f"{line.epsilon:.4g}", f"{line.delta:.4g}"
        used = f"{_bar(line.used_share)} {_percent(line.used_share)}"
        table.add_row(line.cohort, line.server.upper(), *promise, used, _percent(line.reserved_share))
    return table


def _own(found: Budgets) -> Table:
    table = Table(title="Spent on your votes", title_justify="left", caption=_ONE_ORDER, caption_justify="left")
    table.add_column("server")
    table.add_column("your cohort", overflow="fold")
    table.add_column("of its budget", no_wrap=True)
    table.add_column("epsilon, for each", justify="right")
    table.add_column("your limit", justify="right", no_wrap=True)
    for name, own in found.own.items():
        share = f"{_bar(own.used)} {_percent(own.used)}"
        limit = "none" if own.limit is None else f"{own.limit:.4g}"
        spent = f"{own.used_epsilon:.4g}" + (f", {own.unit}" if own.unit else "")
        table.add_row(name.upper(), own.cohort or "none yet", share, spent, limit)
    return table


def _bar(share: float) -> str:
    full = round(share * _BAR)
    return "█" * full + "░" * (_BAR - full)


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"
