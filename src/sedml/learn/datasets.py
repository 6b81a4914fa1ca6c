"""Data sets for teachers and students, from scikit-learn, from well-known files, or from a user's own file.

| name | files, in `data_dir/<name>` |
|---|---|
| printed | none: digits rendered from matplotlib's fonts, 30,000 for training and 6,000 for testing |
| digits | none: bundled with scikit-learn |
| mnist, fashion-mnist | `train-images-idx3-ubyte`, `train-labels-idx1-ubyte`, the same with `t10k-`; gzipped or not |
| svhn | `train_32x32.mat` and `test_32x32.mat` (cropped digits), or `train*.npz` and `test*.npz` with x and y |

`data_dir` is the argument, or `SEDML_DATA_DIR`, or `./data`. Training data is private, so no repr or error shows any.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import FileFormatError, InputError, counted
from sedml.extras import explain_missing
from sedml.files.formats import read_explained
from sedml.learn.idx import read_idx
from sedml.learn.printed import printed_digits
from sedml.learn.userfiles import Part, as_samples, class_ids, read_parts

Images: TypeAlias = npt.NDArray[np.float32]
Labels: TypeAlias = npt.NDArray[np.int64]
_Array: TypeAlias = npt.NDArray[Any]

NAMES = ("printed", "digits", "mnist", "fashion-mnist", "svhn")
"""The data sets that `load_dataset` knows by name."""

_FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_AGAIN = "Get the file again: it may be damaged or cut short."
_PRINTED = 30_000, 6_000  # for training and for testing
_TEST_SHARE = 1 / 3  # of every class, where a source has no test part


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled samples for training and for testing, checked.

    Images are float32[n, H, W, C] in [0, 1]; other features are float32[n, d] as they came. Labels are int64[n], class
    ids from 0 to classes - 1. Without `class_names` the ids are the names.
    """

    name: str
    train_images: Images = field(repr=False)
    train_labels: Labels = field(repr=False)
    test_images: Images = field(repr=False)
    test_labels: Labels = field(repr=False)
    classes: int
    class_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise InputError(
                f"{self.name} has {counted(self.classes, 'class')}.", "Give samples of at least two classes."
            )
        if not self.class_names:
            object.__setattr__(self, "class_names", tuple(str(i) for i in range(self.classes)))
        if len(self.class_names) != self.classes:
            what = (
                f"{self.name} has {counted(self.classes, 'class')} but {counted(len(self.class_names), 'class name')}."
            )
            raise InputError(what, "Give one name per class.")
        _check_part(f"the training part of {self.name}", self.train_images, self.train_labels, self.classes)
        _check_part(f"the test part of {self.name}", self.test_images, self.test_labels, self.classes)
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise InputError(
                f"{self.name} has samples of shape {self.train_images.shape[1:]} for training "
                f"and of shape {self.test_images.shape[1:]} for testing.",
                "Give both parts the same shape.",
            )


def load_dataset(
    source: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None, *, seed: int = 0
) -> Dataset:
    """The data set of that name, or the one in a file of yours: see `sedml.learn.userfiles` for what it may hold.

    Printed digits follow from the `seed`. Sources that have no test part of their own (digits, one table) are split by
    class, the same way for the same `seed`: a third of every class goes to the test part.
    """
    name = os.fspath(source).lower().replace("_", "-")
    folder = data_folder(data_dir)
    if name == "printed":
        return _printed(seed)
    if name == "digits":
        return _digits(seed)
    if name in ("mnist", "fashion-mnist"):
        return _idx_set(name, folder)
    if name == "svhn":
        return _svhn(folder)
    return _of_user(source, folder, seed)


def data_folder(data_dir: str | os.PathLike[str] | None = None) -> Path:
    """Where data sets are kept: the argument, else `SEDML_DATA_DIR`, else `./data`."""
    return Path(data_dir or os.environ.get("SEDML_DATA_DIR") or "data").expanduser()


def mnist_test(folder: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The test images of MNIST and their classes, as its files in the folder of data sets have them."""
    images, labels = (_find(folder / "mnist", f"t10k-{kind}-ubyte*") for kind in ("images-idx3", "labels-idx1"))
    return read_idx(images), read_idx(labels)


def flat(images: npt.ArrayLike) -> _Array:
    """Every sample as one row of features, as scikit-learn's estimators take them."""
    array = np.asarray(images)
    if array.ndim < 2:
        raise InputError(f"Samples of shape {array.shape} were given.", "Give one row, or one image, per sample.")
    return array.reshape(len(array), int(np.prod(array.shape[1:])))


def _check_part(what: str, images: _Array, labels: _Array, classes: int) -> None:
    if images.ndim not in (2, 4) or images.dtype != np.float32:
        raise InputError(
            f"The samples of {what} have shape {images.shape} and type {images.dtype}.",
            "Give float32 images as (samples, height, width, channels) or features as (samples, features).",
        )
    if labels.ndim != 1 or labels.dtype != np.int64:
        what = f"The labels of {what} have shape {labels.shape} and type {labels.dtype}."
        raise InputError(what, "Give one int64 class id per sample.")
    if len(images) != len(labels):
        what = f"There are {len(images)} samples but {len(labels)} labels in {what}."
        raise InputError(what, "Give one label per sample.")
    if images.size == 0:
        raise InputError(f"There are no samples in {what}.", "Give at least one.")
    lowest, highest = images.min(), images.max()
    if not np.isfinite([lowest, highest]).all():
        raise InputError(f"Some samples of {what} hold NaN or infinite numbers.", "Fill them in or leave them out.")
    if images.ndim == 4 and (lowest < 0 or highest > 1):
        raise InputError(f"Some pixels of {what} are outside 0 to 1.", "Give 8-bit pixels, or scale them to 0 to 1.")
    if labels.min() < 0 or labels.max() >= classes:
        raise InputError(f"Some labels of {what} are outside 0 to {classes - 1}.", "Number the classes from 0.")


def _scaled(pixels: _Array) -> Images:
    return np.divide(pixels, np.float32(255), dtype=np.float32)


def _printed(seed: int) -> Dataset:
    images, labels = printed_digits(sum(_PRINTED), np.random.default_rng(seed))
    train, test = slice(_PRINTED[0]), slice(_PRINTED[0], None)
    return Dataset("printed", images[train], labels[train], images[test], labels[test], 10)


def _digits(seed: int) -> Dataset:
    with explain_missing():
        bunch = importlib.import_module("sklearn.datasets").load_digits()
    images = (bunch.images[..., np.newaxis] / 16).astype(np.float32)
    return _split_up("digits", images, bunch.target.astype(np.int64), tuple("0123456789"), seed)


def _split_up(name: str, images: Images, labels: Labels, names: tuple[str, ...], seed: int) -> Dataset:
    classes = len(names)
    _check_part(name, images, labels, classes)
    rng = np.random.default_rng(seed)
    in_test = np.zeros(len(labels), np.bool_)
    for i in range(classes):
        members = rng.permutation(np.flatnonzero(labels == i))
        in_test[members[: min(round(_TEST_SHARE * members.size), members.size - 1)]] = True
    return Dataset(name, images[~in_test], labels[~in_test], images[in_test], labels[in_test], classes, names)


def _idx_set(name: str, folder: Path) -> Dataset:
    stems = [f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    found = [_find(folder / name, stem, f"{stem}.gz") for stem in stems]
    arrays = [read_idx(path) for path in found]
    for path, array, ndim in zip(found, arrays, (3, 1, 3, 1), strict=True):
        if array.ndim != ndim:
            what = f"{path} holds {array.ndim}-dimensional data, not {ndim}-dimensional data."
            raise FileFormatError(what, "Check that no file was given the name of another.")
    train_images, train_labels, test_images, test_labels = arrays
    return Dataset(
        name,
        _scaled(train_images)[..., np.newaxis],
        train_labels.astype(np.int64),
        _scaled(test_images)[..., np.newaxis],
        test_labels.astype(np.int64),
        10,
        _FASHION if name == "fashion-mnist" else (),
    )


def _svhn(folder: Path) -> Dataset:
    found = [_find(folder / "svhn", f"{part}_32x32.mat", f"{part}*.npz") for part in ("train", "test")]
    train, test = [_svhn_part(path) for path in found]
    return Dataset("svhn", *train, *test, 10)


def _svhn_part(path: Path) -> tuple[Images, Labels]:
    part = read_explained(path, lambda: _read_mat(path), _AGAIN) if path.suffix == ".mat" else read_parts(path)[0]
    pixels, labels = part.samples, part.labels
    if pixels.ndim != 4 or pixels.shape[1:] != (32, 32, 3) or pixels.dtype != np.uint8 or labels.dtype.kind not in "iu":
        what = f"{path} holds samples of shape {pixels.shape} and type {pixels.dtype}, not 8-bit 32x32 colour images."
        raise FileFormatError(what, "Use the cropped digits (format 2) of SVHN.")
    # The .mat files have 10 for the digit 0.
    return _scaled(pixels), np.where(labels == 10, 0, labels).astype(np.int64)


def _read_mat(path: Path) -> Part:
    with explain_missing():
        reader: Callable[..., dict[str, _Array]] = importlib.import_module("scipy.io").loadmat
    content = reader(path, variable_names=["X", "y"])
    return Part(np.ascontiguousarray(content["X"].transpose(3, 0, 1, 2)), content["y"].reshape(-1))


def _find(folder: Path, *patterns: str) -> Path:
    """The file of one of these names."""
    for pattern in patterns:
        for path in sorted(folder.glob(pattern)):
            return path
    raise FileFormatError(
        f"{folder.name} is not in {folder}: there is no {' or '.join(patterns)}.",
        f"Put its files there, or run `sedml data fetch {folder.name}`; "
        "--data-dir or SEDML_DATA_DIR says where the data is.",
    )


def _of_user(source: str | os.PathLike[str], folder: Path, seed: int) -> Dataset:
    path = Path(source).expanduser()
    if not path.exists() and (folder / path).exists():
        path = folder / path
    if not path.exists() and not path.suffix:
        what = f"There is no data set {os.fspath(source)!r}."
        raise InputError(what, f"Use one of {', '.join(NAMES)}, or the path of an .npz, .csv or .parquet file.")
    train, test = read_parts(path)
    images = [as_samples(part.samples, path) for part in (train, test) if part is not None]
    labels, names = class_ids([part.labels for part in (train, test) if part is not None], path)
    if test is None:
        return _split_up(path.stem, images[0], labels[0], names, seed)
    return Dataset(path.stem, images[0], labels[0], images[1], labels[1], len(names), names)
