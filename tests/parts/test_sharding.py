"""Every record lands in one part, that of its unit; what is written down has no id in it."""

import json
import tempfile
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sedml
from sedml.errors import FileFormatError, InputError, SedmlWarning
from sedml.parts.part_manifest import Parts, new_set, read_manifest
from sedml.parts.unit_ids import unit_of
from support.parts_data import ids_by_part, patients, write_csv

_ID = st.text(st.characters(codec="utf-8", exclude_characters='",\r\n\x00'), min_size=1, max_size=6).filter(unit_of)
IDS = st.lists(_ID, min_size=1, max_size=60)


def quiet(data, **options):
    """Few units in many parts, of which it warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SedmlWarning)
        return sedml.shard(data, **{"by": "pid", **options})


def csv_of(folder: Path, ids: list[str], name: str = "data.csv") -> Path:
    path = folder / name
    lines = ["pid,row", *(f'"{one}",{k}' for k, one in enumerate(ids))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    return path


def rows(folder: Path) -> dict[int, int]:
    """Which part each record is in."""
    found = {}
    for k, file in enumerate(sorted(folder.glob("part-*.csv"))):
        for line in file.read_text("utf-8").split("\n")[1:-1]:
            row = int(line.rpartition(",")[2])
            assert row not in found
            found[row] = k
    return found


@settings(max_examples=30, deadline=None)
@given(IDS, IDS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_each_record_is_in_one_part_and_others_move_nobody(ids, later, parts, random):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = quiet(csv_of(folder, ids), parts=parts, out=folder / "parts")
        places = rows(folder / "parts")
        assert sorted(places) == list(range(len(ids)))
        assert made.records == len(ids)
        assert made.units == len({unit_of(one) for one in ids})
        where = {}
        for row, one in enumerate(ids):
            assert where.setdefault(unit_of(one), places[row]) == places[row]
        sedml.check_parts(folder / "parts")

        # A longer file, in another order, into the same folder.
        order = list(enumerate(ids)) + [(len(ids) + k, one) for k, one in enumerate(later)]
        random.shuffle(order)
        quiet(csv_of(folder, [one for _, one in order]), parts=parts, out=folder / "parts")
        again = rows(folder / "parts")
        for row, (before, _) in enumerate(order):
            assert before >= len(ids) or again[row] == places[before]


def test_the_records_of_a_csv_file_keep_their_text(tmp_path):
    text = 'pid;note;"x"\r\n1;"a;b\r\nc ""d""";"01"\r\n\r\n2;ü;2\r\n1;last;3'
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    quiet(tmp_path / "a.csv", parts=2, out=tmp_path / "parts")
    contents = [(tmp_path / "parts" / f"part-0{k}.csv").read_bytes().decode() for k in (1, 2)]
    head, first = 'pid;note;"x"\r\n', '1;"a;b\r\nc ""d""";"01"\r\n'
    second, third = "2;ü;2\r\n", "1;last;3\n"
    wanted = {head + first + second + third, head}, {head + first + third, head + second}
    assert set(contents) in wanted


def test_every_format_is_split_in_the_same_way(tmp_path):
    data = patients()
    key = tmp_path / "csv" / "shard.key"
    made = sedml.shard(write_csv(tmp_path / "a.csv", data), by="pid", parts=5, out=tmp_path / "csv")
    wanted = ids_by_part(tmp_path / "csv")

    write_csv(tmp_path / "a.tsv", data, "\t")
    pandas.DataFrame(data).to_parquet(tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", **data)
    sources = {
        "tsv": tmp_path / "a.tsv",
        "parquet": tmp_path / "a.parquet",
        "npz": str(tmp_path / "a.npz"),
        "frame": pandas.DataFrame(data),
        "indexed": pandas.DataFrame(data).set_index("pid"),
        "arrays": data,
    }
    for name, source in sources.items():
        other = sedml.shard(source, by="pid", parts=5, out=tmp_path / name, key=key)
        counts = [[(part.units, part.records) for part in one.files] for one in (made, other)]
        assert counts[0] == counts[1]
        sedml.check_parts(tmp_path / name)
    for k, ids in enumerate(wanted, 1):
        file = f"part-{k:02d}"
        assert pyarrow.parquet.read_table(tmp_path / "parquet" / f"{file}.parquet")["pid"].to_pylist() == ids
        with np.load(tmp_path / "npz" / f"{file}.npz") as arrays:
            assert arrays["pid"].tolist() == ids
            assert set(arrays) == set(data)
        assert pandas.read_csv(tmp_path / "frame" / f"{file}.csv")["pid"].tolist() == ids


def test_numbers_as_ids_are_the_same_in_every_format(tmp_path):
    ids = np.arange(300) % 100
    quiet({"pid": ids}, parts=4, out=tmp_path / "int")
    key = tmp_path / "int" / "shard.key"
    quiet({"pid": ids.astype(float)}, parts=4, out=tmp_path / "float", key=key)
    frame = pandas.DataFrame({"pid": [f"{one:06d}" for one in ids]})
    quiet(frame, parts=4, out=tmp_path / "text", key=key)
    for k in range(1, 5):
        numbers = [np.load(tmp_path / kind / f"part-0{k}.npz")["pid"].tolist() for kind in ("int", "float")]
        texts = pandas.read_csv(tmp_path / "text" / f"part-0{k}.csv")["pid"].tolist()
        assert numbers[0] == numbers[1] == texts


def test_manifest_output_and_digest_tell_no_id_and_what_is_written_is_private(tmp_path):
    data = patients()
    made = sedml.shard(data, by="pid", parts=5, out=tmp_path / "parts")
    manifest = (tmp_path / "parts" / "manifest.json").read_text()
    for one in {*data["pid"].tolist()}:
        assert one not in manifest
        assert one not in repr(made)
    document = json.loads(manifest)
    assert document["digest"] == made.digest
    assert len(bytes.fromhex(made.digest)) == 32
    assert read_manifest(tmp_path / "parts", Parts) == made
    assert (tmp_path / "parts" / "shard.key").read_text().strip() not in manifest
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "parts").iterdir()} == {0o600}
    assert (tmp_path / "parts").stat().st_mode & 0o777 == 0o700
    # The same records under another key have another digest: it tells no count.
    other = sedml.shard(data, by="pid", parts=5, out=tmp_path / "other")
    assert other.digest != made.digest
    assert sedml.shard(data, by="pid", parts=5, out=tmp_path / "parts").digest == made.digest


@pytest.mark.parametrize("missing", ["", "  ", "NaN"])
def test_missing_ids_are_refused_by_number_and_no_id_is_told(tmp_path, missing):
    path = csv_of(tmp_path, ["SECRET1", missing, "SECRET2", missing])
    with pytest.raises(
        InputError, match=r"Records of .* without an id in 'pid': 2 of 4 \(number 2, 4, from 1\)"
    ) as caught:
        sedml.shard(path, by="pid", parts=2, out=tmp_path / "parts")
    assert "SECRET" not in str(caught.value)
    assert not (tmp_path / "parts").exists()


def test_missing_ids_of_frames_and_parquet(tmp_path):
    frame = pandas.DataFrame({"pid": [1, None, 3], "x": [1, 2, 3]})
    frame.to_parquet(tmp_path / "a.parquet")
    for data in (frame, tmp_path / "a.parquet"):
        with pytest.raises(InputError, match="without an id in 'pid': 1 of 3"):
            sedml.shard(data, by="pid", parts=2, out=tmp_path / "parts")


def test_another_split_into_the_same_folder_is_refused(tmp_path):
    data = patients() | {"other": np.arange(1200)}
    path = write_csv(tmp_path / "a.csv", data)
    made = sedml.shard(path, by="pid", parts=5, out=tmp_path / "parts")
    for options in ({"parts": 6}, {"by": "other"}, {"data": data}):
        wanted = {"data": path, "by": "pid", "parts": 5} | options
        with pytest.raises(InputError, match="Give a new folder"):
            sedml.shard(wanted.pop("data"), out=tmp_path / "parts", **wanted)
    sedml.shard(path, by="pid", parts=5, out=tmp_path / "else")
    for key in (tmp_path / "else" / "shard.key", None):
        with pytest.raises(InputError, match="with another key"):
            sedml.shard(path, by="pid", parts=5, out=tmp_path / "parts", key=key)
        (tmp_path / "parts" / "shard.key").unlink(missing_ok=True)  # a new one would move everybody
    assert sedml.check_parts(tmp_path / "parts") == made


def test_a_folder_with_other_files_is_left_alone(tmp_path):
    (tmp_path / "part-01.csv").write_text("mine")
    with pytest.raises(InputError, match="other files"):
        sedml.shard(patients(), by="pid", parts=5, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["part-01.csv"]
    assert (tmp_path / "part-01.csv").read_text() == "mine"


@pytest.mark.parametrize("moves", range(4))
def test_a_crash_leaves_the_old_set_or_one_without_a_manifest(tmp_path, monkeypatch, moves):
    out = tmp_path / "parts"
    before = quiet(patients(60, 20), parts=3, out=out)
    done = []

    def crash(path, target, replace=Path.replace):
        if len(done) == moves:
            raise KeyboardInterrupt
        done.append(path)
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            quiet(patients(90, 30), parts=3, out=out)
    with pytest.raises(InputError, match="has no manifest"):
        sedml.check_parts(out)
    # What is half old and half new still has no unit in two parts, and the next run makes it whole.
    assert sedml.check_parts(out, by="pid").spread == 1
    after = quiet(patients(90, 30), parts=3, out=out)
    assert sedml.check_parts(out) == after != before
    assert len(list(out.iterdir())) == 5


def test_a_failure_before_the_end_leaves_the_old_set(tmp_path):
    out = tmp_path / "parts"
    before = quiet(patients(60, 20), parts=3, out=out)
    with suppress(ZeroDivisionError), new_set(out) as aside:
        (aside / "part-01.npz").write_bytes(b"half")
        raise ZeroDivisionError
    assert sedml.check_parts(out) == before
    (out / f".new-{0:016}").mkdir()  # as a machine that lost power leaves it
    (out / f".new-{0:016}" / "part-01.npz").write_bytes(b"half")
    quiet(patients(60, 20), parts=3, out=out)
    assert not (out / f".new-{0:016}").exists()


def test_small_parts_and_several_spellings_are_warned_of(tmp_path):
    with pytest.warns(
        SedmlWarning, match=r"less than half of the mean of .* units: \d+, \d+ of them empty\. Use .*: 1\.$"
    ):
        sedml.shard({"pid": np.arange(33)}, by="pid", parts=31, out=tmp_path / "a")
    frame = pandas.DataFrame({"pid": [*range(200), "P7", "p7 ", "007"]})
    with pytest.warns(SedmlWarning, match=r"spelt in several ways .*: 2\.") as told:
        made = sedml.shard(frame, by="pid", parts=2, out=tmp_path / "b")
    assert made.units == 201
    assert "P7" not in str(told[0].message)


def test_a_list_of_files_is_split_and_the_files_stay(tmp_path):
    scans = tmp_path / "scans"
    (scans / "in").mkdir(parents=True)
    for k in range(60):
        (scans / "in" / f"{k}.png").touch()
    data = {"pid": np.arange(60) // 2, "file": np.array([f"in/{k}.png" for k in range(60)])}
    path = write_csv(tmp_path / "list.csv", data)
    made = quiet(path, parts=3, out=tmp_path / "parts", files=scans)
    assert (made.file_column, made.units, made.records) == ("file", 30, 60)
    assert sedml.check_parts(tmp_path / "parts") == made

    (scans / "in" / "7.png").unlink()
    with pytest.raises(InputError, match=r"not in .*: 1\."):
        quiet(path, parts=3, out=tmp_path / "parts", files=scans)
    (scans / "in" / "7.png").symlink_to(scans / "in" / "8.png")
    with pytest.raises(InputError, match="a file of another unit: 1"):
        quiet(path, parts=30, out=tmp_path / "linked", files=scans, key=_apart(tmp_path, 3, 4))


def _apart(folder: Path, a: int, b: int) -> Path:
    """A key by which two units are in different ones of 30 parts."""
    from sedml.parts.unit_ids import part_of

    key = next(
        key for key in (bytes([k] * 32) for k in range(9)) if part_of(str(a), key, 30) != part_of(str(b), key, 30)
    )
    (folder / "key").write_text(key.hex())
    return folder / "key"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"pid,x\n1,2\nSECRET,2,3\n", "Record 2 of .* has 3 cells"),
        (b"pid,x\n1,2\n\"SECRET\" x,3\n", "Record 1 of .* cannot be read"),
        (b"pid,x\n1,SECRET\xff\n", "UTF-8|damaged"),
        (b"SECRET,1\n2,3\n", "no column"),
        (b"pid,pid\n1,SECRET\n", "several columns"),
        (b"", "no column"),
        (b"pid,x\n", "no records"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_without_a_quotation(tmp_path, content, told):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(InputError, match=told) as caught:
        sedml.shard(tmp_path / "a.csv", by="pid", parts=2, out=tmp_path / "parts")
    assert "SECRET" not in str(caught.value)
    assert not (tmp_path / "parts").exists()


def test_other_things_that_cannot_be_split(tmp_path):
    for parts in (0, 65, 2.5, True):
        with pytest.raises(InputError, match="whole number from 1 to 64"):
            sedml.shard({"pid": np.arange(3)}, by="pid", parts=parts, out=tmp_path / "parts")
    for data in ({"pid": np.arange(3), "x": np.arange(4)}, {"pid": np.array([None, {}])}, {"pid": np.ones((3, 2))}):
        with pytest.raises(InputError):
            sedml.shard(data, by="pid", parts=2, out=tmp_path / "parts")
    with pytest.raises(InputError, match="of type list cannot be split"):
        sedml.shard([1, 2], by="pid", parts=2, out=tmp_path / "parts")
    with pytest.raises(FileFormatError, match="does not exist"):
        sedml.shard(tmp_path / "none.csv", by="pid", parts=2, out=tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
