"""Download well-known data sets, each file checked against its published size and SHA-256.

The hashes are those that TensorFlow Datasets publishes; MNIST's were also computed from the official files. A hash pins
the content, so it does not matter which mirror a file comes from.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sedml import Progress, silent
from sedml.errors import FileFormatError, InputError
from sedml.files import replacing
from sedml.files.formats import reason
from sedml.learn.datasets import data_folder

_CHUNK = 1 << 18
_TIMEOUT = 30.0


@dataclass(frozen=True)
class RemoteFile:
    """A file as it must arrive."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """Where a data set comes from: every file is tried at one mirror after another."""

    mirrors: tuple[str, ...]
    files: tuple[RemoteFile, ...]


def _idx_files(*sizes_and_sums: tuple[int, str]) -> tuple[RemoteFile, ...]:
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return tuple(RemoteFile(name, *rest) for name, rest in zip(names, sizes_and_sums, strict=True))


_SVHN = (
    RemoteFile("train_32x32.mat", 182040794, "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8"),
    RemoteFile("test_32x32.mat", 64275384, "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b"),
)
_STANFORD = ("https://ufldl.stanford.edu/housenumbers/", "http://ufldl.stanford.edu/housenumbers/")

SOURCES = {
    "mnist": Source(
        ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
        _idx_files(
            (9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
            (28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
            (1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
            (4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
        ),
    ),
    "fashion-mnist": Source(
        (
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        _idx_files(
            (26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
            (29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
            (4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
            (5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
        ),
    ),
    "svhn": Source(_STANFORD, _SVHN),
}
"""What can be fetched, by the name that `load_dataset` takes."""


def fetch(name: str, data_dir: str | os.PathLike[str] | None = None, progress: Progress = silent) -> tuple[Path, ...]:
    """Download a data set to where `load_dataset` finds it, and return its files.

    Files that are there and whole are kept; damaged ones are replaced. A file appears under its name only when all of
    it has arrived and its hash is right. `progress` counts bytes.
    """
    name = name.lower().replace("_", "-")
    source = SOURCES.get(name)
    if source is None:
        problem = "needs no download" if name in ("printed", "digits") else "cannot be downloaded"
        raise InputError(f"The data set {name!r} {problem}.", f"Use one of {', '.join(SOURCES)}.")
    folder = data_folder(data_dir) / name
    total, done = sum(file.size for file in source.files), 0

    def report(count: int) -> None:
        progress(f"fetching {name}", done + count, total)

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in source.files:
            if not _is_whole(folder / file.name, file):
                _download(file, folder, source.mirrors, report)
            done += file.size
            report(0)
    except OSError as error:
        raise FileFormatError(
            f"{folder} cannot be written ({reason(error)}).",
            "Choose a --data-dir that you may write to, with enough space.",
        ) from error
    return tuple(folder / file.name for file in source.files)


def _is_whole(path: Path, file: RemoteFile) -> bool:
    if not path.is_file() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256


def _download(file: RemoteFile, folder: Path, mirrors: tuple[str, ...], report: Callable[[int], None]) -> None:
    problems = []
    for mirror in mirrors:
        try:
            data = _received(mirror.rstrip("/") + "/" + file.name, file, report)
        except _NotReceivedError as problem:
            problems.append(str(problem))
        else:
            with replacing(folder / file.name) as stream:
                stream.write(data)
            return
    raise FileFormatError(
        f"{file.name} could not be downloaded: {'; '.join(problems)}.",
        f"Download it on a machine that has a network, and put it into {folder} (SHA-256 {file.sha256}).",
    )


class _NotReceivedError(Exception):
    """What went wrong at one mirror."""


def _received(url: str, file: RemoteFile, report: Callable[[int], None]) -> bytearray:
    """What is at the address, if it is the file."""
    data = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:  # noqa: S310 - of SOURCES
            while len(data) <= file.size and (chunk := answer.read(_CHUNK)):
                data += chunk
                report(min(len(data), file.size))
    except urllib.error.HTTPError as error:
        with error:
            raise _NotReceivedError(f"{url} answered {error.code}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", None) or type(error).__name__
        raise _NotReceivedError(f"{url} cannot be reached, or broke off ({cause})") from error
    if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
        raise _NotReceivedError(f"what {url} sent does not have the published size and SHA-256")
    return data
