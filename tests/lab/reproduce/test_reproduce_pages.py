"""Tables, the results folder and its page."""

import csv
import io
import json
import math
from types import SimpleNamespace

import pytest

from sedml.errors import InputError
from sedml.lab.report.charts import PLAIN
from sedml.lab.reproduce.drawing import Chart, Panel, Series
from sedml.lab.reproduce.items import ITEMS, run_items
from sedml.lab.reproduce.results import Column, Headline, ItemResult, Table, write_item, write_page
from sedml.lab.reproduce.scale import Settings

ABOUT = {"command": "sedml reproduce all", "date": "2024-01-01 00:00 UTC", "machine": "2 cores", "sedml": "0"}
TABLE = Table(
    "costs",
    "Costs",
    (
        Column("phase", "phase"),
        Column("seconds", "time, s", ".2f"),
        Column("fine", "fine", value=lambda row: row.right),
    ),
    (
        SimpleNamespace(phase="count, all", seconds=1.23456, right=True),
        SimpleNamespace(phase="<b>label</b>", seconds=None, right=False),
        SimpleNamespace(phase="all", seconds=math.inf, right=None),
    ),
)


def result(**more):
    return ItemResult(paper="47 s", ours="less", tables=[TABLE], **more)


def chart(name="picture"):
    return Chart(name, "a picture", [Panel([Series("ours", PLAIN, [1, 2], [1, 2])], "x", linear=True)], size=(3, 2))


def write(out, found, name="table1", about=ABOUT):
    return write_item(out / name, "Table 1", found, about, 1.0)


def test_a_table_is_unrounded_in_csv_rounded_on_the_page_and_valid_json():
    rows = list(csv.reader(io.StringIO(TABLE.csv)))
    assert rows == [["phase", "seconds", "fine"], ["count, all", "1.23456", "True"], ["<b>label</b>", "", "False"],
                    ["all", "inf", ""]]  # fmt: skip
    found = json.loads(json.dumps(TABLE.document, allow_nan=False))
    assert found["shown"] == [["count, all", "1.23", "yes"], ["<b>label</b>", "–", "no"], ["all", "none", "–"]]
    assert found["rows"][2] == {"phase": "all", "seconds": None, "fine": None}
    assert found["numeric"] == [False, True, False]


def test_an_item_leaves_its_files_and_removes_those_of_an_older_run(tmp_path):
    write(tmp_path, result(charts=[chart("old")]))
    write(tmp_path, result(charts=[chart()]))
    assert {path.name for path in (tmp_path / "table1").iterdir()} == {"costs.csv", "picture.png", "item.json"}
    assert (tmp_path / "table1" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_holds_every_item_its_pictures_and_no_foreign_markup(tmp_path):
    line = Headline("time", "47 s", "0.03 s", "1,000 times less")
    write(tmp_path, result(charts=[chart()], headlines=[line], agrees=True, modelled=["quoted"]))
    write(tmp_path, ItemResult(paper="-", skipped="not <installed>"), "accuracy")
    page = write_page(tmp_path, ITEMS).read_text()
    assert page.count('<section id="') == 2
    assert "data:image/png;base64," in page
    assert "1,000 times less" in page
    assert "&lt;b&gt;label&lt;/b&gt;" in page
    assert "not &lt;installed&gt;" in page
    assert "Every label agrees" in page
    assert "A quick run" not in page


def test_a_quick_run_and_wrong_labels_are_said_on_the_page(tmp_path):
    write(tmp_path, result(agrees=False), about=ABOUT | {"command": "sedml reproduce all --quick"})
    page = write_page(tmp_path, ITEMS).read_text()
    assert "A quick run" in page
    assert "WARNING: labels differ" in page


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 0}'])
def test_damaged_items_are_left_out_of_the_page(tmp_path, content):
    (tmp_path / "table1").mkdir()
    (tmp_path / "table1" / "item.json").write_text(content)
    assert '<section id="' not in write_page(tmp_path, ITEMS).read_text()


def test_a_single_item_that_fails_raises(tmp_path, monkeypatch):
    def broken(_):
        raise InputError("It broke.", "Mend it.")

    monkeypatch.setattr("sedml.lab.reproduce.phases.table1", broken)
    with pytest.raises(InputError):
        run_items(["table1"], Settings(tmp_path), ABOUT)
