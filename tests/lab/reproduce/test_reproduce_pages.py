"""Tables, the results folder and its page."""

import csv
import io
import json
import math

import pytest
from matplotlib.figure import Figure

from sedml.errors import FileFormatError, InputError
from sedml.lab.reproduce.item_result import Chart, Column, Headline, ItemResult, Table, csv_text, document, shown
from sedml.lab.reproduce.items import ITEMS, items_named
from sedml.lab.reproduce.machine import About, about_now, machine_words
from sedml.lab.reproduce.results_page import read_items, render, write_item, write_results_page
from sedml.lab.reproduce.running import run_items
from sedml.lab.reproduce.scale import Settings

ABOUT = About("sedml reproduce all", "2024-01-01 00:00 UTC", "2 cores", "0")
TABLE = Table(
    "costs",
    "Costs",
    (Column("phase", "phase"), Column("seconds", "time, s", ".2f"), Column("fine", "fine")),
    (("count, all", 1.23456, True), ("<b>label</b>", None, False), ("all", math.inf, None)),
)


def result(**more):
    return ItemResult("table1", "Table 1", paper="47 s", ours="less", tables=(TABLE,), **more)


def chart(name="picture"):
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([1, 2])
    return Chart(name, "a picture", figure)


def test_a_table_is_unrounded_in_csv_and_rounded_on_the_page():
    rows = list(csv.reader(io.StringIO(csv_text(TABLE))))
    assert rows == [
        ["phase", "seconds", "fine"],
        ["count, all", "1.23456", "True"],
        ["<b>label</b>", "", "False"],
        ["all", "inf", ""],
    ]
    assert shown(TABLE) == [["count, all", "1.23", "yes"], ["<b>label</b>", "–", "no"], ["all", "none", "–"]]


def test_a_document_is_valid_json_without_infinities():
    text = json.dumps(document(result()), allow_nan=False)
    rows = json.loads(text)["tables"][0]["rows"]
    assert rows[2] == {"phase": "all", "seconds": None, "fine": None}
    assert json.loads(text)["tables"][0]["numeric"] == [False, True, False]


def test_an_item_leaves_its_files_and_removes_those_of_an_older_run(tmp_path):
    write_item(tmp_path, result(charts=(chart("old"),)), ABOUT, 1.0)
    write_item(tmp_path, result(charts=(chart(),)), ABOUT, 1.0)
    assert {path.name for path in (tmp_path / "table1").iterdir()} == {"costs.csv", "picture.png", "item.json"}
    assert (tmp_path / "table1" / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_the_page_holds_every_item_its_pictures_and_no_foreign_markup(tmp_path):
    line = Headline("time", "47 s", "0.03 s", "1,000 times less")
    write_item(tmp_path, result(charts=(chart(),), headlines=(line,), agrees=True, modelled=("quoted",)), ABOUT, 1.0)
    write_item(tmp_path, ItemResult("peers", "Peers", paper="-", skipped="not <installed>"), ABOUT, 1.0)
    page = write_results_page(tmp_path, ITEMS).read_text()
    assert page.count('<section id="') == 2
    assert "data:image/png;base64," in page
    assert "1,000 times less" in page
    assert "&lt;b&gt;label&lt;/b&gt;" in page
    assert "not &lt;installed&gt;" in page
    assert "Every label agrees" in page
    assert "A quick run" not in page


def test_a_quick_run_and_wrong_labels_are_said_on_the_page(tmp_path):
    about = About("sedml reproduce all --quick", "now", "here", "0")
    item = write_item(tmp_path, result(agrees=False), about, 1.0)
    page = render([item], tmp_path)
    assert "A quick run" in page
    assert "WARNING: labels differ" in page


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 0}'])
def test_damaged_items_are_left_out_of_the_page(tmp_path, content):
    (tmp_path / "table1").mkdir()
    (tmp_path / "table1" / "item.json").write_text(content)
    assert read_items(tmp_path, ["table1", "table2"]) == []


def test_a_folder_that_cannot_be_written_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError):
        write_item(tmp_path / "file", result(), ABOUT, 1.0)


def test_the_machine_is_told_in_words_without_its_name(monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "secret-host")
    words = machine_words()
    assert "core" in words
    assert "Python" in words
    assert "secret-host" not in words
    assert about_now("x").date.endswith("UTC")


def test_items_are_chosen_by_name():
    assert items_named("all") == ITEMS
    assert items_named("growth") == ("growth",)
    with pytest.raises(InputError, match="table1"):
        items_named("table3")


def broken(_settings):
    raise InputError("It broke.", "Mend it.")


def test_an_item_that_fails_is_on_the_page_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("sedml.lab.reproduce.table1.run", broken)
    monkeypatch.setattr(
        "sedml.lab.reproduce.table2.run", lambda _: ItemResult("table2", "Table 2", paper="", agrees=True)
    )
    started = []
    run = run_items(
        ["table1", "table2"],
        Settings(tmp_path, progress=lambda name, done, _: started.append((name, done))),
        ABOUT,
    )
    assert run.failed == {"table1": "It broke. Mend it."}
    assert started == [("table1", 0), ("table2", 1)]
    assert run.agrees
    page = run.page.read_text()
    assert "It broke. Mend it." in page
    assert 'id="table2"' in page


def test_a_single_item_that_fails_raises(tmp_path, monkeypatch):
    monkeypatch.setattr("sedml.lab.reproduce.table1.run", broken)
    with pytest.raises(InputError):
        run_items(["table1"], Settings(tmp_path), ABOUT)
