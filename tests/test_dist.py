"""What `make dist` builds is the same wherever, whenever and by whomever it is built, and says what it is made of."""

from __future__ import annotations

import json
import os
import re
import tarfile
import time
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import dist
from sedml.release import hash_of_files, release_hash
from support.tiers import thorough

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EPOCH = 1_700_000_000
MASKS = (0o022, 0o077)
_LATER = "import time; _now = time.time; time.time = lambda: _now() + 1e8"


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path]]:
    """Two of them: in folders of different lengths, with another umask, other times, another clock and other flags."""
    made = []
    for number, mask in enumerate(MASKS):
        place = tmp_path_factory.mktemp(f"build{'-elsewhere' * number}")
        (place / "later").mkdir()
        if number:
            (place / "later" / "sitecustomize.py").write_text(_LATER)
        kept = os.umask(mask)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", str(place / "later"))
            patch.setenv("TZ", ("UTC", "Asia/Tokyo")[number])
            patch.setenv("LC_ALL", ("C", "tr_TR.UTF-8")[number])
            patch.setenv("CFLAGS", ("", "-O1 -g3")[number])
            copied = dist.copy_checkout

            def older(to: Path, copied=copied, number=number) -> Path:
                done = copied(to)
                for path in done.rglob("*"):
                    os.utime(path, (time.time() - 1e6 * number,) * 2)
                return done

            patch.setattr(dist, "copy_checkout", older)
            try:
                made.append(dist.build(place / "work", place / "out", EPOCH))
            finally:
                os.umask(kept)
    return made


@thorough
def test_two_builds_are_the_same_to_the_byte(builds):
    (sdist, wheel), (other_sdist, other_wheel) = builds
    assert sdist.read_bytes() == other_sdist.read_bytes()
    assert wheel.read_bytes() == other_wheel.read_bytes()
    with tarfile.open(sdist) as packed:
        assert {(entry.mtime, entry.uid, entry.uname) for entry in packed} == {(EPOCH, 0, "")}
    names = [name for name in dist.files_of(wheel) if name.startswith("sedml/mpc/_kernel.")]
    assert names == [dist.KERNEL], "the compiled kernel is part of what is compared"


@thorough
def test_checkout_source_distribution_and_wheel_have_one_hash(builds):
    (sdist, wheel), _ = builds
    with tarfile.open(sdist) as packed:
        unpacked = {
            entry.name.partition("/src/")[2]: packed.extractfile(entry).read()
            for entry in packed
            if entry.isfile() and "/src/sedml/" in entry.name
        }
    assert hash_of_files(dist.files_of(wheel)) == hash_of_files(unpacked) == release_hash()


def test_a_commit_has_one_time_and_a_release_without_git_asks_for_it(monkeypatch, tmp_path):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    assert dist.commit_time() == 7
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    monkeypatch.setattr(dist, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(SystemExit, match="set SOURCE_DATE_EPOCH"):
        dist.commit_time()


def test_builds_that_differ_are_noticed(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"a")
    other.write_bytes(b"b")
    with pytest.raises(SystemExit, match="differ"):
        dist.check_same((one, one), (one, other))


# ---- What a server installs ----------------------------------------------------------------------------------------


def locked() -> dict[str, list[tuple[Requirement, list[str]]]]:
    """Every line of the lock file: what is wanted, and the hashes it may have."""
    found: dict[str, list[tuple[Requirement, list[str]]]] = {}
    for line in re.sub(r"\\\n", "", re.sub(r"^ *#.*\n", "", dist.LOCK.read_text(), flags=re.MULTILINE)).splitlines():
        wanted = Requirement(line.partition("--hash")[0])
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", line)
        found.setdefault(canonicalize_name(wanted.name), []).append((wanted, hashes))
    return found


def test_every_locked_library_has_one_version_and_hashes():
    for name, lines in locked().items():
        for wanted, hashes in lines:
            assert hashes, name
            assert re.fullmatch(r"==[^*,]+", str(wanted.specifier)), wanted
    assert "http" not in re.sub(r"http(x|core)2", "", dist.LOCK.read_text()), "no address of anybody's index"


def test_the_lock_covers_what_a_server_asks_for():
    """By pyproject.toml as it is now: whoever changes that runs `make lock`."""
    extras = PROJECT["optional-dependencies"]
    for wanted in map(Requirement, PROJECT["dependencies"] + extras["server"] + extras["postgres"]):
        lines = locked()[canonicalize_name(wanted.name)]
        for line, _ in lines:
            version = str(line.specifier).removeprefix("==")
            assert wanted.specifier.contains(version), f"{wanted} is locked as {version}: run `make lock`"


def test_the_lock_covers_what_those_libraries_ask_for():
    names = locked()
    for name, lines in names.items():
        if all(line.marker is None or line.marker.evaluate() for line, _ in lines):
            for wanted in map(Requirement, metadata.requires(name) or ()):
                if wanted.marker is None or wanted.marker.evaluate({"extra": ""}):
                    assert canonicalize_name(wanted.name) in names, f"{name} asks for {wanted}: run `make lock`"


def test_the_bill_of_materials_names_them_all(tmp_path, monkeypatch):
    pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom (extra dist) is not installed")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    monkeypatch.setattr(dist, "DIST", tmp_path)
    (tmp_path / "made.whl").write_bytes(b"PK\x05\x06" + bytes(18))
    path = dist.write_materials(tmp_path / "made.whl", "made")
    first, text = path.read_bytes(), path.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    named = {canonicalize_name(component["name"]) for component in json.loads(text)["components"]}
    assert named == set(locked())
    assert dist.write_materials(tmp_path / "made.whl", "made").read_bytes() == first, "the same every time"


def test_one_setuptools_builds_releases():
    (pinned,) = [one for one in PROJECT["optional-dependencies"]["dist"] if one.startswith("setuptools")]
    assert pinned.startswith("setuptools=="), "its version is part of a wheel"
