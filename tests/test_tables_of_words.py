"""Predictions by name, and samples by id, in the tables that people write."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        ("Benign,Malignant,Normal\n", PredictionsError, "are not classes of this job"),
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
    with pytest.raises(PredictionsError, match="3 predictions are not classes"):
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


MANY = tuple(f"img-{number:02d}" for number in range(9))


def in_rows(votes, ids):
    """A row for each vote, the ids as headings."""
    return [list(ids), *votes]


def in_rows_by_teacher(votes, ids):
    return [["teacher", *ids], *([f"part{k}", *row] for k, row in enumerate(votes))]


def in_columns(votes, ids):
    """A row for each sample, a column for each vote."""
    return [["image_id", *(f"part{k}" for k in range(len(votes)))], *map(list, zip(ids, *votes, strict=True))]


def in_columns_of_a_frame(votes, ids):
    """As pandas writes a frame that has the ids as its index."""
    return [["", *range(len(votes))], *map(list, zip(ids, *votes, strict=True))]


def in_columns_by_patient(votes, ids):
    return [["patient", *(f"part{k}" for k in range(len(votes)))], *map(list, zip(ids, *votes, strict=True))]


LAYOUTS = [in_rows, in_rows_by_teacher, in_columns, in_columns_of_a_frame, in_columns_by_patient]
NUMBERED = tuple(str(1000 + number) for number in range(len(MANY)))


def written(folder, lines):
    path = Path(folder, "votes.csv")
    path.write_text("".join(",".join(map(str, line)) + "\n" for line in lines), encoding="utf-8")
    return path


@st.composite
def shuffled(draw, ids=MANY):
    """Votes as the job has them, and the same with their samples in another order."""
    count = draw(st.integers(1, 4))
    named = draw(st.booleans())
    cells = st.sampled_from([*NAMES, "-1"]) if named else st.sampled_from(["0", "1", "2", "-1"])
    votes = draw(st.lists(st.lists(cells, min_size=len(ids), max_size=len(ids)), min_size=count, max_size=count))
    order = draw(st.permutations(range(len(ids))))
    return votes, [[row[k] for k in order] for row in votes], [ids[k] for k in order], NAMES if named else ()


def loaded(path, names, ids, reader=load_predictions):
    found = np.atleast_2d(reader(path, names=names, ids=lambda: ids))
    return found.tolist() if names else found.astype(np.int64).astype(str).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
@given(made=shuffled())
def test_ids_order_the_votes_in_every_layout(layout, made):
    votes, moved, ids, names = made
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, layout(moved, ids))
        assert loaded(path, names, MANY) == votes
        if len(votes) == 1:
            assert loaded(path, names, MANY, load_one_teacher) == votes


@pytest.mark.parametrize("layout", LAYOUTS)
@given(made=shuffled(), place=st.integers(0, len(MANY) - 1), wrong=st.sampled_from(["unknown", "double", "missing"]))
def test_ids_that_are_not_the_jobs_are_refused(layout, made, place, wrong):
    _, moved, ids, names = made
    if wrong == "missing":
        ids, moved = ids[:place] + ids[place + 1 :], [row[:place] + row[place + 1 :] for row in moved]
    else:
        ids[place] = "img-9999" if wrong == "unknown" else ids[place - 1]
    with tempfile.TemporaryDirectory() as folder:
        path = written(folder, layout(moved, ids))
        for reader in (load_predictions, load_one_teacher)[: 2 if len(moved) == 1 else 1]:
            # With the same heading twice, the first line may be votes, which are no classes.
            with pytest.raises((FileFormatError, PredictionsError)):
                as_votes(np.atleast_2d(reader(path, names=names, ids=lambda: MANY)), len(NAMES), names)


@pytest.mark.parametrize("layout", [in_rows_by_teacher, in_columns, in_columns_by_patient])
@given(made=shuffled(NUMBERED))
def test_ids_that_are_numbers_order_the_votes(layout, made):
    votes, moved, ids, names = made
    with tempfile.TemporaryDirectory() as folder:
        assert loaded(written(folder, layout(moved, ids)), names, NUMBERED) == votes


def test_numbers_on_top_that_are_ids_are_not_taken_for_votes(tmp_path):
    ids = ("5", "2", "7")
    path = written(tmp_path, [("7", "5", "2"), (0, 1, 2)])
    for reader in (load_predictions, load_one_teacher):
        with pytest.raises(FileFormatError, match="has the ids of the job's samples: are these headings"):
            reader(path, ids=lambda: ids)


def test_headings_that_number_the_samples_order_them(tmp_path):
    path = written(tmp_path, [("teacher", 2, 0, 1), ("north", 7, 8, 9), ("south", 4, 5, 6)])
    assert load_predictions(path).tolist() == [[8, 9, 7], [5, 6, 4]]


def test_headings_are_left_out_where_samples_have_no_ids(tmp_path):
    path = written(tmp_path, [("s2", "s0", "s1"), (7, 8, 9)])
    assert load_predictions(path).tolist() == [[7, 8, 9]]
    assert load_one_teacher(path).tolist() == [7, 8, 9]


def test_the_id_of_a_single_sample_is_checked_too(tmp_path):
    path = written(tmp_path, [("id", "label"), ("img-9999", 1)])
    for reader in (load_predictions, load_one_teacher):
        with pytest.raises(FileFormatError, match="lacks 1 id"):
            reader(path, ids=lambda: ("img-1",))


def test_scores_are_not_taken_for_several_votes(tmp_path):
    path = written(tmp_path, [("id", *NAMES), ("img-1", 0, 1, 0), ("img-0", 1, 0, 0)])
    with pytest.raises(FileFormatError, match="scores"):
        load_predictions(path, names=NAMES, ids=lambda: ("img-0", "img-1"))


def test_ids_order_a_frame_in_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / "votes.parquet"
    frame = pandas.DataFrame({"part0": [2, 0, 1], "part1": [1, 2, 0]}, index=["P-3", "P-1", "P-2"])
    for one in (frame, frame.rename_axis("scan"), frame.rename_axis("id").reset_index(), frame.T):
        one.to_parquet(path)
        assert load_predictions(path, ids=lambda: IDS).tolist() == [[0, 1, 2], [2, 0, 1]]


def test_semicolons_separate_as_well(tmp_path):
    assert one(tmp_path, "id;diagnosis\nP-3;benign\nP-1;malignant\nP-2;-1\n") == [1, -1, 0]
    assert one(tmp_path, "malignant;-1;benign\n") == [1, -1, 0]
    assert load_predictions(written(tmp_path, [("7;1",), ("2;3",)])).tolist() == [[7, 1], [2, 3]]


def test_a_frame_of_names_is_read_as_the_page_on_pandas_writes_it(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({("north", k): [NAMES[k], None, "benign"] for k in range(2)}, index=["P-3", "P-1", "P-2"])
    for own, want in ((frame, [["-1", "benign", NAMES[k]] for k in range(2)]), (frame.reset_index(drop=True), None)):
        own["north"].fillna("-1").to_csv(tmp_path / "votes.csv", index_label="sample")
        found = load_predictions(tmp_path / "votes.csv", names=NAMES, ids=lambda: IDS).tolist()
        assert found == (want or [[NAMES[k], "-1", "benign"] for k in range(2)])
