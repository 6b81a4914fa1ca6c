"""Predictions by name, and samples by id, in the tables that people write."""

from __future__ import annotations

import numpy as np
import pytest

from sedml.errors import FileFormatError, PredictionsError
from sedml.files import load_one_teacher, load_predictions, save_labels
from sedml.protocol.votes import as_votes

NAMES = ("benign", "malignant", "normal")
IDS = ("P-1", "P-2", "P-3")


def one(tmp_path, text, names=NAMES, ids=IDS):
    path = tmp_path / "votes.csv"
    path.write_text(text, encoding="utf-8")
    return as_votes([load_one_teacher(path, names=names, ids=lambda: ids)], len(NAMES), names)[0].tolist()


@pytest.mark.parametrize(
    "text",
    [
        "malignant\n-1\nbenign\n",
        "label\nmalignant\n-1\nbenign\n",
        "malignant,-1,benign\n",
        "sample,label\n1,-1\n2,benign\n0,malignant\n",
        "id,diagnosis\nP-3,benign\nP-1,malignant\nP-2,-1\n",
        "patient,diagnosis\nP-3,0\nP-1,1\nP-2,-1\n",
        "0,malignant\n1,-1\n2,benign\n",
        ',"0"\n0,"malignant"\n1,"-1"\n2,"benign"\n',
    ],
)
def test_one_teacher_by_names_and_ids(tmp_path, text):
    assert one(tmp_path, text) == [1, -1, 0]


@pytest.mark.parametrize(
    "text",
    [
        "malignant,benign,normal\n.9,.1,0\n0,.1,.9\n",
        "sample,Malignant,benign,normal\n1,0,.1,.9\n0,.9,.1,0\n",
        "scan,Malignant,benign,normal\nP-2,0.0,0.0,1.0\nP-1,1.0,0.0,0.0\n",
    ],
)
def test_headings_that_are_classes_order_the_scores(tmp_path, text):
    assert one(tmp_path, text, ids=IDS[:2]) == [1, 2]


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("bengin\nmalignant\nnormal\n", PredictionsError, "Did you mean 'benign'"),
        ("Benign,Malignant,Normal\n", PredictionsError, "no class of this job"),
        ("malignant,benign,norml\n.9,.1,0\n0,.1,.9\n", FileFormatError, "some of the classes"),
        ("id,label\nP-1,benign\nP-1,benign\nP-9,normal\n", FileFormatError, "it lacks 2 ids of theirs, and has 2 rows"),
        ("id,label\nP-1,benign\nP-3,benign\n", FileFormatError, "it lacks 1 id of theirs, and has 0 rows"),
        ("sample,label\n0,benign\n1,\n2,normal\n", FileFormatError, "Line 3, column 2"),
    ],
)
def test_what_is_misspelt_or_missing_is_named(tmp_path, text, error, words):
    with pytest.raises(error) as caught:
        one(tmp_path, text)
    assert words in str(caught.value)


def test_a_misspelt_first_row_is_no_heading_and_loses_no_vote(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("bengin,maligant,bengin\nbenign,malignant,benign\n")
    rows = load_predictions(path, names=NAMES)
    assert rows.shape == (2, 3)
    with pytest.raises(PredictionsError, match="3 predictions are no class"):
        as_votes(rows, 3, NAMES)


def test_ids_are_asked_for_only_if_the_rows_are_named(tmp_path):
    def never():
        raise AssertionError

    for text in ("0\n1\n", "sample,label\n1,1\n0,0\n", "benign\nmalignant\n", ",label\n1,0\n2,1\n"):
        path = tmp_path / "votes.csv"
        path.write_text(text)
        assert as_votes([load_one_teacher(path, names=NAMES, ids=never)], 3, NAMES)[0].tolist() == [0, 1]


def test_parquet_by_names_and_ids(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "votes.parquet"
    votes = pandas.DataFrame({"patient": ["P-3", "P-1", "P-2"], "label": ["benign", "malignant", "-1"]})
    for frame in (votes, votes.set_index("patient"), votes.astype({"label": "category"})):
        frame.to_parquet(path)
        found = load_one_teacher(path, names=NAMES, ids=lambda: IDS)
        assert as_votes([found], 3, NAMES)[0].tolist() == [1, -1, 0]


def test_labels_have_names_and_ids(tmp_path):
    labels = np.array([1, -1, 0])
    ids = ["P-1", "a,b", 'say "x"']
    save_labels(tmp_path / "labels.csv", labels, NAMES, ids)
    assert (tmp_path / "labels.csv").read_text() == 'sample,label\nP-1,malignant\n"a,b",\n"say ""x""",benign\n'
    save_labels(tmp_path / "labels.tsv", labels, NAMES)
    assert (tmp_path / "labels.tsv").read_text() == "sample\tlabel\n0\tmalignant\n1\t\n2\tbenign\n"
    save_labels(tmp_path / "labels.npz", labels, NAMES, ids)
    with np.load(tmp_path / "labels.npz") as found:
        assert (found["labels"].tolist(), found["class_names"].tolist()) == ([1, -1, 0], list(NAMES))
        assert found["ids"].tolist() == ids
    with pytest.raises(FileFormatError, match="3 labels and 2 ids"):
        save_labels(tmp_path / "labels.csv", labels, NAMES, ids[:2])


def test_labels_in_parquet_have_names_and_ids(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    save_labels(tmp_path / "labels.parquet", np.array([1, -1]), NAMES, ["x", "y"])
    assert parquet.read_table(tmp_path / "labels.parquet").to_pydict() == {
        "sample": ["x", "y"],
        "label": ["malignant", None],
    }
