"""Predictions come back from every format, damaged files are refused, labels are written whole or not."""

from __future__ import annotations

import contextlib
import csv
import os
import stat
import sys
import tempfile
import traceback
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sedml.errors import FileFormatError, MissingExtraError
from sedml.files import load_predictions, save_labels
from sedml.protocol.votes import as_votes

SECRET = 987654
SUFFIXES = [".npy", ".npz", ".csv", ".tsv"]
LABELS = np.array([3, -1, 0, 9], np.int16)

ids = hnp.arrays(np.int16, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(-1, 300))


def write(path, array, header=None):
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, predictions=array, labels=np.arange(3))
    elif path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({f"s{q}": array[:, q] for q in range(array.shape[1])}), path)
    else:
        lines = ([header] if header else []) + array.tolist()
        with path.open("w", newline="") as stream:
            csv.writer(stream, delimiter="," if path.suffix == ".csv" else "\t").writerows(lines)
    return path


def counts(array):
    """Whether the first row or column could be an index as well."""
    parts = [part for part in (array[0], array[:, 0]) if part.size > 2 and min(array.shape) > 1]
    return any(np.array_equal(part - part[0], np.arange(part.size)) and part[0] in (0, 1) for part in parts)


def refused(path, key=None):
    with pytest.raises(FileFormatError) as caught:
        load_predictions(path, key)
    assert str(SECRET) not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None
    assert caught.value.do
    return str(caught.value)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".parquet"])
@settings(max_examples=30, deadline=None)
@given(array=ids)
def test_round_trip(suffix, array):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "p" + suffix), array)
        if suffix not in (".npy", ".npz"):
            array = array.T if array.shape[1] == 1 else array
            if counts(array):
                return
        loaded = load_predictions(path)
    assert np.array_equal(loaded, array)
    assert np.array_equal(as_votes(loaded, 301), array)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_header_is_skipped(tmp_path, suffix):
    array = np.array([[1, -1], [0, 2]])
    path = write(tmp_path / f"p{suffix}", array, header=["first, sample", "second"])
    assert np.array_equal(load_predictions(path), array)


def test_suffix_in_capitals(tmp_path):
    write(tmp_path / "p.npy", np.ones((1, 1))).rename(tmp_path / "p.NPY")
    assert load_predictions(tmp_path / "p.NPY").tolist() == [[1.0]]


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n-1,0\n",
        "\ufeff1,2\n-1,0\n",
        "1,2\r\n-1,0\r\n",
        "1,2\n-1,0",
        "\n1,2\n\n-1,0\n \n",
        ' 1, 2\n"-1","0"\n',
        "1.0,2e0\n-1.0,0\n",
        "a,b\n1,2\n-1,0\n",
        "#a,#b\n1,2\n-1,0\n",
    ],
)
def test_csv_dialects(tmp_path, text):
    (tmp_path / "p.csv").write_bytes(text.encode())
    assert load_predictions(tmp_path / "p.csv").tolist() == [[1, 2], [-1, 0]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n \n", "no line of predictions"),
        ("a,b\n", "no line of predictions"),
        ("987654 1\n", "separated by commas"),
        ("987654;1\n987654x;2\n", "Line 2, column 1"),
        ("987654,cat\n1,2\n", "Line 1, column 2"),
        ("a,b\n1,2\n3,987654x\n", "Line 3, column 2"),
        ("1,2\n\n987654_0,2\n", "Line 3, column 1"),
        ("1,2\n٩٨٧,2\n", "Line 2, column 1"),
        ("1,2\n987654,\n", "Line 2, column 2 of"),
        ("1,2\n987654,\n", "is empty"),
        ("1,2\n987654\n", "Line 2 of"),
        ("1,2\n3,4\n987654,2,3\n", "has 3 columns, the lines before it 2"),
        (",3,1\n0,987654,2\n", "index_label='teacher'"),
        (",a,b\n7,987654,2\n8,1,1\n", "does not count the rows"),
        ("0,1,2\n1,987654,2\n", "The first line of"),
        ("0,1\n1,987654\n2,3\n", "The first column of"),
        ("987654;1\n1;x\n", "separated by semicolons"),
        ("987654 1\n1 2\n", "separated by spaces"),
        ("987654\t1\n1\t2\n", "separated by tabs"),
        ("a,b\n1,2,987654\n", "has 3 columns, the lines before it 2"),
        ("sample,label\n1,987654\n2,3\n", "numbered from 1"),
        ("sample,label\n0,987654\n0,3\n", "there twice"),
        ("sample,label\n0,987654\n7,3\n", "some are missing"),
        ("sample,label\ncat,987654\ndog,3\n", "have no numbers"),
        ("sample,label\n0,987654\n1\n", "has 1 column,"),
        ("sample,label,b\n0,987654,1\n1,2,3\n", "are no votes"),
        ("teacher,sample,label\n0,0,987654\n1,0,3\n", "one vote per line"),
    ],
)
def test_csv_that_is_no_table_of_numbers(tmp_path, text, words):
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    assert words in refused(tmp_path / "p.csv")


def test_tsv_names_tabs(tmp_path):
    (tmp_path / "p.tsv").write_text("1,2\n3,4\n")
    assert "separated by tabs" in refused(tmp_path / "p.tsv")


def test_csv_of_bytes(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"1,2\n\xff\xfe,3\n")
    assert "UTF-8" in refused(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_bytes(b"x" * 200_000 + b",1\n")
    assert "damaged" in refused(tmp_path / "p.csv")


@settings(deadline=None)
@given(st.text(alphabet='0129-.,;"\n\r\t \x00\x0b\x85eanif_#\u2028٣', max_size=30))
def test_any_text_loads_or_is_refused(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "p.csv")
        path.write_bytes(text.encode())
        with contextlib.suppress(FileFormatError):
            assert load_predictions(path).ndim == 2


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_truncated_files_are_refused(suffix, data):
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder, "p" + suffix), np.full((3, 40), SECRET))
        whole = path.read_bytes()
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
        text = refused(path)
    assert "damaged" in text or "is empty" in text or "cannot be read" in text


def test_npz_with_a_flipped_byte(tmp_path):
    path = write(tmp_path / "p.npz", np.full((3, 40), SECRET))
    content = bytearray(path.read_bytes())
    content[400] ^= 1
    path.write_bytes(content)
    assert "damaged" in refused(path)


def test_npy_that_claims_more_than_memory_holds(tmp_path):
    path = tmp_path / "p.npy"
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f8", "fortran_order": False, "shape": (1 << 30, 1 << 28)}
        )
    assert "damaged" in refused(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_other_content_under_the_suffix(tmp_path, suffix):
    path = tmp_path / f"p{suffix}"
    path.write_text("987654,1\n" * 50)
    text = refused(path)
    assert "damaged" in text or "cannot be read" in text


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_pickled_objects_are_refused(tmp_path, suffix):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "exploded"),)

    path = write(tmp_path / f"p{suffix}", np.array([[Bomb(), SECRET]], object))
    assert "pickled" in refused(path)
    assert not (tmp_path / "exploded").exists()


def test_npz_keys(tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, votes=np.ones((2, 2)))
    assert load_predictions(path).tolist() == np.ones((2, 2)).tolist()
    np.savez_compressed(path, votes=np.ones((2, 2)), predictions=np.zeros((2, 2)))
    assert not load_predictions(path).any()
    assert load_predictions(path, key="votes").all()
    assert "'votes', 'predictions'" in refused(path, "vote")
    np.savez(path, a=np.ones(2), b=np.ones(2))
    assert "'a', 'b'" in refused(path)
    np.savez(path, **{f"k{i}": np.ones(1) for i in range(50)})
    assert "..." in refused(path)
    np.savez(path)
    assert "no arrays" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("predictions.txt", "987654")
    assert "no arrays" in refused(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("predictions.npy", "987654")
    assert "damaged" in refused(path)


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".tsv", ".parquet"])
def test_key_is_for_npz_only(tmp_path, suffix):
    assert "not an .npz" in refused(write(tmp_path / f"p{suffix}", np.ones((1, 1))), "predictions")


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".parquet"])
def test_missing_empty_and_folder(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"p{suffix}"
    assert "does not exist" in refused(path)
    path.touch()
    assert "is empty" in refused(path)
    path.unlink()
    path.mkdir()
    assert "cannot be read" in refused(path)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_an_array_of_nothing(tmp_path, shape):
    assert "no predictions" in refused(write(tmp_path / "p.npy", np.zeros(shape)))


@pytest.mark.parametrize("name", ["p", "p.pkl", "p.npy.gz", ".npy"])
def test_unknown_suffix(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    assert ".npy, .npz, .csv, .tsv, .parquet" in refused(tmp_path / name)
    with pytest.raises(FileFormatError, match="known kind"):
        save_labels(tmp_path / name, LABELS)


def test_parquet_tables(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "year=2024"
    folder.mkdir()
    path = folder / "p.parquet"

    def put(columns, metadata=None):
        pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)

    put({"a": [True, False], "b": [1, -1], "c": [0.0, 2.0]})
    assert load_predictions(path).tolist() == [[1, 1, 0], [0, -1, 2]]
    put({"a": [1, 2], "b": [0, 3], "i": ["x", "y"]}, {"pandas": '{"index_columns": ["i", {"kind": "range"}]}'})
    assert load_predictions(path).tolist() == [[1, 0], [2, 3]]
    put({"a": [1], "b": [str(SECRET)]})
    assert "Column 2 of 2 of" in refused(path)
    put({"a": [SECRET, None]})
    assert "Column 1 of 1 of" in refused(path)
    put({"a": [[SECRET]]})
    assert "a column of lists" in refused(path)
    put({})
    assert "no predictions" in refused(path)


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "p.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"pip install 'sedml-pate\[parquet\]'"):
        load_predictions(tmp_path / "p.parquet")
    with pytest.raises(MissingExtraError, match=r"pip install 'sedml-pate\[parquet\]'"):
        save_labels(tmp_path / "labels.parquet", LABELS)
    assert [file.name for file in tmp_path.iterdir()] == ["p.parquet"]


def read_labels(path):
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            assert archive.files == ["labels"]
            return archive["labels"]
    if path.suffix == ".parquet":
        table = pytest.importorskip("pyarrow.parquet").ParquetFile(path).read()
        assert table.column("sample").to_pylist() == list(range(table.num_rows))
        return table.column("label").to_numpy()
    with path.open(newline="") as stream:
        head, *rows = csv.reader(stream, delimiter="," if path.suffix == ".csv" else "\t")
    assert head == ["sample", "label"]
    assert [int(sample) for sample, _ in rows] == list(range(len(rows)))
    return np.array([int(label) for _, label in rows], int)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".parquet"])
@settings(max_examples=20, deadline=None)
@given(labels=hnp.arrays(np.int32, st.integers(0, 20), elements=st.integers(-1, 2**31 - 1)))
def test_labels_round_trip(suffix, labels):
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "labels" + suffix)
        path.write_text("an older file")
        save_labels(path, labels)
        assert np.array_equal(read_labels(path), labels)
        save_labels(str(path), labels.tolist() or labels)
        assert np.array_equal(read_labels(path), labels)
        assert list(Path(folder).iterdir()) == [path]


def test_labels_follow_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        save_labels(tmp_path / "labels.csv", LABELS)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "labels.csv").stat().st_mode) == 0o640


@pytest.mark.parametrize("labels", [np.zeros((2, 2), int), [0.5], [], ["1"], [None], 3, [True]])
def test_labels_that_are_no_labels(tmp_path, labels):
    with pytest.raises(FileFormatError, match="one integer per sample"):
        save_labels(tmp_path / "labels.npy", labels)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch, fault, step):
    def fail(*args):
        raise fault

    path = tmp_path / "labels.csv"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(Path if step == "replace" else os, step, fail)
        with pytest.raises(FileFormatError if isinstance(fault, OSError) else KeyboardInterrupt):
            save_labels(path, LABELS)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("labels.csv", "old")]


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder.npy").mkdir()
    for path in ("missing/labels.npy", "file/labels.npy", "folder.npy"):
        with pytest.raises(FileFormatError, match="cannot be written"):
            save_labels(tmp_path / path, LABELS)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "folder.npy"]
