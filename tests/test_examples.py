"""The notebook runs top to bottom."""

import json
from pathlib import Path

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"


def test_the_quickstart_notebook_runs_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) == 6
    namespace = {"__name__": "__main__"}
    for number, text in enumerate(code):
        exec(compile(text, f"cell {number}", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "found a consensus" in printed
    assert "labels within the budget" in printed
    assert "Nothing was opened" in printed
    assert "student" in printed


def test_the_notebook_is_committed_without_outputs():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") for cell in cells)
