"""Tables as people and their tools write them: what is read is what was meant, or it is refused in words."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sedml.errors import FileFormatError
from sedml.files import load_one_teacher, load_predictions

VOTES = np.array([[7, -1, 3, 0], [7, 2, 3, 1], [5, 2, 3, 1]])
matrices = hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7), elements=st.integers(-1, 9))
labels = hnp.arrays(np.int64, st.integers(1, 40), elements=st.integers(-1, 9))


def frame_csv(array, *, index=True, header=True, index_label="", names=None):
    """As `pandas.DataFrame(array).to_csv` writes it."""
    names = list(range(array.shape[1])) if names is None else names
    rows = [[index_label] * index + names] if header else []
    rows += [[k] * index + row for k, row in enumerate(array.tolist())]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def saved_txt(array, **options):
    """As `numpy.savetxt` writes it."""
    text = io.StringIO()
    np.savetxt(text, array, **({"delimiter": ",", "fmt": "%d"} | options))
    return text.getvalue()


def read(text, reader=load_predictions, suffix=".csv"):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p" + suffix)
        path.write_bytes(text.encode())
        return reader(path)


WRITERS = {
    "csv": lambda a: frame_csv(a, index=False, header=False),
    "frame": frame_csv,
    "frame without index": lambda a: frame_csv(a, index=False),
    "frame without header": lambda a: frame_csv(a, header=False),
    "frame with names": lambda a: frame_csv(a, index=False, names=[f"s{q}" for q in range(a.shape[1])]),
    "frame with names and index": lambda a: frame_csv(a, names=[f"s{q}" for q in range(a.shape[1])]),
    "frame with teachers": lambda a: frame_csv(a, index_label="teacher"),
    "frame with a named index": lambda a: frame_csv(a, index_label="Index"),
    "frame read and written again": lambda a: frame_csv(a, index_label="Unnamed: 0"),
    "savetxt": saved_txt,
    "savetxt of floats": lambda a: saved_txt(a, fmt="%.18e"),
    "savetxt with header": lambda a: saved_txt(a, header=",".join(f"s{q}" for q in range(a.shape[1]))),
    "savetxt with numbers as header": lambda a: saved_txt(a, header=",".join(map(str, range(a.shape[1])))),
}
WITHOUT_MARK = {"csv", "frame without index", "frame without header", "savetxt", "savetxt of floats"}
"""Nothing in these files says whether they have headings or an index."""


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=60, deadline=None)
@given(array=matrices)
def test_a_matrix_comes_back_from_every_writer_or_is_refused(writer, array):
    assume(min(array.shape) > 1)
    if writer == "frame without index" and array.shape[1] == 2:
        return  # headings 0,1 above two samples are like the votes of one more teacher
    if writer == "frame without header" and len(array) == 2:
        return
    try:
        found = read(WRITERS[writer](array))
    except FileFormatError as error:
        assert writer in WITHOUT_MARK, error  # noqa: PT017
        assert "counts the" in str(error)  # noqa: PT017
    else:
        assert np.array_equal(found, array)


@pytest.mark.parametrize(
    "text",
    [
        lambda row: "".join(f"{label}\n" for label in row),
        lambda row: "label\n" + "".join(f"{label}\n" for label in row),
        lambda row: "sample,label\n" + "".join(f"{q},{label}\n" for q, label in enumerate(row)),
        lambda row: "sample,label\n" + "".join(f"{q},{label}\n" for q, label in reversed(list(enumerate(row)))),
        lambda row: "id,prediction\n" + "".join(f"{q},{label}\n" for q, label in enumerate(row)),
        lambda row: "# sample,label\n" + "".join(f"{q},{label}\n" for q, label in enumerate(row)),
        lambda row: ",0\n" + "".join(f"{q},{label}\n" for q, label in enumerate(row)),
        lambda row: '"","x"\n' + "".join(f'"{q}",{label}\n' for q, label in enumerate(row, 1)),
        lambda row: ",".join(map(str, row)) + "\n",
        lambda row: "teacher," + ",".join(f"s{q}" for q in range(len(row))) + "\nclinic," + ",".join(map(str, row)),
    ],
)
@settings(max_examples=40, deadline=None)
@given(row=labels)
def test_one_teachers_labels_in_every_natural_form(text, row):
    written = text(row.tolist())
    assert np.array_equal(read(written), row[np.newaxis])
    assert np.array_equal(read(written, load_one_teacher), row)


def test_labels_without_headings_are_read_where_they_cannot_be_votes():
    row = np.random.default_rng(2).integers(0, 10, 100)
    text = "".join(f"{q},{label}\n" for q, label in enumerate(row))
    assert np.array_equal(read(text), row[np.newaxis])
    assert np.array_equal(read(text, load_one_teacher), row)
    with pytest.raises(FileFormatError, match="'sample,label'"):
        read("0,3\n1,2\n2,2\n3,0\n")


SCORES = np.array([[0.1, 0.9], [0.5, 0.5], [0.25, 0.75]])


@pytest.mark.parametrize(
    "text",
    [
        "0.1,0.9\n0.5,0.5\n0.25,0.75\n",
        "0,1\n0.1,0.9\n0.5,0.5\n0.25,0.75\n",
        ",0,1\n0,0.1,0.9\n1,0.5,0.5\n2,0.25,0.75\n",
        "sample,cat,dog\n1,0.5,0.5\n0,0.1,0.9\n2,0.25,0.75\n",
        "0,0.1,0.9\n1,0.5,0.5\n2,0.25,0.75\n",
    ],
)
def test_one_teachers_scores(text):
    assert np.array_equal(read(text, load_one_teacher), SCORES)


def test_a_label_beside_a_score_is_not_a_table_of_scores():
    with pytest.raises(FileFormatError, match="more columns than a sample and its label"):
        read("sample,label,confidence\n0,1,0.5\n1,0,0.9\n", load_one_teacher)


def parquet(path, columns, metadata=None):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    return path


PANDAS = {"pandas": '{"index_columns": ["__index_level_0__"]}'}


@pytest.mark.parametrize("metadata", [None, PANDAS])
@settings(max_examples=30, deadline=None)
@given(array=matrices)
def test_a_frame_comes_back_from_parquet(metadata, array):
    columns = {str(q): array[:, q] for q in range(array.shape[1])}
    teachers = array if array.shape[1] > 1 else array.T
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.parquet")
        index = {"__index_level_0__": np.arange(len(array))}
        assert np.array_equal(load_predictions(parquet(path, columns | index, metadata)), teachers)
        odd = {"__index_level_0__": np.arange(len(array)) * 5 + 3}
        if array.shape[1] > 1:
            assert np.array_equal(load_predictions(parquet(path, columns | odd, metadata)), teachers)


def test_one_teachers_labels_from_parquet(tmp_path):
    path = tmp_path / "p.parquet"
    row = VOTES[0]
    for columns in (
        {"label": row},
        {"sample": [3, 2, 1, 0], "label": row[::-1]},
        {"label": row[::-1], "__index_level_0__": [3, 2, 1, 0]},
    ):
        assert load_predictions(parquet(path, columns)).tolist() == [row.tolist()]
        assert load_one_teacher(parquet(path, columns)).tolist() == row.tolist()
    with pytest.raises(FileFormatError, match="some are missing"):
        load_predictions(parquet(path, {"label": row, "__index_level_0__": [3, 5, 9, 11]}))
    columns = {"sample": [1, 0], "a": [1, 2], "b": [3, 4]}
    assert load_predictions(parquet(path, columns)).tolist() == [[2, 1], [4, 3]]
    names = {"teacher": ["x", "y"], "a": [1, 2], "b": [3, 4]}
    assert load_predictions(parquet(path, names)).tolist() == [[1, 3], [2, 4]]
