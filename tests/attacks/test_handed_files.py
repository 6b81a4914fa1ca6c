"""Somebody hands over a small file that is meant to fill a machine's memory: predictions, samples, an enrolment, a kit.

What `test_bombs` tries with packed files is tried here with those that nothing unpacks.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import FileFormatError, KitError, LogError, PredictionsError, SedmlError
from sedml.files.reading import load_one_teacher, load_predictions
from sedml.protocol.votes import as_votes
from sedml.service.client.sample_tables import table_arrays
from sedml.service.client.samples import load_samples
from sedml.service.kits import ClientKit, load_enrolment
from sedml.service.log.notes import parse
from support.memory_peak import peak

MB = 1 << 20
ROWS = 1500
LONG = 120_000
"""Characters of one cell: with as many for each of the rows, 720 MB."""


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def one_long_vote(place: Path) -> object:
    rows = "".join(f"r{row},b\n" for row in range(ROWS))
    path = written(place / "votes.csv", f"sample,label\n{rows}last,{'a' * LONG}\n")
    return load_one_teacher(path, names=("a", "b"))


def one_long_vote_of_parquet(place: Path) -> object:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    votes = pa.table({"sample": [f"r{row}" for row in range(ROWS + 1)], "label": ["b"] * ROWS + ["a" * LONG]})
    parquet.write_table(votes, place / "votes.parquet")
    return load_one_teacher(place / "votes.parquet", names=("a", "b"))


def one_long_id(place: Path) -> object:
    rows = "".join(f"r{row},1\n" for row in range(ROWS))
    return table_arrays(written(place / "samples.csv", f"id,size\n{rows}{'a' * LONG},1\n"), None, ())


def one_long_heading(place: Path) -> object:
    names = [f"c{number}" for number in range(3000)] + ["a" * 100_000]
    return table_arrays(
        written(place / "samples.csv", f"{','.join(names)}\n{','.join('1' for _ in names)}\n"), None, ()
    )


def nothing_a_billion_times(place: Path) -> object:
    """Of items without any bytes, each shape takes as many; and as words, or as a list, they take some again."""
    header = repr({"descr": "<U0", "fortran_order": False, "shape": (1, 30 * MB)}).encode() + b"\n"
    (place / "votes.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(FileFormatError):
        load_samples(place / "votes.npy")
    return as_votes(load_predictions(place / "votes.npy", names=("a", "b")), 2, ("a", "b"))


@pytest.mark.parametrize(
    "read", [one_long_vote, one_long_vote_of_parquet, one_long_id, one_long_heading, nothing_a_billion_times]
)
def test_a_small_table_takes_little_memory(tmp_path, read):
    def attempt() -> None:
        with pytest.raises(FileFormatError) as refused:
            read(tmp_path)
        assert refused.value.do

    assert peak(attempt) < 256 * MB


def test_words_are_read_a_few_at_a_time():
    """A table of short words may well be long, and it took forty bytes for each of them."""
    votes = np.full((1, 6 * MB), "a")

    def attempt() -> None:
        assert not as_votes(votes, 2, ("a", "b")).any()
        with pytest.raises(PredictionsError, match=r"6,291,456 predictions are not classes"):
            as_votes(votes, 2, ("b", "c"))

    assert peak(attempt) < 128 * MB


def test_a_note_of_a_witness_that_has_a_million_signatures_is_not_read():
    note = "log\n1\nAA==\n\n" + "\N{EM DASH} a AA==\n" * MB

    def attempt() -> None:
        with pytest.raises(LogError, match="not a checkpoint"):
            parse(note)

    assert peak(attempt) < 16 * MB


DOCUMENTS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "enrolment.json": ("{" + '"":0,' * MB + '"name":0}', load_enrolment),
    "parts of a name": (".".join("a" * 12_000) + " = 1\n", ClientKit.load),
    "lists in lists": ("a = " + "[" * 10_000, ClientKit.load),
    "a number of thousands of digits": ("a = " + "9" * 5000, ClientKit.load),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_of_a_kit_is_refused_in_little_memory(tmp_path, name):
    text, read = DOCUMENTS[name]
    path = written(tmp_path / (name if name.endswith(".json") else "kit.toml"), text)

    def attempt() -> None:
        with pytest.raises(SedmlError) as refused:
            read(path if name.endswith(".json") else tmp_path)
        assert isinstance(refused.value, KitError)
        assert refused.value.do

    assert peak(attempt) < 64 * MB
