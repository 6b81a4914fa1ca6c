"""Data sets load from every source, downloads are checked, and damaged or missing files are refused in plain words."""

from __future__ import annotations

import functools
import gzip
import hashlib
import http.server
import struct
import threading
from pathlib import Path

import numpy as np
import pytest

from sedml import silent
from sedml.errors import FileFormatError, InputError
from sedml.learn.datasets import NAMES, Dataset, data_folder, flat, load_dataset
from sedml.learn.fetch import SOURCES, RemoteFile, Source, fetch

IDX_STEMS = ["train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]
rng = np.random.default_rng(5)


def idx_bytes(array):
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def write_idx_set(folder, *, zipped=True):
    folder.mkdir(parents=True, exist_ok=True)
    labels = np.arange(20) % 10
    arrays = [rng.integers(0, 256, (20, 6, 5)), labels, rng.integers(0, 256, (20, 6, 5)), labels]
    for stem, array in zip(IDX_STEMS, arrays, strict=True):
        data = idx_bytes(array)
        path = folder / (f"{stem}.gz" if zipped else stem)
        path.write_bytes(gzip.compress(data) if zipped else data)
    return arrays


def write_mat(path, n, **changes):
    io = pytest.importorskip("scipy.io")
    content = {
        "X": rng.integers(0, 256, (32, 32, 3, n), np.uint8),
        "y": 1 + (np.arange(n, dtype=np.uint8) % 10)[:, None],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    io.savemat(path, content | changes, do_compression=True)
    return content


def refused(source, data_dir=None, error=FileFormatError):
    with pytest.raises(error) as caught:
        load_dataset(source, data_dir)
    assert caught.value.do
    return str(caught.value)


def in_both(dataset):
    return [(dataset.train_images, dataset.train_labels), (dataset.test_images, dataset.test_labels)]


# --- named data sets


def test_digits_are_bundled_and_split_the_same_way_every_time():
    first, second, other = load_dataset("digits"), load_dataset("Digits"), load_dataset("digits", seed=1)
    assert first.train_images.shape == (1198, 8, 8, 1)
    assert first.test_images.shape == (599, 8, 8, 1)
    assert first.train_images.ndim == 4
    assert first.classes == 10
    for images, labels in in_both(first):
        assert images.dtype == np.float32
        assert labels.dtype == np.int64
        assert images.min() == 0
        assert images.max() == 1
        assert set(labels) == set(range(10))
    assert np.array_equal(first.test_images, second.test_images)
    assert not np.array_equal(first.test_images, other.test_images)


def test_a_repr_shows_no_data():
    assert "array" not in repr(load_dataset("digits"))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx_files_are_found_in_their_folder(tmp_path, name, zipped):
    train, labels, test, _ = write_idx_set(tmp_path / name.replace("_", "-"), zipped=zipped)
    dataset = load_dataset(name, tmp_path)
    assert np.array_equal(np.rint(dataset.train_images[..., 0] * 255), train)
    assert np.array_equal(np.rint(dataset.test_images[..., 0] * 255), test)
    assert dataset.train_labels.tolist() == labels.tolist()
    assert dataset.class_names[9] == ("9" if name == "mnist" else "ankle boot")


def test_the_data_folder_is_the_argument_then_the_environment_then_data(tmp_path, monkeypatch):
    monkeypatch.setenv("SEDML_DATA_DIR", str(tmp_path / "env"))
    assert data_folder("given") == Path("given")
    assert data_folder() == tmp_path / "env"
    monkeypatch.delenv("SEDML_DATA_DIR")
    assert data_folder() == Path("data")
    monkeypatch.setenv("SEDML_DATA_DIR", str(tmp_path))
    write_idx_set(tmp_path / "mnist")
    assert load_dataset("mnist").train_images.shape == (20, 6, 5, 1)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("printed", "digits")])
def test_a_missing_data_set_says_what_to_put_where(tmp_path, name):
    message = refused(name, tmp_path)
    assert str(tmp_path / name) in message
    assert f"sedml data fetch {name}" in message
    assert "SEDML_DATA_DIR" in message
    assert ("train-images-idx3-ubyte.gz" if "mnist" in name else "train_32x32.mat") in message


def damage(path, how):
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "text":
        path.write_text("<html>Not found</html>")
    elif how == "flipped":
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes(b ^ 0xFF for b in data[middle : middle + 64]) + data[middle + 64 :])


def test_swapped_or_mismatched_idx_files_are_refused(tmp_path):
    write_idx_set(tmp_path / "mnist")
    images, labels = (tmp_path / "mnist" / f"{stem}.gz" for stem in IDX_STEMS[:2])
    whole = labels.read_bytes()
    labels.write_bytes(images.read_bytes())
    assert "name of another" in refused("mnist", tmp_path)
    labels.write_bytes(gzip.compress(idx_bytes(np.arange(19) % 10)))
    assert "19 labels" in refused("mnist", tmp_path, InputError)
    labels.write_bytes(gzip.compress(idx_bytes(np.full(20, 11))))
    assert "outside 0 to 9" in refused("mnist", tmp_path, InputError)
    labels.write_bytes(whole)
    assert load_dataset("mnist", tmp_path)


# --- SVHN


def test_svhn_mat_files_have_10_for_0(tmp_path):
    train = write_mat(tmp_path / "svhn" / "train_32x32.mat", 20)
    write_mat(tmp_path / "svhn" / "test_32x32.mat", 10)
    dataset = load_dataset("svhn", tmp_path)
    assert dataset.train_images.shape == (20, 32, 32, 3)
    assert np.array_equal(np.rint(dataset.train_images[3] * 255), train["X"][..., 3])
    assert dataset.train_labels.tolist() == [*range(1, 10), 0] * 2


@pytest.mark.parametrize("how", ["cut", "empty", "text", "flipped"])
def test_damaged_mat_files_are_refused(tmp_path, how):
    write_mat(tmp_path / "svhn" / "train_32x32.mat", 20)
    write_mat(tmp_path / "svhn" / "test_32x32.mat", 10)
    damage(tmp_path / "svhn" / "train_32x32.mat", how)
    assert "train_32x32.mat" in refused("svhn", tmp_path)


@pytest.mark.parametrize(
    "changes",
    [
        {"X": np.zeros((32, 32, 3), np.uint8)},
        {"X": np.zeros((28, 28, 3, 20), np.uint8)},
        {"X": np.zeros((32, 32, 3, 20))},
        {"y": np.ones(19, np.uint8)},
        {"y": np.full(20, 11, np.uint8)},
        {"y": np.array(["a"] * 20, object)},
    ],
)
def test_mat_files_with_other_contents_are_refused(tmp_path, changes):
    write_mat(tmp_path / "svhn" / "train_32x32.mat", 20, **changes)
    write_mat(tmp_path / "svhn" / "test_32x32.mat", 10)
    refused("svhn", tmp_path, InputError)


def test_real_svhn(data_dir):
    if not (data_dir / "svhn").is_dir():
        pytest.skip("no svhn folder in the data folder")
    dataset = load_dataset("svhn", data_dir)
    assert dataset.train_images.shape[1:] == dataset.test_images.shape[1:] == (32, 32, 3)
    assert set(dataset.train_labels) == set(range(10))
    assert dataset.train_images.max() == 1


# --- a user's own files

X = rng.normal(size=(30, 4))
Y = np.arange(30) % 3


def write_table(path, x, y, header=("0", "1", "2", "3", "target")):
    if path.suffix == ".npz":
        np.savez(path, x=x, y=y)
    elif path.suffix == ".parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({f"f{i}": x[:, i] for i in range(x.shape[1])} | {"target": y}), path)
    else:
        lines = [",".join(map(str, [*row, label])) for row, label in zip(x.tolist(), y.tolist(), strict=True)]
        path.write_text("\n".join([",".join(header), *lines]))
    return path


def same_samples(dataset, x, y):
    found = {(tuple(row.tolist()), label) for part in in_both(dataset) for row, label in zip(*part, strict=True)}
    assert found == {(tuple(row.tolist()), label) for row, label in zip(x.astype(np.float32), y, strict=True)}


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_tables_of_a_user(tmp_path, suffix):
    path = write_table(tmp_path / f"mine{suffix}", X, Y)
    dataset = load_dataset(path)
    assert dataset.name == "mine"
    assert dataset.train_images.ndim == 2
    assert dataset.classes == 3
    assert dataset.test_images.shape == (9, 4)
    assert np.bincount(dataset.test_labels).tolist() == [3, 3, 3]
    same_samples(dataset, X, Y)
    same_samples(load_dataset(f"mine{suffix}", tmp_path), X, Y)


def test_the_label_is_the_column_of_that_name(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.csv"
    path.write_text("0,Label,2\n" + "\n".join(f"{x[0]},{y},{x[1]}" for x, y in zip(X.tolist(), Y, strict=True)))
    same_samples(load_dataset(path), X[:, :2], Y)
    pq.write_table(pa.table({"a": X[:, 0], "label": Y, "b": X[:, 1]}), tmp_path / "t.parquet")
    same_samples(load_dataset(tmp_path / "t.parquet"), X[:, :2], Y)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_names_of_classes_are_numbered(tmp_path, suffix):
    names = np.array(["dog", "ant", "cat"])[Y]
    dataset = load_dataset(write_table(tmp_path / f"t{suffix}", X, names))
    assert dataset.class_names == ("ant", "cat", "dog")
    same_samples(dataset, X, np.array([2, 0, 1])[Y])


def test_npz_with_both_parts(tmp_path):
    images = rng.integers(0, 256, (30, 5, 6), np.uint8)
    np.savez(tmp_path / "t.npz", x_train=images[:20], y_train=Y[:20], x_test=images[20:], y_test=Y[20:])
    dataset = load_dataset(tmp_path / "t.npz")
    assert dataset.train_images.shape == (20, 5, 6, 1)
    assert np.array_equal(np.rint(dataset.test_images[..., 0] * 255), images[20:])
    assert dataset.test_labels.tolist() == Y[20:].tolist()


def test_images_of_a_user_must_be_8_bit_or_0_to_1(tmp_path):
    np.savez(tmp_path / "t.npz", x=rng.random((30, 4, 4, 3)), y=Y)
    assert load_dataset(tmp_path / "t.npz").train_images.shape[1:] == (4, 4, 3)
    np.savez(tmp_path / "t.npz", x=rng.random((30, 4, 4)) * 255, y=Y)
    assert "outside 0 to 1" in refused(tmp_path / "t.npz", error=InputError)


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        (X, Y + 1, "no training sample of class 0"),
        (X, Y * 2, "class 1, 3"),
        (X, Y - 1, "negative"),
        (X, Y + 0.5, "whole numbers"),
        (X, np.where(Y == 2, np.nan, Y), "whole numbers"),
        (X, Y * 10**12, "above"),
        (X, Y[:, None], "shape"),
        (X, Y[:-1], "29 labels"),
        (X, np.zeros(30, int), "1 class."),
        (X, Y + 0j, "type complex"),
        (X[:, 0], Y, "shape"),
        (X[:, :0], Y, "no samples"),
        (np.where(X > 1, np.nan, X), Y, "NaN"),
        (X * 1e300, Y, "infinite"),
        (X.astype(str), Y, "type <U"),
    ],
)
def test_bad_contents_are_refused_without_quoting_them(tmp_path, x, y, says):
    np.savez(tmp_path / "t.npz", x=x, y=y)
    message = refused(tmp_path / "t.npz", error=InputError)
    assert says in message
    assert str(X[0, 0])[:6] not in message


def test_a_class_that_only_the_test_part_has_is_refused(tmp_path):
    np.savez(tmp_path / "t.npz", x_train=X[:2], y_train=[0, 1], x_test=X[:3], y_test=[0, 1, 2])
    assert "no training sample of class 2" in refused(tmp_path / "t.npz", error=InputError)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "two columns"),
        (",a,label\n0,1.5,1\n", "index"),
        ("1,2,0\n3,4,1\n", "begin with their names"),
        ("a,b,label\n1,2,0\n3,4\n", "Line 3"),
        ("a,b,label\n1,2,0\n\n3,secret,1\n", "Line 4"),
        ("a,b,label\n1,2,0\n3,4,\n", "no label"),
        ("label\n1\n", "two columns"),
        ("a,b,label\n", "shape"),
    ],
)
def test_bad_csv_files_are_refused_without_quoting_them(tmp_path, text, says):
    path = tmp_path / "t.csv"
    path.write_text(text)
    message = refused(path, error=InputError)
    assert says in message
    assert "secret" not in message


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
@pytest.mark.parametrize("how", ["cut", "empty", "text"])
def test_damaged_tables_are_refused(tmp_path, suffix, how):
    path = write_table(tmp_path / f"t{suffix}", X, Y)
    if suffix == ".csv":
        path.write_bytes({"cut": b"\xff\xfe\x00", "empty": b"", "text": b"<html>"}[how])
    else:
        damage(path, how)
    assert path.name in refused(path, error=InputError)


def test_parquet_with_empty_cells_or_text_is_refused(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for columns, says in [
        ({"a": [1.0, None], "label": [0, 1]}, "empty cells"),
        ({"a": ["secret", "b"], "label": [0, 1]}, "not numbers"),
        ({"label": [0, 1]}, "two columns"),
    ]:
        pq.write_table(pa.table(columns), tmp_path / "t.parquet")
        assert says in refused(tmp_path / "t.parquet")


def test_unknown_names_and_kinds_are_refused(tmp_path):
    assert "mnist" in refused("minst", tmp_path, InputError)
    assert "does not exist" in refused(tmp_path / "none.csv")
    (tmp_path / "t.xlsx").write_text("")
    assert ".csv" in refused(tmp_path / "t.xlsx")


def test_a_data_set_checks_itself():
    good = {"train_images": X.astype("f4"), "train_labels": Y, "test_images": X.astype("f4"), "test_labels": Y}
    assert Dataset("t", **good, classes=3).class_names == ("0", "1", "2")
    for change in [
        {"train_images": X},
        {"test_images": X[:, :3].astype("f4")},
        {"train_labels": Y.astype("i4")},
        {"test_labels": Y[:-1]},
        {"classes": 2},
        {"classes": 1},
        {"class_names": ("a", "b")},
    ]:
        with pytest.raises(InputError):
            Dataset("t", **{**good, "classes": 3, **change})


def test_flat():
    assert flat(np.zeros((5, 4, 3, 2))).shape == (5, 24)
    with pytest.raises(InputError):
        flat(np.zeros(5))


# --- downloads

CONTENT = {"a.bin": rng.bytes(700_000), "b.bin": b"bb"}


@pytest.fixture
def fetch_toy(tmp_path, monkeypatch):
    """Fetches a data set of two files from some mirrors."""
    files = tuple(RemoteFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in CONTENT.items())

    def toy(*mirrors, progress=silent):
        monkeypatch.setitem(SOURCES, "toy", Source(mirrors, files))
        return fetch("toy", tmp_path, progress)

    return toy


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    folder = tmp_path / "mirror"
    folder.mkdir()
    for name, data in CONTENT.items():
        (folder / name).write_bytes(data)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        requests: list[str] = []  # noqa: RUF012

        def log_message(self, *args):
            self.requests.append(self.path)

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}", Quiet.requests
        server.shutdown()
        thread.join()


def not_fetched(how, *arguments, error=FileFormatError):
    with pytest.raises(error) as caught:
        how(*arguments)
    return str(caught.value)


def test_fetch_keeps_what_is_whole_and_replaces_what_is_not(tmp_path, mirror, fetch_toy):
    _, url, requests = mirror
    seen = []
    paths = fetch_toy(url, progress=lambda *step: seen.append(step))
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert [path.parent for path in paths] == [tmp_path / "toy"] * 2
    assert seen == sorted(seen)
    assert seen[-1] == ("fetching toy", 700_002, 700_002)
    paths[1].write_bytes(b"xx")
    requests.clear()
    fetch_toy(url)
    assert requests == ["/b.bin"]
    assert paths[1].read_bytes() == b"bb"
    assert sorted(path.name for path in (tmp_path / "toy").iterdir()) == ["a.bin", "b.bin"]


@pytest.mark.parametrize(
    ("content", "says"),
    [*((wrong, "published size and SHA-256") for wrong in (b"bx", b"b", b"bbb")), (None, "answered 404")],
)
def test_a_wrong_file_is_not_kept(tmp_path, mirror, fetch_toy, content, says):
    folder, url, _ = mirror
    (folder / "b.bin").unlink()
    if content is not None:
        (folder / "b.bin").write_bytes(content)
    message = not_fetched(fetch_toy, url)
    assert says in message
    assert str(tmp_path / "toy") in message
    assert hashlib.sha256(b"bb").hexdigest() in message
    assert [path.name for path in (tmp_path / "toy").iterdir()] == ["a.bin"]


def test_the_next_mirror_is_tried(tmp_path, mirror, fetch_toy):
    folder, url, _ = mirror
    (folder / "old").mkdir()
    (folder / "old" / "b.bin").write_bytes(b"xx")
    fetch_toy(f"{url}/old/", "http://127.0.0.1:1", url)
    assert (tmp_path / "toy" / "b.bin").read_bytes() == b"bb"


def test_without_a_network_it_says_what_to_put_where(tmp_path, monkeypatch, fetch_toy):
    monkeypatch.setenv("no_proxy", "*")
    message = not_fetched(fetch_toy, "http://127.0.0.1:1")
    assert "cannot be reached" in message
    assert str(tmp_path / "toy") in message
    assert not list((tmp_path / "toy").iterdir())


def test_bad_names_and_folders_are_refused(tmp_path, mirror, fetch_toy):
    _, url, _ = mirror
    assert "mnist" in not_fetched(fetch, "cifar", tmp_path, error=InputError)
    for name in ("digits", "printed"):
        assert "no download" in not_fetched(fetch, name, tmp_path, error=InputError)
    (tmp_path / "toy").write_text("in the way")
    assert "cannot be written" in not_fetched(fetch_toy, url)


def test_every_source_has_sums_and_lands_where_it_is_looked_for():
    for name, known in SOURCES.items():
        assert name in NAMES
        assert known.mirrors[0].startswith("https://")
        assert all(len(bytes.fromhex(file.sha256)) == 32 and file.size for file in known.files)
