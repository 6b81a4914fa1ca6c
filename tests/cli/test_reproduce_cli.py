"""`sedml reproduce`."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from sedml.cli import app
from sedml.errors import InputError
from sedml.lab.reproduce.results import Headline, ItemResult
from sedml.lab.reproduce.scale import QUICK
from support.cli_calls import invoke
from support.tiers import thorough

pytestmark = thorough


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    scale = replace(QUICK, samples=24, teachers=12, transport="memory", repeat=1)
    # The package has the command under the name of its module.
    monkeypatch.setattr("sedml.lab.reproduce.scale.QUICK", scale)


def test_items_leave_tables_and_pictures_and_share_a_page(tmp_path):
    out = tmp_path / "out"
    result = invoke("reproduce", "table2", "--quick", "--out", out)
    assert result.exit_code == 0, result.output
    assert "61,121 KB" in result.stdout
    assert "index.html" in result.stdout
    assert {path.name for path in (out / "table2").iterdir()} == {"table2.csv", "table2.png", "item.json"}
    document = json.loads(invoke("reproduce", "table1", "--quick", "--out", out, "--json").stdout)
    assert document["failed"] == {}
    assert [(item["name"], item["agrees"]) for item in document["items"]] == [("table1", True)]
    page = (out / "index.html").read_text()
    assert "sedml reproduce table2 --quick" in page
    assert page.index('id="table1"') < page.index('id="table2"')
    assert str(tmp_path) not in page


def test_wrong_labels_are_exit_code_3(tmp_path, monkeypatch):
    wrong = ItemResult(paper="", headlines=[Headline("a", "b", "c")], agrees=False)
    monkeypatch.setattr("sedml.lab.reproduce.phases.table2", lambda _: wrong)
    result = invoke("reproduce", "table2", "--quick", "--out", tmp_path)
    assert result.exit_code == 3
    assert "LABELS DIFFER" in result.stdout


def test_all_goes_on_after_a_failure_and_is_exit_code_1(tmp_path, monkeypatch):
    from sedml.lab.reproduce.items import ITEMS

    def broken(_):
        raise InputError("It broke.", "Mend it.")

    for name, (module, _) in ITEMS.items():
        item = broken if name == "scaling" else lambda _: ItemResult(paper="", skipped="not here")
        monkeypatch.setattr(f"sedml.lab.reproduce.{module}.{name}", item)
    result = invoke("reproduce", "all", "--quick", "--out", tmp_path)
    assert result.exit_code == 1
    assert "It broke. Mend it." in result.stdout
    assert "Left out of accuracy: not here" in result.stdout
    assert (tmp_path / "index.html").read_text().count("<section id=") == len(ITEMS)


def test_an_item_that_there_is_not_is_explained(tmp_path):
    with pytest.raises(InputError):
        CliRunner().invoke(app, ["reproduce", "table9", "--out", str(tmp_path)], catch_exceptions=False)
