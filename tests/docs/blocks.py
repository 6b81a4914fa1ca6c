"""Blocks of code in a page: which there are, which are run and which, for a reason that is given, are not.

A page is read from top to bottom, in a folder of its own. A block of `python` sees the names of those before it, and a
block of `sh` the files. What a reader need not see stands in a comment, and is run all the same:

    <!-- setup
    ```sh
    touch kits
    ```
    -->

A block that cannot be run has `<!-- not run: why -->` in the line before it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

RUN = ("python", "sh")
# What is shown and not typed. Where there is a way to read it, it must be readable.
SHOWN = ("toml", "json", "ini", "nginx", "text")

_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=fence)[ \t]*$", re.M | re.S)
_REASON = re.compile(r"(?m:^)<!-- not run: (?P<reason>[^\n]*?) -->\n\Z")


@dataclass(frozen=True)
class Block:
    """One fenced block, and why it is not run, if it is not."""

    line: int
    language: str
    code: str
    reason: str | None


def blocks(page: str) -> list[Block]:
    """All blocks of a page, in order."""
    found = []
    for fence in _FENCE.finditer(page):
        reason = _REASON.search(page, 0, fence.start())
        line = page.count("\n", 0, fence.start()) + 1
        found.append(Block(line, fence["language"].strip(), fence["code"], reason["reason"] if reason else None))
    return found


def complaints(page: str) -> list[str]:
    """What is wrong with the blocks of a page before any is run."""
    found = []
    for block in blocks(page):
        if block.language not in RUN + SHOWN:
            found.append(f"line {block.line}: a block of {block.language or 'no language'}; use one of {RUN + SHOWN}")
        if block.reason is not None and (block.language in SHOWN or not block.reason.strip()):
            found.append(f"line {block.line}: what is not run says why, and could be run")
    if len(re.findall(r"^<!-- not run", page, re.M)) != sum(block.reason is not None for block in blocks(page)):
        found.append("a `not run` stands before no block: it belongs in the line above it")
    return found


def sedml_commands(code: str) -> Iterator[list[str]]:
    """The words after each `sedml` of a shell block."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=";&|<>()")
        words.whitespace_split = True
        command: list[str] = []
        for word in [*words, ";"]:
            if set(word) <= set(";&|<>()"):
                while command and re.fullmatch(r"\w+=.*", command[0]):
                    del command[0]
                if command and command[0].rpartition("/")[2] == "sedml":
                    yield command[1:]
                command = []
            else:
                command.append(word)
