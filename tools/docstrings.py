"""Reads docstrings of the package as they are written, for the pages about its Python interface.

A line `name: what it is` about a parameter or a field becomes an item of a list, and a session in the interpreter a
block of code. The methods of the blocking clients, made from those of their asynchronous twins when the module is
imported, get the signatures and docstrings of these.
"""

from __future__ import annotations

import copy
import re

import griffe

_NAMES = re.compile(r"(\w+(?:, \w+)*) ?: (.*)")
_HEADING = re.compile(r"^Parameters\n-+\n", re.M)


class Docstrings(griffe.Extension):
    """Called by griffe, which reads the source for mkdocstrings."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        """Go over everything that was read."""
        blocking = pkg["service.client.blocking"]
        for kind in blocking.classes.values():
            for name, member in list(kind.members.items()):
                found = re.fullmatch(r"_blocking\((\w+)\.(\w+)\)", str(getattr(member, "value", "")))
                if found:
                    path = blocking[found[1]].target_path.removeprefix(f"{pkg.path}.")
                    twin = copy.copy(pkg[f"{path}.{found[2]}"])
                    twin.labels = twin.labels - {"async"}
                    kind.set_member(name, twin)
        _walk(pkg)


def _walk(thing: griffe.Object | griffe.Alias) -> None:
    for member in thing.members.values():
        if member.is_alias:
            continue
        if member.docstring is not None:
            names = _names_of(member)
            member.docstring.value = fenced(listed(member.docstring.value, names))
        _walk(member)


def _names_of(thing: griffe.Object | griffe.Alias) -> set[str]:
    if thing.is_function or thing.is_class:
        return {one.name for one in thing.parameters} | set(thing.members)
    return set()


def listed(text: str, names: set[str]) -> str:
    """The docstring with its lines about these names as a list."""
    lines: list[str] = []
    inside = False
    for line in _HEADING.sub("", text).splitlines():
        found = _NAMES.fullmatch(line)
        if found and set(found[1].split(", ")) <= names:
            if not inside:
                lines.append("")
            quoted = ", ".join(f"`{name}`" for name in found[1].split(", "))
            lines.append(f"- {quoted}: {found[2]}")
            inside = True
        else:
            if inside and line and not line.startswith(" "):
                lines.append("")
                inside = False
            lines.append(line)
    return "\n".join(lines)


def fenced(text: str) -> str:
    """The docstring with its sessions in the interpreter as blocks of code."""
    return re.sub(r"^>>> .*(?:\n.+)*", lambda session: f"```pycon\n{session[0]}\n```", text, flags=re.M)
