"""Files of samples: which array is meant, how long it is, and what is wrong with a file that cannot be used."""

import hashlib

import numpy as np
import pytest

from sedml.errors import FileFormatError
from sedml.service.client.samples import count_samples, fingerprint, load_samples, suffix_of


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize("name", ["x", "X", "data", "samples", "anything"])
def test_the_only_array_of_a_file_is_its_samples(tmp_path, name):
    path = saved(tmp_path / "a.npz", **{name: np.arange(14).reshape(7, 2)})
    assert count_samples(path) == 7
    assert load_samples(path).shape == (7, 2)


@pytest.mark.parametrize("name", ["x", "X", "data", "samples"])
def test_among_several_arrays_the_name_decides(tmp_path, name):
    path = saved(tmp_path / "a.npz", labels=np.arange(3), **{name: np.zeros((5, 2))})
    assert count_samples(path) == 5
    assert load_samples(path).shape == (5, 2)


def test_a_plain_array_and_a_compressed_one_and_a_wrong_suffix(tmp_path):
    array = np.zeros((6, 4, 4), np.uint8)
    np.save(tmp_path / "a.npy", array)
    np.savez_compressed(tmp_path / "b.npz", array)
    (tmp_path / "c.dat").write_bytes((tmp_path / "a.npy").read_bytes())
    for name in ("a.npy", "b.npz", "c.dat"):
        assert count_samples(tmp_path / name) == 6
        assert (load_samples(tmp_path / name) == array).all()


def test_only_the_header_is_read_to_count(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.zeros((1000, 10)))
    path.write_bytes(path.read_bytes()[:200])
    assert count_samples(path) == 1000
    with pytest.raises(FileFormatError, match="damaged"):
        load_samples(path)


def test_a_long_header_is_read_as_well(tmp_path):
    path = tmp_path / "a.npy"
    with path.open("wb") as stream:
        np.lib.format.write_array(stream, np.zeros((3, 2)), version=(2, 0))
    assert count_samples(path) == 3


@pytest.mark.parametrize("kind", ["missing", "empty", "text", "several", "objects", "scalar", "cut", "folder", "none"])
def test_a_file_that_cannot_be_used_is_explained(tmp_path, kind):
    path = tmp_path / "a.npz"
    match kind:
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("1,2,3")
        case "several":
            saved(path, a=np.zeros(3), b=np.zeros(3))
        case "objects":
            np.save(tmp_path / "a.npy", np.array([object()]), allow_pickle=True)
            path = tmp_path / "a.npy"
        case "scalar":
            saved(path, x=np.float64(3))
        case "cut":
            saved(path, x=np.zeros(1000))
            path.write_bytes(path.read_bytes()[:100])
        case "folder":
            path.mkdir()
        case "none":
            saved(path)
    for read in (count_samples, load_samples):
        with pytest.raises(FileFormatError):
            read(path)


def test_the_fingerprint_is_that_of_the_bytes(tmp_path):
    path, told = tmp_path / "a", []
    path.write_bytes(b"x" * 3_000_000)
    want = 3_000_000, hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert fingerprint(path, lambda *step: told.append(step)) == want
    assert told[-1] == ("reading", 3_000_000, 3_000_000)
    assert len(told) == 3


def test_the_suffix_follows_from_the_first_bytes():
    assert suffix_of(b"PK\x03\x04abc") == ".npz"
    assert suffix_of(b"\x93NUMPY\x01\x00") == ".npy"
    assert suffix_of(b"") == ""
