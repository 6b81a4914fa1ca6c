"""The files of the page need nothing from elsewhere, and can do nothing that the content policy forbids."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

FILES = {file.name: file.read_text() for file in files("sedml.console").joinpath("static").iterdir()}
SCRIPTS = {name: text for name, text in FILES.items() if name.endswith(".js")}


def test_all_kinds_are_there():
    assert {name.rpartition(".")[2] for name in FILES} == {"html", "css", "js", "svg"}
    assert sum(text.count("\n") for text in SCRIPTS.values()) < 1_120


@pytest.mark.parametrize("name", FILES)
def test_nothing_comes_from_elsewhere(name):
    text = FILES[name].replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}|@import|url\(", text) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_text_becomes_markup_or_code(name):
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|srcdoc|setTimeout\(\"|cssText"
    )
    assert re.findall(forbidden, SCRIPTS[name]) == []


def test_the_page_has_no_script_and_no_style_within():
    page = FILES["index.html"]
    assert re.findall(r"<script(?![^>]* src=)|<style|\bstyle=|\bon\w+=|javascript:", page) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_module_imports_is_there_and_used(name):
    for names, module in re.findall(r"import \{([^}]*)\} from \"\./([\w.]+)\"", SCRIPTS[name]):
        for imported in (part.strip() for part in names.split(",")):
            exported = rf"export (?:async )?(?:function|const) {imported}\b"
            assert re.search(exported, SCRIPTS[module]), f"{module} has no {imported}"
            assert len(re.findall(rf"\b{imported}\b", SCRIPTS[name])) > 1, f"{imported} is not used"
