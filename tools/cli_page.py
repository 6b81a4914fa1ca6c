"""The command line as a page: made from the commands themselves, by who uses them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

__all__ = ["Command", "commands", "reference"]

_OPTION = re.compile(r"(?<![`\w-])(--[a-z][\w-]*)")
_EXAMPLE = re.compile(r"^Example: (.*?)(?=\n\n|\Z)", re.M | re.S)
_NOTES = re.compile(r"\s*\[((?:required|default|env var|x|\d)[^\[\]]*)\]$")
_RANGES = (
    (re.compile(r"\b(\S+)<=x<=(\S+)"), r"\1 to \2"),
    (re.compile(r"\bx>=(\S+)"), r"at least \1"),
    (re.compile(r"\bx<=(\S+)"), r"at most \1"),
    (re.compile(r"\bx>(\S+)"), r"above \1"),
    (re.compile(r"\bx<(\S+)"), r"below \1"),
)


class Command(NamedTuple):
    """One command: how it is called, who uses it, what it says of itself and of each of its words."""

    name: str
    panel: str
    about: str
    examples: tuple[str, ...]
    words: tuple[tuple[str, str], ...]

    @property
    def anchor(self) -> str:
        """Where it stands on the page."""
        return self.name.replace(" ", "-")

    @property
    def summary(self) -> str:
        """The first paragraph."""
        return self.about.partition("\n\n")[0].replace("\n", " ")


def commands() -> list[Command]:
    """All of them, in the order in which `sedml --help` shows those who use them."""
    from sedml.cli import app

    root = typer.main.get_command(app)
    return list(_below(root, typer.Context(root, info_name="sedml"), ""))


def reference() -> str:
    """A table of all commands, then each of them, in Markdown."""
    found = commands()
    panels = list(dict.fromkeys(one.panel for one in found))
    found.sort(key=lambda one: panels.index(one.panel))
    return "\n".join([*_overview(found), *_each(found)]) + "\n"


def _below(command: TyperCommand | TyperGroup, context: typer.Context, panel: str) -> Iterator[Command]:
    panel = getattr(command, "rich_help_panel", None) or panel
    if not isinstance(command, TyperGroup):
        yield _read(command, context, panel)
        return
    for name in command.list_commands(context):
        one = command.get_command(context, name)
        yield from _below(one, typer.Context(one, info_name=name, parent=context), panel)


def _read(command: TyperCommand, context: typer.Context, panel: str) -> Command:
    text = command.help or ""
    records = [param.get_help_record(context) for param in command.params]
    return Command(
        name=context.command_path,
        panel=panel,
        about=_EXAMPLE.sub("", text).strip(),
        examples=tuple(" ".join(example.split()) for example in _EXAMPLE.findall(text)),
        words=tuple(record for record in records if record),
    )


def _overview(found: list[Command]) -> Iterator[str]:
    for panel, some in groupby(found, key=lambda one: one.panel):
        yield f"\n**{panel}**\n\n| command | what it does |\n|---|---|"
        for one in some:
            yield f"| [`{one.name}`](#{one.anchor}) | {_marked(one.summary)} |"


def _each(found: list[Command]) -> Iterator[str]:
    for panel, some in groupby(found, key=lambda one: one.panel):
        yield f"\n## {panel}"
        for one in some:
            yield f"\n### `{one.name}` {{ #{one.anchor} }}\n\n{_marked(one.about)}\n"
            yield "```sh\n" + "\n".join(one.examples) + "\n```\n"
            yield "| option | what it is |\n|---|---|"
            for left, right in one.words:
                yield f"| `{left.replace(' range>', '>')}` | {_described(right)} |"


def _described(text: str) -> str:
    """What an option is, and after it in brackets what is required, what stands for it, and its limits."""
    notes = _NOTES.search(text)
    if notes is None:
        return _marked(text)
    said = notes[1]
    for pattern, words in _RANGES:
        said = pattern.sub(words, said)
    said = said.replace("default: ", "default ").replace("env var: ", "or the variable ")
    return f"{_marked(text[: notes.start()])} *({said})*"


def _marked(text: str) -> str:
    """Options in a sentence look as they are typed."""
    return _OPTION.sub(r"`\1`", text).replace("|", "&#124;")
