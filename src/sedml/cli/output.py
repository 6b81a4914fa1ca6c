"""What a person sees: tables on standard output; progress and errors on standard error."""

from __future__ import annotations

import json
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from sedml import Progress, silent
from sedml.errors import InputError, SedmlError, SedmlWarning

if TYPE_CHECKING:
    from rich.table import Table

    from sedml.aggregation.both_servers import Stats
    from sedml.privacy.accounting import PrivacyReport

_MOST_BARS = 4

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: brackets and colons are no markup. What has a style is a `Text`."""
    return Console(stderr=stderr, markup=False, emoji=False)


_errors = plain_console(stderr=True)


def complain(error: SedmlError) -> int:
    """Say what happened and what to do; the exit code that belongs to it."""
    _say("error:", "bold red", error)
    return 2 if isinstance(error, InputError) else 1


def _say(word: str, style: str, what: SedmlError | SedmlWarning) -> None:
    _errors.print(Text.assemble((word, style), f" {what.what}"), soft_wrap=True)
    _errors.print(Text(f"{' ' * len(word)} {what.do}"), soft_wrap=True)


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Say what the package warns of as it says what went wrong; other warnings are Python's business."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def tell(message: Warning | str, *details: Any, **more: Any) -> None:  # noqa: ANN401 - as Python calls it
            if isinstance(message, SedmlWarning):
                _say("warning:", "bold yellow", message)
            else:
                others(message, *details, **more)

        warnings.simplefilter("always", SedmlWarning)
        warnings.showwarning = tell
        yield


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on standard output, with null for infinity, which JSON does not have."""
    from sedml.files.documents import finite

    typer.echo(json.dumps(finite(document), indent=2, allow_nan=False))


def answer(as_json: bool, document: dict[str, Any], *shown: Table | Text | str) -> None:
    """What a command has to say: a document for programs, or tables and lines for people."""
    if as_json:
        print_json(document)
    else:
        show(*shown)


def show(*tables: Table | Text | str) -> None:
    """Tables and lines for people on standard output."""
    console = plain_console()
    for table in tables:
        # A line is not broken: it may hold a path or a command to copy. A paragraph, as Text, is.
        console.print(table, soft_wrap=isinstance(table, str))


def size(count: float) -> str:
    """Bytes for people: 76.2 KB."""
    for unit in ("B", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def duration(seconds: float) -> str:
    """Seconds for people: 4.3 ms."""
    if seconds < 1:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def cost_table(stats: Stats) -> Table:
    """Time, rounds and traffic of each phase."""
    from rich.table import Table

    names = {"set-up": "set-up", "preparation": "preparation, without votes", "votes": "from votes to labels"}
    table = Table(title="Between the servers", title_justify="left", show_footer=True)
    table.add_column("phase", footer="in all")
    table.add_column("time", justify="right", footer=duration(stats.seconds))
    table.add_column("rounds", justify="right", footer=str(stats.rounds))
    table.add_column("both ways", justify="right", footer=size(stats.server_bytes))
    for phase, cost in stats.phases.items():
        table.add_row(names[phase], duration(cost.seconds), str(cost.rounds), size(cost.bytes))
    return table


def epsilon_rows(privacy: PrivacyReport) -> list[tuple[str, str]]:
    """What a job costs in privacy: the figure that is charged, what it is if nobody colludes, and for whom it is."""
    from sedml.privacy.unit import judged

    unit = privacy.unit
    rows = [
        (f"epsilon for each {unit.name}", f"{privacy.epsilon:.4g} at delta {privacy.delta:g}"),
        ("  if neither operator works with the requester", f"{privacy.epsilon_apart:.4g}"),
    ]
    if unit.moves < unit.votes:
        rows.append(("epsilon for an organisation", judged(privacy.epsilon_organisation)))
    return rows


@contextmanager
def stages() -> Iterator[Progress]:
    """A bar on standard error for each thing that is done, gone when all is done; silent where nobody looks at it."""
    if not _errors.is_terminal:
        yield silent
        return
    from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Bars(*columns, console=_errors, transient=True) as bars:
        items: dict[str, TaskID] = {}

        def progress(what: str, done: int, total: int) -> None:
            if what not in items:
                items[what] = bars.add_task(what)
                for oldest in list(items)[:-_MOST_BARS]:
                    bars.remove_task(items.pop(oldest))
            bars.update(items[what], completed=done, total=total)

        yield progress


@contextmanager
def handling(handler: Callable[..., Any], *names: str) -> Iterator[None]:
    """Let this function handle these signals, as far as the system has them; afterwards they are as before."""
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = [(number, signal.signal(number, handler)) for number in numbers]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, earlier)
