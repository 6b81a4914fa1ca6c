"""`sedml reproduce`: the paper's tables and figures, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.output import AsJson, print_json, show, stages
from sedml.lab.reproduce.items import ITEMS, Run, about_now, items_named, run_items

_FAILED, _WRONG = 1, 3


def reproduce(
    item: Annotated[str, typer.Argument(help=f"all, or one of {', '.join(ITEMS)}.")],
    *,
    out: Annotated[Path, typer.Option(help="Folder for the page, the CSV files and the pictures.")] = Path("results"),
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="A small version of everything, to see that it works; its figures are not results."
        ),
    ] = False,
    data_dir: Annotated[
        Path | None, typer.Option(envvar="SEDML_DATA_DIR", help="Where the votes and images are.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where students train: auto, cpu or cuda.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure everything that the paper reports, next to its own numbers: CSV files, pictures, one page.

    Exit code 1 if an item fails, 3 if a label is wrong; what is not available here is skipped, with the reason.

    Example: sedml reproduce all --out results --data-dir data

    Example: sedml reproduce table1 --quick
    """
    from sedml.lab.reproduce import scale

    chosen = items_named(item)
    command = f"sedml reproduce {item}{' --quick' if quick else ''}"
    with stages() as progress:
        size = scale.QUICK if quick else scale.FULL
        settings = scale.Settings(out, size, data_dir, device, progress)
        found = run_items(chosen, settings, about_now(command))
    if as_json:
        print_json({"items": found.items, "failed": found.failed, "page": str(found.page)})
    else:
        _print(found)
    if not found.agrees:
        raise typer.Exit(_WRONG)
    if found.failed:
        raise typer.Exit(_FAILED)


def _print(found: Run) -> None:
    table = Table(title="The paper, and here", title_justify="left")
    for heading in ("item", "what", "the paper", "here", ""):
        table.add_column(heading)
    left_out = []
    for item in found.items:
        for line in item["headlines"]:
            table.add_row(item["name"], line["what"], line["paper"], line["ours"], line["verdict"])
        if item["skipped"]:
            left_out.append(f"Left out of {item['name']}: {item['skipped']}")
    verdict = (
        "Every label agrees with plain aggregation for the same noise."
        if found.agrees
        else Text("LABELS DIFFER from plain aggregation for the same noise.", style="bold red")
    )
    show(*([table] if table.rows else []), *left_out, verdict, f"Page: {found.page}")
