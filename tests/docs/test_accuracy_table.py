"""The tables of accuracy that people read say what docs/accuracy.csv says, which the benchmark writes."""

import csv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
with (ROOT / "docs" / "accuracy.csv").open(encoding="utf-8", newline="") as file:
    ROWS = list(csv.DictReader(file))


def percent(figure, digits):
    return f"{float(figure):.{digits}f}%"


@pytest.mark.parametrize(("page", "digits"), [("README.md", 1), ("docs/explanation/learning.md", 2)])
def test_tables_are_those_that_were_measured(page, digits):
    lines = [
        [cell.strip().replace("*", "") for cell in line.strip("|").split("|")]
        for line in (ROOT / page).read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    for row in ROWS:
        [cells] = [cells for cells in lines if cells[:2] == [row["data"], row["epsilon"]]]
        student = f"{percent(row['student'], digits)} ({row['lowest']} to {row['highest']})"
        alone = row["an organisation alone"] or row["a part alone"]
        assert {student, percent(alone, 1), percent(row["pooled"], 1)} <= set(cells), row["data"]
        if digits > 1:
            assert cells[2:6] == [row[key] for key in ("asked", "labels", "wrong", "seeds")]
            assert percent(row["plurality"], 1) in cells
