"""What a text names exists: commands and their options, Python names, files, settings, codes of errors.

Whoever follows a text to something that was renamed or moved is lost, and no other test would notice. Read are the
pages for people, and what people see of the source: docstrings, comments, help texts and errors.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple, get_args

import pytest
import typer

from sedml.cli import app
from sedml.service.problems import code_of
from sedml.service.server.settings import Settings

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sedml"
# The changelog is left out: history may name what is gone.
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(ROOT.glob("docs/**/*.md"))
CODE = sorted(SOURCE.rglob("*.py")) + sorted(ROOT.glob("benchmarks/*.py"))
ROOMS = sorted(
    path.stem for path in SOURCE.iterdir() if not path.name.startswith(("_", ".")) and path.suffix != ".typed"
)

SHELLS = ("", "bash", "sh", "console", "ini")
SUFFIXES = (".md", ".py", ".toml", ".json", ".svg", ".html")
# Stands for what an f-string fills in when it is shown.
FILLED_IN = "FILLED-IN"
# In a sentence "sedml" may also be the package: "the release of sedml that wrote it".
NO_COMMANDS = ("and", "can", "has", "is", "itself", "needs", "or", "that", "was", "which", "with")


class Piece(NamedTuple):
    """Some text: a line to type, code in a sentence, or the sentence around it."""

    line: int
    kind: Literal["shell", "code", "prose"]
    text: str


class Mention(NamedTuple):
    """A piece, and the file that it stands in."""

    where: str
    piece: Piece


# Reading


def pieces_of_page(page: str) -> Iterator[Piece]:
    """Fenced lines, indented lines, code in backticks, and what is left of a page in Markdown."""
    outside: list[str] = []
    fence: str | None = None
    command, begun = "", 0
    for number, line in enumerate(page.splitlines(), start=1):
        if line.lstrip().startswith("```"):
            fence = line.strip().strip("`") if fence is None else None
            outside.append("")
        elif fence in SHELLS or (fence is None and re.match(r"(?: {4}|\t)\s*(?:\$ )?sedml ", line)):
            command, begun = command + line.strip().removesuffix("\\"), begun or number
            if not line.endswith("\\"):
                yield Piece(begun, "shell", command)
                command, begun = "", 0
            outside.append("")
        else:
            if fence is not None:
                yield Piece(number, "code", line)
            outside.append("" if fence is not None else line)
    yield from _sentences("\n".join(outside), 1)


def pieces_of_source(source: str) -> Iterator[Piece]:
    """Docstrings, other texts with a space in them (the rest are keys, not for people), and comments."""
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        text = _text_of(node)
        if " " in text.strip():
            # A command in a docstring may go on in the next line, with an option.
            text = re.sub(r"\n *(?=--)", " ", inspect.cleandoc(text) if "\n" in text else text)
            yield from _lines_to_type(text, node.lineno)  # type: ignore[attr-defined]
    for number, line in enumerate(source.splitlines(), start=1):
        if comment := re.search(r"(?:^|\s)#\s(.*)", line):
            yield from _sentences(comment[1], number)


def _text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else FILLED_IN for part in node.values)
    return ""


def _lines_to_type(text: str, begins: int) -> Iterator[Piece]:
    left = []
    for number, line in enumerate(text.split("\n")):
        if found := re.match(r"(?:(?:^|  +)|Example: |\$ )(sedml [a-z].*)", line):
            yield Piece(begins + number, "shell", found[1])
            line = ""
        left.append(line)
    yield from _sentences("\n".join(left), begins)


def _sentences(text: str, begins: int) -> Iterator[Piece]:
    def number(at: int) -> int:
        return begins + text.count("\n", 0, at)

    span = re.compile(r"(`+)((?:[^`\n]|\n(?!\s*\n))+?)\1(?!`)")
    for found in span.finditer(text):
        yield Piece(number(found.start()), "code", " ".join(found[2].split()))
    for found in re.finditer(r"[^\n]+", span.sub(lambda code: "`" + "\n" * code[0].count("\n"), text)):
        yield Piece(number(found.start()), "prose", found[0])


@cache
def pieces_of(path: Path) -> list[Piece]:
    read = pieces_of_page if path.suffix == ".md" else pieces_of_source
    return list(read(path.read_text(encoding="utf-8")))


def mentions(files: Iterable[Path]) -> list[Mention]:
    return [Mention(str(path.relative_to(ROOT)), piece) for path in files for piece in pieces_of(path)]


def everything() -> list[Mention]:
    return mentions(PAGES + CODE)


def wrong(found: Iterable[Mention], check: Callable[[Piece], Iterable[str]]) -> list[str]:
    """What a check complains of, with the place to go to."""
    return [f"{where}:{piece.line}: {complaint}" for where, piece in found for complaint in check(piece)]


def listed(found: Iterable[str]) -> str:
    """All of it, however long: whoever mends a text wants to see every place."""
    return "\n" + "\n".join(found)


# Commands


def command_lines(piece: Piece) -> Iterator[tuple[list[str], bool]]:
    """The words after each `sedml`, and whether they are a whole command line or part of a sentence."""
    text = piece.text
    if piece.kind == "shell":
        text, *comment = re.split(r"(?:^|\s)#\s", text, maxsplit=1)
        for part in comment:
            yield from command_lines(Piece(piece.line, "prose", part))
    if piece.kind == "prose":
        for found in re.finditer(r"(?<![\w./-])sedml ([a-z].*?)(?=[.,;:)]*$|[.,;:)]+\s|\bsedml |`)", text):
            if found[1].split()[0] not in NO_COMMANDS:
                yield found[1].split(), False
    elif found := re.search(r"(?:^|[\s/=])sedml (?=[a-z-])(.*)", text):
        try:
            words = shlex.split(found[1])
        except ValueError:  # half of a quotation, in a sentence about one
            words = found[1].split()
        ends = [at for at, word in enumerate(words) if word in ("&&", "||", "|", ">", "&")]
        yield words[: min(ends, default=len(words))], True


@cache
def sedml_command() -> Any:
    return typer.main.get_command(app)


def wrong_in_command(words: list[str], whole: bool) -> str | None:
    """Why this cannot be typed after `sedml`, None if it can; what is missing from it may be left out."""
    command = sedml_command()
    context = command.context_class(command)
    path, rest = "sedml", list(words)
    while rest and hasattr(command, "list_commands") and not rest[0].startswith("-"):
        word = rest.pop(0)
        if word in ("...", FILLED_IN):
            return None
        command = command.get_command(context, word)
        if command is None:
            return f"`{path}` has no command {word!r}"
        path += f" {word}"
    options = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    room = sum(abs(one.nargs) for one in command.params if one.param_type_name == "argument")
    remaining = iter(rest)
    for word in remaining:
        if word.startswith("--") or re.fullmatch(r"-[a-z]", word):
            name, equals, _ = word.partition("=")
            if name in ("--help", "-h"):
                continue
            if name not in options:
                return f"`{path}` has no option {name!r}"
            if not (equals or options[name].is_flag):
                next(remaining, None)
        elif word not in ("...", "…"):
            room -= 1
    if whole and room < 0 and not any(FILLED_IN in word for word in words):
        return f"`{path}` takes fewer words than {' '.join(rest)!r}"
    return None


def check_commands(piece: Piece) -> list[str]:
    found = [wrong_in_command(words, whole) for words, whole in command_lines(piece)]
    return [complaint for complaint in found if complaint is not None]


@cache
def all_options() -> set[str]:
    def below(command: Any) -> Iterator[str]:
        for option in command.params:
            yield from (*option.opts, *option.secondary_opts)
        if hasattr(command, "list_commands"):
            context = command.context_class(command)
            for name in command.list_commands(context):
                yield from below(command.get_command(context, name))

    return {"--help", *below(sedml_command())}


def check_options(piece: Piece) -> list[str]:
    """Options without a command, as in "say which with --kit": some command has them."""
    if piece.kind == "shell" or (piece.kind == "code" and not piece.text.startswith("--")):
        return []
    if "python" in piece.text:  # the options of a script
        return []
    named = re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", piece.text)
    return [f"no command has the option {name}" for name in named if name not in all_options()]


def test_every_command_that_a_text_names_can_be_typed():
    found = wrong(everything(), check_commands)
    assert not found, listed(found)


def test_every_option_that_a_text_names_is_one_of_some_command():
    ours = [mention for mention in everything() if not mention.where.startswith("benchmarks")]
    found = wrong(ours, check_options)
    assert not found, listed(found)


def test_texts_do_name_commands():
    """If reading broke, everything above would pass."""
    for files, least in ((PAGES, 60), (CODE, 60)):
        assert sum(len(list(command_lines(piece))) for _, piece in mentions(files)) >= least


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("```\nsedml frobnicate kits/s0\n```", "`sedml` has no command 'frobnicate'"),
        ("```bash\nsedml serve kits/s0   # and then: sedml wait\n```", "`sedml` has no command 'wait'"),
        (
            "```bash\nsedml job create --data x.npz \\\n    --colour red\n```",
            "`sedml job create` has no option '--colour'",
        ),
        ("Try it:\n\n    sedml up --teachers 3 --turbo\n", "`sedml up` has no option '--turbo'"),
        ("First `sedml job\nrunn 3f2a`, then wait.", "`sedml job` has no command 'runn'"),
        ("Make it with sedml enroll.", "`sedml` has no command 'enroll'"),
        ("`sedml vote --job 3f2a now`", "`sedml vote` takes fewer words than '--job 3f2a now'"),
        ("Give `--colour` as well.", "no command has the option --colour"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed_in_a_page(page, complaint):
    pieces = [Mention("page", piece) for piece in pieces_of_page(page)]
    [found] = wrong(pieces, check_commands) or wrong(pieces, check_options)
    assert complaint in found


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        (
            'def f():\n    """Do.\n\n    Example: sedml job statsu 3f2a\n    """',
            "x:4: `sedml job` has no command 'statsu'",
        ),
        (
            'def f():\n    """Do.\n\n    Example: sedml vote --job 3f2a\n    --modle m\n    """',
            "has no option '--modle'",
        ),
        ('raise E("There is none.", "`sedml job lists` has those you can see.")', "x:1: `sedml job` has no command"),
        ('help = f"Vote with: sedml vote --job {job.id} --modle m"', "`sedml vote` has no option '--modle'"),
        ('help = f"sedml servee {server}"', "`sedml` has no command 'servee'"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed_in_the_source(source, complaint):
    [found] = wrong([Mention("x", piece) for piece in pieces_of_source(source)], check_commands)
    assert complaint in found


@pytest.mark.parametrize(
    "page",
    [
        "```\nsedml provision ...    # or: sedml enrol notary --role requester, and sedml account add\n```",
        "```nginx\nupstream sedml { server 10.0.0.5:8440; }\n```",
        "```ini\nExecStart=/opt/sedml/bin/sedml serve /etc/sedml/s0\n```",
        "Use the release of sedml that wrote it; `sedml job status JOB --watch`, `sedml reproduce all`, `sedml job`.",
    ],
)
def test_what_can_be_typed_is_left_alone(page):
    pieces = [Mention("page", piece) for piece in pieces_of_page(page)]
    assert wrong(pieces, check_commands) + wrong(pieces, check_options) == []


# Python names


def python_names(piece: Piece) -> Iterator[str]:
    """Whole names of the package, what is imported from it, and in backticks also those that begin with a room."""
    for found in re.finditer(r"\bfrom (sedml[\w.]*) import (\w+(?:, \w+)*)", piece.text):
        yield from (f"{found[1]}.{name}" for name in found[2].split(", "))
    yield from (found[0] for found in re.finditer(r"(?<![\w./:-])sedml(?:\.[A-Za-z_]\w*)+", piece.text))
    if piece.kind == "code" and not piece.text.endswith(SUFFIXES):
        yield from (
            f"sedml.{found[0]}" for found in [re.match(rf"(?:{'|'.join(ROOMS)})(?:\.\w+)+", piece.text)] if found
        )


@cache
def resolves(name: str) -> bool:
    first, *rest = name.split(".")
    thing: Any = import_module(first)
    for part in rest:
        if hasattr(thing, part):
            thing = getattr(thing, part)
        elif isinstance(thing, ModuleType):
            try:
                thing = import_module(f"{thing.__name__}.{part}")
            except ModuleNotFoundError:
                return False
        else:
            # A field without a default is a name of the class, and no attribute of it.
            return any(part in vars(kind).get("__annotations__", {}) for kind in getattr(thing, "__mro__", ()))
    return True


def check_names(piece: Piece) -> list[str]:
    return [f"{name} does not exist" for name in python_names(piece) if not resolves(name)]


def order_of(docstring: str) -> list[str]:
    """The modules of a package in the order in which its docstring lists them."""
    _, _, order = " ".join(docstring.split()).partition("n the order they depend on each other:")
    return re.findall(r"`([a-z]\w*)`", order)


def test_every_python_name_that_a_text_names_exists():
    found = wrong(everything(), check_names)
    assert not found, listed(found)


def test_texts_do_name_python_names():
    for files, least in ((PAGES, 30), (CODE, 30)):
        assert sum(len(list(python_names(piece))) for _, piece in mentions(files)) >= least


def test_a_package_lists_modules_that_it_has():
    gone = []
    for path in SOURCE.rglob("__init__.py"):
        names = order_of(ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
        here = {one.stem for one in path.parent.iterdir()}
        gone += [f"{path.relative_to(ROOT)}: there is no {name} here" for name in names if name not in here]
    assert not gone, listed(gone)


@pytest.mark.parametrize(
    ("page", "gone"),
    [
        ("Keys are those of `sedml.learn.Experiment`.", ["sedml.learn.Experiment"]),
        ("`sedml.aggregate(x)`, `sedml.Teecher(kit)`", ["sedml.Teecher"]),
        ("```python\nfrom sedml.peers import install\n```", ["sedml.peers.install", "sedml.peers"]),
        ("See sedml.task.", ["sedml.task"]),
        ("See `protocol.ballots.cast` and `protocol.ballots.throw`.", ["sedml.protocol.ballots.throw"]),
        (
            "`sedml.privacy.accounting.PrivacyReport.epsilon`, `sedml.privacy.accounting.PrivacyReport.omega`",
            ["sedml.privacy.accounting.PrivacyReport.omega"],
        ),
        ("/etc/systemd/system/sedml.socket, `privacy.md`, `result.privacy`", []),
    ],
)
def test_a_python_name_that_does_not_exist_is_noticed(page, gone):
    assert [name for piece in pieces_of_page(page) for name in python_names(piece) if not resolves(name)] == gone


def test_a_module_that_a_package_lists_is_found():
    docstring = "Kits.\n\nIn the order they depend on each other: `tokens`, `files` (how they\nare kept), `renewal`."
    assert order_of(docstring) == ["tokens", "files", "renewal"]


# Files


def files_named(text: str) -> Iterator[str]:
    """Paths of the repository, paths of the package that begin with a room, and modules that are named alone."""
    yield from re.findall(r"(?<![\w./-])(?:src|docs|tests|benchmarks|examples)/[\w./*-]*[\w*/]", text)
    for room in (rf"(?:{'|'.join(ROOMS)})/", "sedml/"):
        found = re.findall(rf"(?<![\w./-])({room}(?:(?:\w+/)*\w+\.py\b|(?:\w+/)+))", text)
        yield from (f"src/sedml/{name.removeprefix('sedml/')}" for name in found)
    yield from re.findall(r"(?<![\w./<>-])\w+\.py\b", text)


@cache
def all_modules() -> set[str]:
    return {path.name for path in [*CODE, *ROOT.glob("tests/**/*.py")]}


def exists(name: str) -> bool:
    return any(ROOT.glob(name.rstrip("/"))) if "/" in name else name in all_modules()


def check_files(piece: Piece) -> list[str]:
    return [f"there is no {name}" for name in files_named(piece.text) if not exists(name)]


def links(page: str) -> Iterator[str]:
    """Where links and pictures of a page go, unless to another site."""
    for target in re.findall(
        r"\]\(([^()\s]+)\)|<(?:img|a)\s[^>]*?(?:src|href)=\"([^\"]+)\"|^\[[^\]]+\]:\s*(\S+)", page, re.M
    ):
        address = "".join(target)
        if not re.match(r"[a-z]+:", address):
            yield address


def anchors(page: str) -> set[str]:
    """The places within a page that a link can go to."""
    titles = re.findall(r"^#+ (.+)$", page, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    broken = []
    for target in links(page.read_text(encoding="utf-8")):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    return broken


def test_every_file_that_a_text_names_exists():
    found = wrong(everything(), check_files)
    assert not found, listed(found)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_picture_of_a_page_is_there(page):
    assert broken_links(page) == []


@pytest.mark.parametrize("picture", sorted(ROOT.glob("docs/*.svg")), ids=lambda picture: picture.name)
def test_every_file_in_a_picture_exists(picture):
    # A picture has less room than a page: it may leave out the first folders of a path.
    named = re.findall(r"[\w/]+\.py\b", picture.read_text(encoding="utf-8"))
    assert [name for name in named if not any(SOURCE.glob(f"**/{name}"))] == []


def test_a_file_that_does_not_exist_is_noticed():
    text = (
        "`tests/test_task.py` and `tests/protocol/test_task.py`; `sedml/gadgets/`, `mpc/steps.py`, `mpc/parti.py`, "
        "`mpc/garbling/`, `mpc/gadgetz/`, src/sedml/mpc/par.py, `test_nothing.py`, `test_ledger_attack.py`, "
        "`ideals.py`, `ideal.py`, /etc/sedml/s0, benchmarks/counts.json."
    )
    complaints = [complaint for piece in pieces_of_page(text) for complaint in check_files(piece)]
    gone = ["ideals.py", "src/sedml/gadgets/", "src/sedml/mpc/gadgetz/", "src/sedml/mpc/par.py"]
    gone += ["src/sedml/mpc/parti.py", "test_nothing.py", "tests/test_task.py"]
    assert sorted(complaints) == [f"there is no {name}" for name in gone]


def test_a_broken_link_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](gone.md) ![b](no.svg) [c](#one-two) [d](#three) [e](https://example.org/x.md)\n")
    assert broken_links(page) == ["gone.md", "no.svg", "#three"]


# Settings and codes of errors

SETTINGS = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
FOR_OPERATORS = SETTINGS + "".join(
    path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/how-to/operate/*.md"))
)


def table_after(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without their head."""
    _, _, below = page.partition(f"\n{heading}\n")
    rows = re.search(r"(?:^\|.*\n)+", below, re.M)
    return [row.strip("|").split("|") for row in rows[0].splitlines()[2:]] if rows else []


def unknown_settings(page: str, known: Iterable[str]) -> list[str]:
    """Keys of the table, of the environment and of examples of server.toml that the settings do not have."""
    named = [key for row in table_after(page, "# Settings of a server") for key in re.findall(r"`(\w+\*?)`", row[0])]
    named += re.findall(r"`([a-z]+_(?:[a-z]+_)*\*)`", page)
    named += [name.split("__")[0].lower() for name in re.findall(r"SEDML_SERVER__(\w+)", page)]
    for example in re.findall(r"```toml\n(.*?)```", page, re.S):
        content = tomllib.loads(example)
        named += content
        _, promise = get_args(Settings.model_fields["budgets"].annotation)
        for made in content.get("budgets", {}).values():
            named += [f"budgets.{key}" for key in made if key not in promise.model_fields]
    known = list(known)
    return [key for key in named if not any(re.fullmatch(key.replace("*", r"\w+"), one) for one in known)]


def test_every_setting_that_operators_read_about_exists():
    assert unknown_settings(f"\n{FOR_OPERATORS}", Settings.model_fields) == []


def test_operators_read_about_every_setting():
    assert [key for key in Settings.model_fields if f"`{key}`" not in SETTINGS] == []


def test_every_code_that_operators_read_about_is_that_of_an_error():
    import sedml.errors

    codes = {code_of(kind) for kind in vars(sedml.errors).values() if isinstance(kind, type)}
    named = [code for row in table_after(f"\n{FOR_OPERATORS}", "# Trouble, by error") for code in row[0].split(",")]
    assert len(named) > 20
    assert [code.strip() for code in named if code.strip() not in codes] == []


def test_a_setting_that_does_not_exist_is_noticed():
    page = (
        "\n# Settings of a server\n`SEDML_SERVER__MAX_SAMPELS=1`, SEDML_SERVER__BUDGETS__TEACHERS__EPSILON\n\n"
        "| setting | default |\n|---|---|\n| `host`, `prot` | 1 |\n\nRaise `anonymous_rate_*` or `named_rate_*`.\n"
        "```toml\n[budgets.teachers]\nepsilon = 1.0\nomega = 2\n```\n"
    )
    assert unknown_settings(page, Settings.model_fields) == ["prot", "named_rate_*", "max_sampels", "budgets.omega"]


# Extras of the package


def unknown_extras(text: str, known: Iterable[str]) -> list[str]:
    named = [extra for extras in re.findall(r"sedml-pate\[([\w,-]+)\]", text) for extra in extras.split(",")]
    return [extra for extra in named if extra not in known and extra != FILLED_IN]


def test_every_extra_that_a_text_says_to_install_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = wrong(everything(), lambda piece: unknown_extras(piece.text, project["optional-dependencies"]))
    assert not found, listed(found)


def test_an_extra_that_does_not_exist_is_noticed():
    assert unknown_extras("pip install 'sedml-pate[server,servant]'", ["server"]) == ["servant"]


# One name, one meaning


def test_no_two_modules_have_the_same_name_so_that_one_name_has_one_meaning():
    names = Counter(path.name for path in SOURCE.rglob("*.py"))
    assert [name for name, times in names.items() if times > 1 and not name.startswith("__")] == []
