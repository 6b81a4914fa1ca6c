"""A unit in two parts is found, whoever made them; and so is every other change. No id is told."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sedml
from sedml.errors import FileFormatError, InputError, PartsError
from sedml.parts.checking import examine
from support.parts_data import ids_by_part, patients, write_csv


@pytest.fixture
def parts(tmp_path):
    sedml.shard(write_csv(tmp_path / "a.csv", patients()), by="pid", parts=4, out=tmp_path / "parts")
    return tmp_path / "parts"


def refused(folder: Path, match: str, **options) -> None:
    with pytest.raises(PartsError, match=match) as caught:
        sedml.check_parts(folder, **options)
    assert "PAT" not in str(caught.value)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=6), st.integers(1, 4))
def test_any_overlap_is_found_and_counted(held, spread):
    with tempfile.TemporaryDirectory() as name:
        for k, units in enumerate(held):
            write_csv(Path(name) / f"{k}.csv", {"pid": np.array([f" PAT0{unit}" for unit in units])})
        times = [sum(unit in units for units in held) for unit in range(13)]
        found = examine(name, by="pid", spread=spread)
        assert found.overlaps == {n: times.count(n) for n in range(2, len(held) + 1) if n in times}
        for (a, b), count in found.pairs.items():
            assert len(held[a - 1] & held[b - 1]) == count
        assert found.parts.spread == max(times)
        assert bool(found.problems) == (max(times) > spread)
        assert "PAT" not in str(found)


def test_a_unit_in_two_parts_is_found_in_another_spelling_too(parts):
    unit = ids_by_part(parts)[2][0]
    with (parts / "part-01.csv").open("a") as stream:
        stream.write(f" {unit.lower()} ,1,east,1\n")
    refused(parts, r"Units in more than one part: 1 \(1 in 2 parts; between parts 1 and 3: 1\)")
    refused(parts, "part-01.csv is not as it was made", spread=2)


def test_a_unit_that_was_moved_is_found_by_the_key(parts):
    lines = (parts / "part-01.csv").read_text().splitlines(keepends=True)
    unit = lines[1].split(",")[0]
    moved = [line for line in lines if line.startswith(unit)]
    (parts / "part-01.csv").write_text("".join(line for line in lines if line not in moved))
    with (parts / "part-02.csv").open("a") as stream:
        stream.writelines(moved)
    refused(parts, "Units in another part than their key says: 1")


def test_a_part_that_was_edited_is_gone_or_is_new_is_found(parts):
    made = sedml.check_parts(parts)
    text = (parts / "part-02.csv").read_text()
    (parts / "part-02.csv").write_text(text.replace("east", "west", 1))
    refused(parts, "part-02.csv is not as it was made")
    (parts / "part-02.csv").write_text(f"{text},1,east,1\n")
    refused(parts, "Records of part-02.csv without an id: 1")
    (parts / "part-02.csv").unlink()
    refused(parts, "part-02.csv does not exist")
    (parts / "part-02.csv").write_text(text)
    (parts / "part-05.csv").write_text(text)
    refused(parts, "that are not in its manifest: 1")
    (parts / "part-05.csv").unlink()
    assert sedml.check_parts(parts) == made


def test_a_manifest_that_was_edited_is_found(parts):
    path = parts / "manifest.json"
    good = json.loads(path.read_text())
    edits = [
        {"units": good["units"] + 1},
        {"spread": 2},
        {"extra": 1},
        {"by": "age"},
        {"digest": "0" * 64},
        {"files": []},
    ]
    edits.append({"files": [good["files"][0] | {"name": "../part-01.csv"}, *good["files"][1:]]})
    for edit in edits:
        path.write_text(json.dumps(good | edit))
        with pytest.raises(FileFormatError, match="changed or is damaged"):
            sedml.check_parts(parts)
    for text in ("", "[]", "{}", "null", "{"):
        path.write_text(text)
        with pytest.raises(FileFormatError, match="changed or is damaged"):
            sedml.check_parts(parts)


def test_a_manifest_with_a_new_digest_does_not_help(parts):
    """Whoever edits it can also hash it anew; the records and the key still tell."""
    from sedml.parts.part_manifest import Parts, read_manifest, write_manifest

    made = read_manifest(parts, Parts)
    (parts / "manifest.json").unlink()
    first = made.files[0].model_copy(update={"units": made.files[0].units - 1})
    write_manifest(parts, made.model_copy(update={"files": (first, *made.files[1:])}))
    refused(parts, "part-01.csv is not as it was made")


def test_the_key_of_other_parts_is_noticed(parts):
    (parts / "shard.key").write_text("ab" * 32)
    refused(parts, "shard.key is not the key")
    (parts / "shard.key").unlink()
    sedml.check_parts(parts)


def test_a_file_in_the_lists_of_two_parts_is_found(tmp_path):
    (tmp_path / "scans").mkdir()
    for k in range(80):
        (tmp_path / "scans" / f"{k}.png").touch()
    data = {"pid": np.arange(80), "file": np.array([f"{k}.png" for k in range(80)])}
    parts = tmp_path / "parts"
    sedml.shard(write_csv(tmp_path / "a.csv", data), by="pid", parts=2, out=parts, files=tmp_path / "scans")
    sedml.check_parts(parts)
    mine, other = ((parts / f"part-0{k}.csv").read_text() for k in (1, 2))
    name = other.split("\n")[1].split(",")[1]
    (parts / "part-01.csv").write_text(mine.replace(mine.split("\n")[1].split(",")[1] + "\n", f"./{name}\n", 1))
    refused(parts, "Files in more than one part: 1 ")


def test_parts_of_other_makers(tmp_path):
    for k, suffix in enumerate(("csv", "npz", "csv")):
        ids = np.array([f"PAT{number}" for number in range(k * 9, k * 9 + 10)])  # one in common with the next
        path = tmp_path / f"{k}.{suffix}"
        np.savez(path, pid=ids) if suffix == "npz" else write_csv(path, {"pid": ids})
    with pytest.raises(InputError, match="--by"):
        sedml.check_parts(tmp_path)
    refused(
        tmp_path, r"Units in more than one part: 2 \(2 in 2 parts; between parts 1 and 2: 1; 2 and 3: 1\)", by="pid"
    )
    found = sedml.check_parts(tmp_path, by="pid", spread=2)
    assert (found.spread, found.units, found.records) == (2, 28, 30)
    assert found.digest != sedml.check_parts(tmp_path, by="pid", spread=2).digest, "or it could be guessed"
    assert not (tmp_path / "manifest.json").exists()


def test_what_is_no_folder_of_parts(tmp_path, parts):
    for folder in (tmp_path / "none", tmp_path / "a.csv"):
        with pytest.raises(InputError, match="not a folder"):
            sedml.check_parts(folder, by="pid")
    with pytest.raises(InputError, match="split by 'pid'"):
        sedml.check_parts(parts, by="age")
    for spread in (0, 65, 1.5):
        with pytest.raises(InputError, match="A spread of"):
            sedml.check_parts(parts, spread=spread)
