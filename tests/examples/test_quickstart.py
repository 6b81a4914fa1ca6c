"""The quickstart notebook runs from top to bottom, and shows what it printed when it last did."""

from __future__ import annotations

import json
import re
from pathlib import Path

from support.tiers import thorough

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"


def cells() -> list[dict]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


@thorough
def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = ["".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code"]
    assert len(code) == 7
    names = {"__name__": "__main__"}
    for number, text in enumerate(code):
        exec(compile(text, f"cell {number}", "exec"), names)
    printed = capsys.readouterr().out
    assert "samples got a label" in printed
    assert "It cost each organisation an epsilon of 4.16: not private." in printed
    assert "It cost each patient an epsilon of 1.00: private." in printed
    assert printed.count(": private.") == 3
    assert "labels within the budget" in printed
    assert "Nothing was opened" in printed
    assert "student" in printed


def test_every_cell_that_prints_shows_its_output_and_nothing_of_the_machine():
    printing = [cell for cell in cells() if cell["cell_type"] == "code" and "print(" in "".join(cell["source"])]
    assert len(printing) == 6
    for cell in printing:
        shown = "".join("".join(output["text"]) for output in cell["outputs"])
        assert [output["output_type"] for output in cell["outputs"]] == ["stream"]
        assert shown.strip()
        assert not re.search(r"/(home|root|tmp|work|Users)/|Traceback|Warning", shown)
    assert [cell["execution_count"] for cell in cells() if cell["cell_type"] == "code"] == [1, 2, 3, 4, 5, 6, 7]
    assert all(cell["metadata"] == {} for cell in cells())
