"""Jobs from tables: the samples of a CSV or Parquet file, ballots by id and name, labels with both."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest

from sedml.errors import FileFormatError, InputError, PredictionsError, SedmlWarning, TaskError
from sedml.service.client.sample_tables import check_ids, columns_of, doubt_ids, table_arrays
from support.client_parties import VOTES

NAMES = ("benign", "malignant", "normal")
IDS = [f"P-{900 - k}" for k in range(50)]


def write(path, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows(rows)
    return path


@pytest.fixture
def table(tmp_path):
    rows = [[name, k % 3, k] for k, name in enumerate(IDS)]
    return write(tmp_path / "public.csv", [["patient_id", "a", "b"], *rows])


def test_a_job_of_a_table_from_its_samples_to_labels_by_id_and_name(both_ways, deployed, table, kits, tmp_path):
    view = both_ways.create(table, classes=",".join(NAMES))
    assert view.terms.class_names == NAMES
    sent = np.load(io.BytesIO(deployed.s0.data(view.id)))
    assert sent["x"].tolist() == [[k % 3, k] for k in range(50)]
    assert (sent["ids"].tolist(), sent["columns"].tolist()) == (IDS, ["a", "b"])
    shuffled = sorted(zip(IDS, VOTES, strict=True))
    by_id = write(tmp_path / "by_id.csv", [["patient_id", "diagnosis"], *((name, NAMES[k]) for name, k in shuffled)])
    both_ways.teacher(1, "vote", view, by_id)
    both_ways.teacher(2, "vote", view, [NAMES[k] for k in VOTES])
    both_ways.teacher(3, "vote", view, model=Named())
    result = both_ways.requester("run", view)
    assert result.ids == both_ways.requester("sample_ids", view) == IDS
    want = deployed.expected(view.id, np.tile(VOTES, (3, 1)))
    assert result.names == [None if label < 0 else NAMES[label] for label in want]
    both_ways.requester("delete", view)
    assert both_ways.requester("sample_ids", view) is None
    assert list((kits / "requester-1" / "jobs").iterdir()) == []


class Named:
    """A classifier that was trained on names, in an order of its own."""

    classes_ = np.array(["normal", "benign", "malignant"])

    def predict_proba(self, samples):
        return np.eye(3)[(samples[:, 0].astype(int) + 1) % 3]


def test_a_creation_of_a_table_that_broke_off_is_continued(parties, deployed, table):
    view = parties.create(table, classes=NAMES)
    assert parties.create(table, classes=NAMES).terms.data_sha256 == view.terms.data_sha256


@pytest.mark.parametrize(
    ("changed", "words"),
    [("benign", "Did you mean 'benign'"), ("P-900", "it lacks 1 id of theirs, and has 1 row ")],
)
def test_a_vote_with_a_mistake_is_refused_and_nothing_is_sent(parties, deployed, table, tmp_path, changed, words):
    view = parties.create(table, classes=NAMES)
    text = "\n".join(["id,label", *(f"{name},{NAMES[k]}" for name, k in zip(IDS, VOTES, strict=True))])
    (tmp_path / "votes.csv").write_text(text.replace(changed, f"{changed}x"))
    with pytest.raises((FileFormatError, PredictionsError)) as caught:
        parties.teacher(1, "vote", view, tmp_path / "votes.csv")
    assert words in str(caught.value)
    assert deployed.s0.status(view.id).votes == deployed.s1.status(view.id).votes == 0


def test_text_stays_text_and_gaps_are_no_numbers(tmp_path):
    mixed = write(tmp_path / "mixed.csv", [["age", "smoker"], ["30", "yes"], ["", "no"]])
    found = table_arrays(mixed, None, ())
    assert found["x"].tolist() == [["30", "yes"], ["", "no"]]
    assert "ids" not in found
    alone = write(tmp_path / "text.tsv", [["question"], ["Where is my card?"], ["Why?"]])
    assert table_arrays(alone, None, ())["x"].tolist() == ["Where is my card?", "Why?"]
    gaps = write(tmp_path / "gaps.csv", [["a", "b"], ["1", ""], ["", "2"]])
    assert np.array_equal(table_arrays(gaps, None, ())["x"], [[1, np.nan], [np.nan, 2]], equal_nan=True)


def test_parquet_and_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"scan": ["s1", "s2"], "a": [1, None], "b": [True, False]})
    frame.to_parquet(tmp_path / "public.parquet")
    for data in (tmp_path / "public.parquet", frame):
        found = table_arrays(data, "scan", ())
        assert found["ids"].tolist() == ["s1", "s2"]
    assert np.array_equal(
        table_arrays(tmp_path / "public.parquet", "scan", ())["x"], [[1, 1], [np.nan, 0]], equal_nan=True
    )


@pytest.mark.parametrize(
    ("rows", "column", "words"),
    [
        ([["1", "2"], ["3", "4"]], None, "no line of names"),
        ([["a", "b"]], None, "no line of names, or nothing below it"),
        ([["id", "a"], ["x", "1"]], "patient", "no column 'patient'"),
        ([["patient_id", "a"], ["x", "1"]], "patient", "Did you mean 'patient_id'"),
        ([["id", "a"], ["x", "1"], ["x", "2"]], None, "one that another has too"),
        ([["id", "a"], ["", "1"], ["x", "2"]], None, "have no id"),
        ([["id", "a"], ["=cmd|' /C calc'!A0", "1"], ["x", "2"]], None, "formulas"),
        ([["id", "a"], ["x\x1b[2J", "1"], ["y", "2"]], None, "cannot be shown"),
        ([["id", "a"], ["2", "1"], ["1", "2"], ["0", "2"]], None, "in another order"),
        ([["id"], ["x"]], "id", "no column but the ids"),
        ([["id", "a", "label"], ["x", "1", "benign"], ["y", "2", "normal"]], None, "holds classes"),
        ([["id", "a"], ["x", "1", "2"]], None, "has 3 cells"),
    ],
)
def test_a_table_that_cannot_be_used_is_explained(tmp_path, rows, column, words):
    path = write(tmp_path / "public.csv", rows)
    with pytest.raises(InputError) as caught:
        table_arrays(path, column, NAMES)
    assert words in str(caught.value)


def test_ids_that_count_the_samples_are_their_numbers():
    check_ids(["1", "2", "3"], "x")
    check_ids(["0", "1", "2"], "x")
    check_ids(["30", "10", "20"], "x")
    check_ids(["-5", "7"], "x")
    with pytest.raises(FileFormatError, match="another order"):
        check_ids(["2", "1", "3"], "x")
    with pytest.raises(FileFormatError, match="another order"):
        check_ids(["1", "0"], "x")


def test_ids_of_an_npz_file_are_kept_and_checked(parties, deployed, tmp_path):
    np.savez(tmp_path / "public.npz", x=np.zeros((3, 2)), ids=np.array(["p", "q", "r"]))
    view = parties.create(tmp_path / "public.npz")
    assert parties.requester("sample_ids", view) == ["p", "q", "r"]
    np.savez(tmp_path / "public.npz", x=np.zeros((3, 2)), ids=np.array(["p", "q"]))
    with pytest.raises(FileFormatError, match="one text or number for each sample"):
        parties.create(tmp_path / "public.npz")
    with pytest.raises(InputError, match="id_column is for tables"):
        parties.create(tmp_path / "public.npz", id_column="p")


def test_classes_that_cannot_be_used_are_refused_before_anything_is_sent(parties, deployed, table):
    for classes in (["benign", "<script>"], "benign,benign", ["benign"], {"a": 1, "7": 2}):
        with pytest.raises(TaskError):
            parties.create(table, classes=classes)
    assert deployed.s0.jobs == []


def test_a_table_that_is_not_utf_8_is_told_so(tmp_path):
    path = tmp_path / "public.csv"
    path.write_bytes("id,größe\nx,1\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match="is not UTF-8 text"):
        table_arrays(path, None, NAMES)


def test_a_text_that_differs_in_every_row_is_doubted_as_a_feature(tmp_path):
    rows = [["age", "person", "place"], ["31", "ann", "x"], ["42", "bob", "y"], ["27", "cid", "x"]]
    path = write(tmp_path / "public.csv", rows)
    with pytest.warns(SedmlWarning, match="'person' of .* differs in every row") as caught:
        doubt_ids(table_arrays(path, None, NAMES), path)
    assert len(caught) == 1
    assert columns_of(path, None) == (["age", "person", "place"], None)
    assert columns_of(path, "person") == (["age", "place"], "person")
