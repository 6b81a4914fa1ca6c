"""The documentation site: every page has its place, every link its target, every public name and endpoint its entry."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import build_site
import sedml
import sedml.errors
from cli_page import commands, reference
from http_page import described, endpoints
from site_faults import faults

ROOT = Path(__file__).parents[2]
SOURCES = [*build_site.MOVED, *(path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("docs/**/*.md")))]
API = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/reference/python/*.md"))


@pytest.fixture(scope="module")
def http() -> str:
    return endpoints()


def listed(nav: list | dict | str) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    below = nav.values() if isinstance(nav, dict) else nav
    return [page for one in below for page in listed(one)]


def test_every_page_is_in_the_navigation_once():
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(listed(project["nav"])) == sorted({build_site.place_of(source) for source in SOURCES})


@pytest.mark.parametrize("source", dict.fromkeys(SOURCES))
def test_every_link_of_a_page_has_a_place_to_go(source):
    text = build_site.page(source, (ROOT / source).read_text(encoding="utf-8"))
    assert not re.search(r"^<!-- (?:include|not run|setup|commands|endpoints)", text, re.M)


@pytest.mark.parametrize(
    ("source", "target", "turned"),
    [
        ("README.md", "docs/how-to/install.md#kernel", "how-to/install.md#kernel"),
        (
            "README.md",
            "https://github.com/sedml/sedml/blob/main/docs/how-to/install.md#kernel",
            "how-to/install.md#kernel",
        ),
        ("README.md", "https://raw.githubusercontent.com/sedml/sedml/main/docs/dataflow.svg", "dataflow.svg"),
        ("README.md", "https://github.com/sedml/sedml/raw/main/docs/dataflow.svg", "dataflow.svg"),
        ("README.md", "https://github.com/sedml/sedml/blob/main/CONTRIBUTING.md", "contributing.md"),
        ("README.md", "docs/results/README.md", "results.md"),
        ("README.md", "LICENSE", "https://github.com/sedml/sedml/blob/main/LICENSE"),
        ("README.md", "https://github.com/sedml/sedml/issues", "https://github.com/sedml/sedml/issues"),
        ("README.md", "https://example.org/docs/privacy.md", "https://example.org/docs/privacy.md"),
        ("README.md", "#try-it", "#try-it"),
        ("docs/reference/python/README.md", "../../explanation/privacy.md", "../../explanation/privacy.md"),
        ("docs/how-to/gallery/torch.md", "../../../examples", "https://github.com/sedml/sedml/tree/main/examples"),
        ("docs/how-to/gallery/torch.md", "../../../README.md", "../../index.md"),
        ("docs/results/README.md", "scaling/scaling.png", "results/scaling/scaling.png"),
    ],
)
def test_where_a_link_goes_in_the_site(source, target, turned):
    assert build_site.turned(source, target) == turned


@pytest.mark.parametrize("target", ["docs/gone.md", "https://github.com/sedml/sedml/blob/main/docs/gone.md"])
def test_a_link_to_what_is_gone_stops_the_build(target):
    with pytest.raises(SystemExit, match="does not exist"):
        build_site.turned("README.md", target)


def test_a_link_in_code_is_left_alone():
    assert (
        build_site.page("README.md", "```python\na[0](docs/gone.md)\n```\n") == "```python\na[0](docs/gone.md)\n```\n"
    )


def test_every_public_name_is_in_the_reference():
    shown = set(re.findall(r"^::: (\S+)$", API, re.M))
    errors = {name for name, one in vars(sedml.errors).items() if getattr(one, "__module__", "") == "sedml.errors"}
    elsewhere = {"__version__", *errors}  # all errors come from their module
    assert {f"sedml.{name}" for name in sedml.__all__ if name not in elsewhere} <= shown
    assert {"sedml.errors", "sedml.learn.experiment.Experiment", "sedml.learn.experiment.run_experiment"} <= shown
    assert "sedml.__version__" in API
    for name in errors:
        assert (getattr(sedml.errors, name).__doc__ or "").strip(), name


def test_every_endpoint_and_document_is_on_the_page_of_the_interface(http):
    interface = described()
    assert len(interface["paths"]) > 10
    for path, methods in interface["paths"].items():
        for method, operation in methods.items():
            assert f"[`{method.upper()} {path}`](#{operation['operationId'].replace('_', '-')})" in http
    for name in interface["components"]["schemas"]:
        assert f"{{ #document-{name.lower()} }}" in http
    anchors = set(re.findall(r"\{ #([\w-]+) \}", http))
    assert set(re.findall(r"\]\(#([\w-]+)\)", http)) <= anchors


def test_every_command_is_on_its_page_with_an_example_and_every_option():
    page, found = reference(), commands()
    assert len(found) > 20
    for command in found:
        assert f"[`{command.name}`](#{command.anchor}) |" in page
        assert f"{{ #{command.anchor} }}" in page
        assert command.summary, command.name
        assert any(example.startswith(command.name) for example in command.examples), command.name
        assert all(said for _, said in command.words), command.name
    by_name = {command.name: command for command in found}
    assert {"sedml vote", "sedml job create", "sedml account add", "sedml enrol"} <= by_name.keys()
    assert "--max-total-epsilon <float>" in dict(by_name["sedml vote"].words)


def test_what_is_required_and_what_stands_for_it_is_in_the_reference():
    page = reference()
    assert "| `--ca <path>` | The operators' ca.pem. *(required)* |" in page
    assert re.search(r"^\| `--kit <path>` \| .*\*\(or the variable SEDML_KIT", page, re.M)
    assert not re.search(r"\[(?:required|default|env var)|x[<>]=|range>", page)


def test_what_can_be_wrong_with_a_site_is_noticed(tmp_path):
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="https://fonts.example/a.css"><link rel="canonical" href="https://example.org/">'
        '<script src="//cdn.example/b.js"></script><img src="gone.png"><a href="https://example.org">x</a>'
        '<a href="other.html#here">x</a><a href="other.html#gone">x</a><a href="#gone">x</a>'
        '<img srcset="https://example.org/c.png 2x"><p style="background: url(https://example.org/d.png)">'
    )
    (tmp_path / "other.html").write_text('<p id="here">')
    (tmp_path / "style.css").write_text("@import 'https://example.org/e.css'; a { background: url(data:x) }")
    assert [fault.partition(" ")[2] for fault in faults(tmp_path)] == [
        "fetches https://fonts.example/a.css",
        "fetches //cdn.example/b.js",
        "fetches https://example.org/c.png",
        "fetches https://example.org/d.png",
        "links to other.html#gone: there is no such place on that page",
        "links to #gone: there is no such place on that page",
        "links to gone.png: there is no such file",
        "fetches https://example.org/e.css",
    ]
    assert faults(tmp_path / "empty") != []
