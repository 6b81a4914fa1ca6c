"""The hash of a release: one that coreutils give too, of every file, and of nothing that a machine adds."""

from __future__ import annotations

import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sedml
from sedml import release

PACKAGE = Path(sedml.__file__).parent
FILES = st.dictionaries(st.from_regex(r"sedml/[a-zA-Z/_.é]{1,9}", fullmatch=True), st.binary(max_size=9), min_size=1)


def by_hand(folder: Path) -> str:
    """As the docstring tells operators who do not trust the code that they ask about."""
    (command,) = re.findall(r"^    find sedml .*\n.*$", release.__doc__, re.MULTILINE)
    done = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


@pytest.fixture
def copied(tmp_path: Path, monkeypatch) -> Path:
    shutil.copytree(PACKAGE, tmp_path / "sedml", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(release, "_HERE", tmp_path / "sedml")
    return tmp_path / "sedml"


def test_anybody_can_compute_it_without_this_code(copied: Path):
    assert release.hash_of_files(release._files()) == release.release_hash() == by_hand(copied.parent)


def test_every_byte_and_every_name_counts(copied: Path):
    before = release.release_hash()
    (copied / "mpc" / "ring.py").write_bytes((copied / "mpc" / "ring.py").read_bytes() + b"\n")
    changed = by_hand(copied.parent)
    (copied / "left_behind.py").touch()
    added = by_hand(copied.parent)
    (copied / "left_behind.py").rename(copied / "mpc" / "left_behind.py")
    assert len({before, changed, added, by_hand(copied.parent)}) == 4
    assert release.hash_of_files(release._files()) == by_hand(copied.parent)


def test_what_a_machine_adds_does_not(copied: Path):
    before = by_hand(copied.parent)
    (copied / "mpc" / "__pycache__").mkdir()
    (copied / "mpc" / "__pycache__" / "ring.cpython-311.pyc").write_bytes(b"compiled")
    (copied / "mpc" / "_kernel.abi3.so").write_bytes(b"compiled elsewhere")
    assert release.hash_of_files(release._files()) == by_hand(copied.parent) == before
    release.kernel_hash.cache_clear()
    assert release.kernel_hash() == sha256(b"compiled elsewhere").hexdigest()
    (copied / "mpc" / "_kernel.abi3.so").unlink()
    release.kernel_hash.cache_clear()
    assert release.kernel_hash() is None
    release.kernel_hash.cache_clear()


@given(FILES, FILES)
def test_other_files_have_another_hash(one: dict[str, bytes], other: dict[str, bytes]):
    assert (release.hash_of_files(one) == release.hash_of_files(other)) == (one == other)
