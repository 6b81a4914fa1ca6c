"""What is not markup is printed as it is: names with square brackets, extras to install, emoji codes."""

import ast
import io
import re
import sys
from pathlib import Path

import click
import numpy as np
import pytest
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from typer.testing import CliRunner

import sedml.cli
from sedml.cli import app
from sedml.cli.output import complain, show, stages
from sedml.cli.protection import voters
from sedml.errors import FileFormatError, MissingExtraError, counted

ODD = ["[bold]x[/bold]", "[torch]", "[/]", "a:boom:b", r"back\[slash]", "[link=file:///x]y[/link]", "["]
TERMS = ["--classes", "3", "--threshold", "0.6", "--sigma", "0.2"]


@pytest.mark.parametrize("text", ODD)
def test_lines_cells_titles_and_captions_are_text(capsys, text):
    table = Table(title=text, caption=text, show_footer=True)
    table.add_column(text, footer=text)
    table.add_row(text)
    show(text, table)
    assert capsys.readouterr().out.count(text) == 6


@pytest.mark.parametrize("text", ODD)
def test_errors_are_text(capsys, text):
    complain(FileFormatError(f"{text} is odd.", f"Use another than {text}."))
    assert capsys.readouterr().err == f"error: {text} is odd.\n       Use another than {text}.\n"


@pytest.mark.parametrize("text", ODD)
def test_what_progress_is_of_is_text(monkeypatch, capsys, text):
    made = []

    class Kept(Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **options)
            made.append(self)

    monkeypatch.setattr("rich.progress.Progress", Kept)
    monkeypatch.setattr("sedml.cli.output._errors", Console(file=io.StringIO(), force_terminal=True, markup=False))
    with stages() as progress:
        progress(text, 1, 2)
        show(made[0].make_tasks_table(made[0].tasks))
    assert text in capsys.readouterr().out


def test_the_extra_to_install_is_shown_whole(monkeypatch, capsys):
    def fail(*_args, **_options):
        raise MissingExtraError("This needs torch, which is not installed.", "Run: pip install 'sedml-pate[torch]'")

    monkeypatch.setattr("sedml.learn.experiment.run_experiment", fail)
    monkeypatch.setattr(sys, "argv", ["sedml", "demo"])
    with pytest.raises(SystemExit):
        sedml.cli.main()
    assert "pip install 'sedml-pate[torch]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["[bold]x[-bold]", "[torch]", "a:boom:b"])
def test_file_names_are_shown_whole(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    np.save(f"{name}.npy", np.repeat([[0, 1, 2]], 9, axis=0))
    done = CliRunner().invoke(app, ["aggregate", f"{name}.npy", *TERMS, "--out", f"{name}-labels.npy"])
    assert done.exit_code == 0, done.output
    assert f"Labels written to {name}-labels.npy." in done.output
    provisioned = ["provision", "--servers", "a:1,b:2", "--teachers", "2", "--out", f"{name}-kits"]
    done = CliRunner().invoke(app, provisioned)
    assert done.exit_code == 0, done.output
    assert f"Kits in {name}-kits" in done.output
    assert f"Keep {name}-kits/authority offline:" in done.output


def test_options_that_cannot_be_used_are_quoted_whole():
    terms = ["--epsilon", "2", "--delta", "1e-5", "--samples", "10", "--objective", "[bold]x[/bold]"]
    done = CliRunner().invoke(app, ["privacy", "plan", *terms])
    assert done.exit_code == 2
    assert "[bold]x[/bold]" in done.output


def commands(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


def words(text):
    return re.sub(r"[\s│]+", "", text)


def test_help_texts_keep_their_brackets():
    bracketed = 0
    for path, command in commands(typer.main.get_command(app)):
        texts = [command.help, *(getattr(parameter, "help", None) for parameter in command.params)]
        texts = [text for text in texts if text and "[" in text]
        if texts:
            shown = words(CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}).output)
        for text in texts:
            bracketed += 1
            assert words(click.unstyle(text).replace("\\[", "[")) in shown, (path, text)
    assert bracketed


def test_only_one_module_makes_consoles_and_none_writes_markup():
    """The safe way is the only way: a console elsewhere would read brackets in a name as markup."""
    for file in Path(sedml.cli.__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("rich"):
                continue
            assert node.module != "rich.markup", file
            names = {alias.name for alias in node.names}
            assert file.name == "output.py" or "Console" not in names, file


def test_how_many_of_something():
    assert [counted(1, "class"), counted(2, "class"), counted(0, "id")] == ["1 class", "2 classes", "0 ids"]
    assert voters(1, 31) == "1 organisation x 31 votes"


@pytest.mark.parametrize(("group", "command"), [("job", "create"), ("job", "labels"), ("privacy", "report")])
def test_a_help_text_is_broken_by_the_terminal_alone(group, command):
    told = typer.main.get_command(app).commands[group].commands[command].help
    assert re.search(r"[^\n]\n[^\n]", told) is None
