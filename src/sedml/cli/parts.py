"""`sedml shard` and `sedml train`: an organisation's data in parts without a common unit, and a model for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from sedml.cli.output import AsJson, answer, stages
from sedml.errors import InputError, counted

if TYPE_CHECKING:
    from sedml.parts.checking import Examined
    from sedml.parts.part_manifest import Parts
    from sedml.parts.part_models import ModelSet

_WRONG = 3

_By = Annotated[
    str | None, typer.Option(help="The column (or npz array) that has the id of a record's unit, such as patient_id.")
]
_Unit = Annotated[
    str | None, typer.Option(help="What a unit is, in the word that jobs use. Default: --by without _id.")
]
_Spread = Annotated[
    int, typer.Option(min=1, help="In how many parts the same unit may be. Only for parts made by other means.")
]


def shard(
    data: Annotated[
        Path, typer.Argument(help="The records: .csv, .tsv, .parquet or .npz. With --check: a folder of parts.")
    ],
    *,
    by: _By = None,
    unit: _Unit = None,
    parts: Annotated[
        int | None, typer.Option(help="How many parts: as many as the votes you cast on a sample.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the parts, their key and manifest.json.")] = None,
    files: Annotated[
        Path | None, typer.Option(help="The records are a list of files of this folder; they are not copied.")
    ] = None,
    file_column: Annotated[str, typer.Option(help="For --files: the column that names the file.")] = "file",
    key: Annotated[
        Path | None, typer.Option(help="A shard.key of another folder, so that units land in the same parts as there.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Look for units in several parts, missing ids and changed files.")
    ] = False,
    spread: _Spread = 1,
    as_json: AsJson = False,
) -> None:
    """Split your records so that all records of a unit, such as a patient, are in one part: one unit, one vote.

    The part depends on the unit's id and a secret key, and on nothing else. Run it again on a longer file: whoever was
    there stays where they were. Ids that differ in nothing but case, signs, spaces and leading zeros are one
    unit. No id is printed, or in
    manifest.json.

    With --check it prints what is wrong and ends with exit code 3 if a unit is in more parts than it may be, an id is
    missing, or a file is not as it was made. Parts made by other means need --by.

    Example: sedml shard patients.csv --by patient_id --parts 31 --out parts

    Example: sedml shard list.csv --by patient_id --files scans --parts 31 --out parts

    Example: sedml shard --check parts
    """
    if check:
        _check(data, by, unit, spread, as_json)
        return
    if by is None or parts is None or out is None:
        raise typer.BadParameter("are needed to split records.", param_hint="--by, --parts, --out")
    if spread != 1:
        raise typer.BadParameter("goes with --check.", param_hint="--spread")
    from sedml.parts import shard as split

    with stages() as progress:
        made = split(
            data,
            by=by,
            unit=unit,
            parts=parts,
            out=out,
            files=files,
            file_column=file_column,
            key=key,
            progress=progress,
        )
    keep = f"Keep {out} to yourself: it has the records, and the key by which units get their parts."
    answer(as_json, _document(made), _heading(made), _table(made), "Every unit is in one part.", Text(keep))


def train(
    parts: Annotated[Path, typer.Argument(help="A folder of parts, from `sedml shard`.")],
    *,
    label: Annotated[str, typer.Option(help="The column (or npz array) that has the class, as a number or a name.")],
    out: Annotated[Path, typer.Option(help="Folder for the models and their manifest.json.")],
    model: Annotated[
        str, typer.Option(help="logistic, forest, boosting, or the import path of a scikit-learn classifier.")
    ] = "logistic",
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A parameter of the classifier; may be repeated.")
    ] = None,
    by: _By = None,
    unit: _Unit = None,
    spread: _Spread = 1,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same models.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Check the parts, then train one model on each of them alone, with its own scaling and encoding.

    All columns but the id and the label are features, and the samples of a job must have them in the same order.
    Numbers are scaled, words become one column each, gaps are filled. A part with fewer than two classes gets a model
    that abstains.

    Example: sedml train parts --label diagnosis --model boosting --out models

    Example: sedml train parts --label diagnosis --model forest --param n_estimators=300 --out models
    """
    from sedml.parts.training import train_parts

    with stages() as progress:
        trained = train_parts(
            parts,
            label=label,
            out=out,
            model=model,
            params=dict(map(_parameter, param or [])),
            by=by,
            unit=unit,
            spread=spread,
            seed=seed,
            progress=progress,
        )
    classes = [one.counts for one in trained.models]
    table = _counts(records=[sum(counts.values()) for counts in classes], classes=[len(counts) for counts in classes])
    idle = [f"{one.name} abstains from every vote: {one.abstains}." for one in trained.models if one.abstains]
    done = f"{len(classes)} models ({trained.model}) are in {out}. Keep them to yourself."
    answer(as_json, _trained(trained), _heading(trained.parts), table, *idle, done)


def _check(folder: Path, by: str | None, unit: str | None, spread: int, as_json: bool) -> None:
    from sedml.parts.checking import examine

    with stages() as progress:
        found = examine(folder, by=by, unit=unit, spread=spread, progress=progress)
    most = found.parts.spread
    good = Text(f"No unit is in more than {'one part' if most == 1 else f'{most} parts'}.")
    wrong = [Text.assemble(("wrong: ", "bold red"), problem) for problem in found.problems]
    answer(as_json, _examined(found), _heading(found.parts), _table(found.parts), *(wrong or [good]))
    if wrong:
        raise typer.Exit(_WRONG)


def _parameter(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InputError(f"--param {text} has no value.", "Write it as NAME=VALUE, such as C=0.1.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _counts(**rows: list[int]) -> Table:
    table = Table()
    table.add_column("a part has")
    for name in ("least", "mean", "most"):
        table.add_column(name, justify="right")
    for what, counts in rows.items():
        table.add_row(what, f"{min(counts):,}", f"{sum(counts) / len(counts):,.1f}", f"{max(counts):,}")
    return table


def _table(parts: Parts) -> Table:
    return _counts(units=[part.units for part in parts.files], records=[part.records for part in parts.files])


def _heading(parts: Parts) -> str:
    units = f"{counted(parts.units, 'unit')} ({parts.unit}, by {parts.by})"
    return f"{counted(parts.records, 'record')} of {units} in {counted(len(parts.files), 'part')}"


def _document(parts: Parts) -> dict[str, Any]:
    return {"digest": parts.digest, **parts.model_dump(mode="json")}


def _examined(found: Examined) -> dict[str, Any]:
    return {
        "ok": not found.problems,
        "problems": list(found.problems),
        "overlaps": {str(number): count for number, count in found.overlaps.items()},
        "pairs": [[*pair, count] for pair, count in found.pairs.items()],
        **_document(found.parts),
    }


def _trained(trained: ModelSet) -> dict[str, Any]:
    return trained.model_dump(mode="json") | {"parts": _document(trained.parts)}
