"""Every block of code that people read is run, or says why not; its command lines are at least understood."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer
from blocks import RUN, Block, blocks, complaints, sedml_commands

from sedml.cli import app
from support.tiers import thorough

ROOT = Path(__file__).parents[2]
NAMES = ("README.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES = [ROOT / name for name in NAMES] + sorted(ROOT.glob("docs/**/*.md"))
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}
WITH_CODE = [name for name, text in TEXTS.items() if any(block.language for block in blocks(text))]
LIMIT_S = 60
# What a block has set is there in the next one, as in the terminal of somebody who pastes them one by one.
_SESSION = "set -a; if [ -f .session ]; then . ./.session; fi\n{code}\nexport -p > .session"


@pytest.fixture(scope="session")
def commands(tmp_path_factory) -> Path:
    """A folder with what a page may call: `sedml` and `python`, those of these tests."""
    folder = tmp_path_factory.mktemp("bin")
    for name, calls in (("sedml", "-m sedml "), ("python", ""), ("python3", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {calls}"$@"\n')
        (folder / name).chmod(0o755)
    return folder


def wrong_in(words: list[str]) -> str | None:
    """What `sedml` would say against a command line, None if it would take it; nothing is done."""
    command: Any = typer.main.get_command(app)
    words = list(words)
    while words and hasattr(command, "list_commands") and not words[0].startswith("-"):
        name = words.pop(0)
        command = command.get_command(command.context_class(command), name)
        if command is None:
            return f"There is no command {name}."
    try:
        command.make_context("sedml", words)
    except typer.Exit:  # --help and --version
        return None
    except Exception as error:  # of typer's own kind or of click's, as versions differ
        if hasattr(error, "format_message"):
            return str(error.format_message())
        raise
    return None


def run(block: Block, page: str, names: dict[str, Any], commands: Path) -> None:
    """Run one block where this process is. Nothing that it starts is left behind if it fails."""
    if block.language == "python":
        exec(compile("\n" * block.line + block.code, page, "exec"), names)
        return
    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": paths}
    shell = subprocess.Popen(
        ["bash", "-euo", "pipefail", "-c", _SESSION.format(code=block.code)],
        env=environment | {"COLUMNS": "120"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    names.setdefault("_started", []).append(shell.pid)
    said, _ = shell.communicate(timeout=LIMIT_S)
    assert shell.returncode == 0, f"{page}:{block.line}\n{said}"


def stop(groups: list[int]) -> None:
    """Tell what the blocks of a page have started to stop, and see it gone."""
    deadline = time.monotonic() + LIMIT_S
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGTERM)
            while True:
                os.killpg(group, 0 if time.monotonic() < deadline else signal.SIGKILL)
                time.sleep(0.02)


@pytest.mark.parametrize("page", TEXTS)
def test_every_block_has_a_language_and_is_run_or_says_why_not(page):
    assert complaints(TEXTS[page]) == []


LONG = {
    "docs/how-to/how-many-organisations.md",
    "docs/explanation/learning.md",
    "docs/explanation/privacy.md",
    "docs/tutorials/eight-hospitals.md",
    "docs/tutorials/one-machine.md",
}


@pytest.mark.parametrize("page", [pytest.param(page, marks=[thorough] * (page in LONG)) for page in WITH_CODE])
def test_a_page_runs_from_top_to_bottom(page, commands, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__", "_started": []}
    try:
        for block in blocks(TEXTS[page]):
            if block.language in RUN and block.reason is None:
                run(block, page, names, commands)
    finally:
        stop(names["_started"])


@pytest.mark.parametrize("page", WITH_CODE)
def test_every_command_line_of_a_page_is_understood(page):
    for block in blocks(TEXTS[page]):
        if block.language != "sh":
            continue
        for words in sedml_commands(block.code):
            assert wrong_in(words) is None, f"{page}:{block.line}: sedml {' '.join(words)}"


def told_to_install(text: str) -> list[str]:
    """What a text says to get from PyPI, where SEDML is not: a name where a checkout or a wheel should stand."""
    return re.findall(r"pip install [^\n`]*(?<![\w-])['\"]?sedml-pate(?![\w-])[^\n`]*", text)


def test_one_page_says_how_to_install():
    """And there the name stands for what is installed already."""
    texts = TEXTS | {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for pattern in ("examples/*", "deploy/**/*.md", "deploy/**/Containerfile")
        for path in ROOT.glob(pattern)
    }
    assert {name for name, text in texts.items() if told_to_install(text)} == {"docs/how-to/install.md"}
    assert told_to_install(TEXTS["docs/how-to/install.md"]) == ["pip install 'sedml-pate[torch]'"]


def test_an_install_of_what_is_not_there_is_noticed():
    assert told_to_install("pip install sedml-pate\npip install -U 'sedml-pate[server]'\n") != []
    assert told_to_install('pip install .\npip install "$(ls sedml_pate-*.whl)[server]"\n') == []


@pytest.mark.parametrize("page", WITH_CODE)
def test_what_is_shown_can_be_read(page):
    for block in blocks(TEXTS[page]):
        if block.language == "python":
            compile(block.code, page, "exec")
        if block.language in ("toml", "json"):
            (tomllib.loads if block.language == "toml" else json.loads)(block.code)


def test_pages_do_have_code():
    """If reading broke, everything above would pass."""
    found = [block for text in TEXTS.values() for block in blocks(text)]
    assert sum(block.reason is None and block.language in ("python", "sh") for block in found) >= 15
    assert sum(len(list(sedml_commands(block.code))) for block in found if block.language == "sh") >= 40


# What the tests above would notice


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```\nls\n```\n", "no language"),
        ("```bash\nls\n```\n", "a block of bash"),
        ("<!-- not run: long -->\n```toml\na = 1\n```\n", "could be run"),
        ("<!-- not run:  -->\n```sh\nls\n```\n", "says why"),
        ("<!-- not run: long -->\n\n```sh\nls\n```\n", "stands before no block"),
    ],
)
def test_a_block_that_nobody_runs_is_noticed(page, complaint):
    assert any(complaint in one for one in complaints(page)), complaints(page)


def test_a_hidden_block_is_found_and_one_with_a_reason_left_alone():
    page = "<!-- setup\n```sh\ntouch a\n```\n-->\n\n<!-- not run: two hosts -->\n```sh\nrm a\n```\n"
    assert blocks(page) == [Block(2, "sh", "touch a\n", None), Block(8, "sh", "rm a\n", "two hosts")]
    assert complaints(page) == []


def test_command_lines_are_found_wherever_they_stand():
    code = (
        "A=1 sedml up   # both\nJOB=$(sedml job list | head -1) && /opt/bin/sedml rotate \\\n  --kit x &\necho sedml\n"
    )
    assert list(sedml_commands(code)) == [["up"], ["job", "list"], ["rotate", "--kit", "x"]]


@pytest.mark.parametrize(
    "line", ["sedml job create --colour red", "sedml frobnicate", "sedml aggregate", "sedml up --teachers many"]
)
def test_a_command_line_that_cannot_be_typed_is_noticed(line):
    [words] = sedml_commands(line)
    assert wrong_in(words)


def test_a_block_that_fails_is_noticed(commands, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError, match="such file"):
        run(Block(7, "sh", "cat gone\ntrue\n", None), "page.md", {}, commands)
    with pytest.raises(ZeroDivisionError):
        run(Block(7, "python", "1 / 0\n", None), "page.md", {}, commands)
