"""What stands in the way of a release is said before anything is built, and nothing is uploaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from publish import obstacles, uploads

CHANGELOG = "# Changelog\n\n## 0.3.0 (2027-01-31)\n\n- New.\n\n## 0.2.0 (2026-11-16)\n"


def test_nothing_is_in_the_way_of_a_commit_that_is_ready():
    assert obstacles("0.3.0", CHANGELOG, "", ["v0.1.0", "v0.2.0"]) == []


@pytest.mark.parametrize(
    ("version", "changelog", "changed", "tags", "said"),
    [
        ("0.3.0", CHANGELOG, " M README.md\n", [], "not committed:\n M README.md"),
        ("0.4.0", CHANGELOG, "", [], "says version 0.4.0, and the newest section of CHANGELOG.md is 0.3.0"),
        ("0.3.0", CHANGELOG.replace("# 0.3.0 (2027-01-31)", "# Unreleased"), "", [], "CHANGELOG.md is Unreleased"),
        ("0.3.0", "# Changelog\n", "", [], "CHANGELOG.md is nothing"),
        ("0.3.0", CHANGELOG.replace(" (2027-01-31)", ""), "", [], "no date"),
        ("0.3.0", CHANGELOG, "", ["v0.3.0"], "already"),
    ],
)
def test_what_is_in_the_way_is_named(version, changelog, changed, tags, said):
    [found] = obstacles(version, changelog, changed, tags)
    assert said in found


def test_pypi_gets_what_it_takes_and_nothing_of_another_version():
    built = ["sedml_pate-0.3.0-cp311-abi3-linux_x86_64.whl", "sedml_pate-0.3.0.tar.gz", "SHA256SUMS"]
    other = ["sedml_pate-0.2.0.tar.gz", "sedml_pate-0.3.0-cp311-abi3-manylinux_2_28_x86_64.whl"]
    assert uploads("0.3.0", built) == ["sedml_pate-0.3.0.tar.gz"]
    assert uploads("0.3.0", built + other) == [
        "sedml_pate-0.3.0-cp311-abi3-manylinux_2_28_x86_64.whl",
        "sedml_pate-0.3.0.tar.gz",
    ]


def test_nothing_that_make_does_uploads():
    makefile = (Path(__file__).parents[1] / "Makefile").read_text(encoding="utf-8")
    assert "upload" not in makefile.replace("stops before the upload", "")
    assert "release: " in makefile
