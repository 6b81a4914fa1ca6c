"""The HTTP interface of a server as tables: made from what the server itself says of it (`GET /openapi.json`)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["described", "endpoints"]

_PHRASES = {"200": "done", "201": "made"}


def described() -> dict[str, Any]:
    """The interface as the server describes it."""
    from sedml.service import kits
    from sedml.service.server.http import App
    from sedml.service.server.node import open_node
    from sedml.service.server.settings import load_settings

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "kits"
        kits.provision(place, ("127.0.0.1:8440", "127.0.0.1:8441"), None, 0, 0)
        kit = kits.ServerKit.load(place / "s0")
        node = open_node(kit, load_settings(kit))
        try:
            return App(node).openapi
        finally:
            node.close()


def endpoints() -> str:
    """All endpoints, then all documents that they take and give, in Markdown."""
    interface = described()
    return "\n".join([*_overview(interface), *_each(interface), *_documents(interface)])


def _operations(interface: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in interface["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _overview(interface: Mapping[str, Any]) -> Iterator[str]:
    tags = dict.fromkeys(tag for _, _, operation in _operations(interface) for tag in operation["tags"])
    version = interface["info"]["version"]
    yield f"## Endpoints\n\nAs of version {version}; the same for machines: [openapi.json](../openapi.json)."
    for tag in tags:
        yield f"\n### {tag.capitalize()}\n\n| request | what it does | for |\n|---|---|---|"
        for method, path, operation in _operations(interface):
            if tag in operation["tags"]:
                who = operation["description"].removeprefix("For: ").rstrip(".")
                link = f"[`{method} {path}`](#{operation['operationId'].replace('_', '-')})"
                yield f"| {link} | {operation['summary']} | {who} |"


def _each(interface: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## One by one"
    for method, path, operation in _operations(interface):
        yield f"\n### `{method} {path}` {{ #{operation['operationId'].replace('_', '-')} }}\n"
        yield f"{operation['summary']}. {operation['description']}\n"
        if given := operation.get("parameters"):
            yield "| parameter | in | type | |\n|---|---|---|---|"
            for one in given:
                needed = "required" if one.get("required") else "optional"
                told = one.get("description", "")
                yield f"| `{one['name']}` | {one['in']} | {_kind(one['schema'])} | {f'{told} ({needed})'.strip()} |"
            yield ""
        if body := operation.get("requestBody"):
            told = f": {body['description']}" if "description" in body else ""
            yield f"Takes {_content(body['content'])}{told}.\n"
        good = [(code, answer) for code, answer in operation["responses"].items() if code < "400"]
        bad = [code for code in operation["responses"] if code >= "400"]
        yield "| status | answer |\n|---|---|"
        for code, answer in good:
            yield f"| {code} | {_content(answer.get('content', {})) or 'nothing'} |"
        for code in bad:
            content = operation["responses"][code].get("content", {})
            if "Problem" not in str(content):
                yield f"| {code} | {_content(content)} |"
        problems = [code for code in bad if "Problem" in str(operation["responses"][code].get("content", {}))]
        if problems:
            yield f"| {', '.join(problems)} | {_reference('Problem')} |"


def _documents(interface: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## Documents"
    for name, schema in sorted(interface["components"]["schemas"].items()):
        yield f"\n### {name} {{ #document-{name.lower()} }}\n"
        if told := schema.get("description"):
            yield f"{' '.join(told.split())}\n"
        if "enum" in schema:
            yield f"One of {', '.join(f'`{one}`' for one in schema['enum'])}."
            continue
        required = schema.get("required", [])
        yield "| field | type | |\n|---|---|---|"
        for field, kind in schema.get("properties", {}).items():
            yield f"| `{field}` | {_kind(kind)} | {'required' if field in required else 'optional'} |"


def _content(content: Mapping[str, Any]) -> str:
    parts = []
    for media, given in content.items():
        kind = _kind(given.get("schema", {}))
        parts.append(f"raw bytes (`{media}`)" if kind == "binary" else f"{kind} (`{media}`)")
    return " or ".join(parts)


def _kind(schema: Mapping[str, Any]) -> str:
    """A type in words."""
    if "$ref" in schema:
        return _reference(schema["$ref"].rpartition("/")[2])
    if choices := schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf"):
        return " or ".join(dict.fromkeys(_kind(one) for one in choices))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(inner := schema.get("additionalProperties"), Mapping):
        return f"object of {_kind(inner)}"
    if schema.get("format") == "binary":
        return "binary"
    limits = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = ", ".join(f"{sign} {schema[key]:g}" for key, sign in limits.items() if key in schema)
    words = schema.get("format") or schema.get("type") or "anything"
    return f"{words} ({bounds})" if bounds else str(words)


def _reference(name: str) -> str:
    return f"[{name}](#document-{name.lower()})"
