"""What the commands of a deployment share: finding the kit, showing progress, saying that a server is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from sedml.errors import KitError

if TYPE_CHECKING:
    from stamina.instrumentation import RetryDetails

__all__ = ["AsJson", "KitOption", "find_kit", "stages"]

_console = Console(stderr=True)

KitOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--kit", envvar="SEDML_KIT", help="Folder of your kit; unless given, the only one under ./kits that fits."
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


def find_kit(kit: Path | None, role: str) -> Path:
    """The kit that was given, or the only one of this role under ./kits."""
    if kit is not None:
        return kit
    found = sorted(path for path in Path("kits").glob(f"{role}-*") if path.is_dir())
    if len(found) == 1:
        return found[0]
    what = f"There are {len(found)} kits of a {role} under ./kits." if found else f"No kit of a {role} was given."
    raise KitError(what, "Say which with --kit, or set SEDML_KIT.")


@contextmanager
def stages() -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each stage on standard error, and a line if a server has to be asked again."""
    from stamina.instrumentation import set_on_retry_hooks

    # Without this, retries would be logged to standard output, in the middle of a document.
    set_on_retry_hooks([_notice])
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    try:
        with Progress(*columns, console=_console, transient=True) as bars:
            items: dict[str, TaskID] = {}

            def tell(what: str, done: int, total: int) -> None:
                if what not in items:
                    items[what] = bars.add_task(what)
                bars.update(items[what], completed=done, total=total)

            yield tell
    finally:
        set_on_retry_hooks(None)


def _notice(details: RetryDetails) -> None:
    if details.retry_num == 1:
        _console.print(f"{details.caused_by} Trying again.", markup=False, highlight=False, soft_wrap=True, style="dim")
