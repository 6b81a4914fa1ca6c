"""The kernel in C compiles without a warning, here and for 64-bit ARM, with no option that ties it to one processor."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).parents[2]


@pytest.fixture
def extension(monkeypatch) -> setuptools.Extension:
    """As setup.py has it."""
    asked: dict = {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: asked.update(given))
    return runpy.run_path(str(ROOT / "setup.py"))["KERNEL"]


@pytest.mark.parametrize("compiler", ["cc", "aarch64-linux-gnu-gcc"])
def test_it_compiles_without_a_warning(compiler, extension, tmp_path):
    headers = Path(sysconfig.get_path("include"))
    if shutil.which(compiler) is None or not (headers / "Python.h").exists():
        pytest.skip(f"there is no {compiler}, or no headers of Python")
    macros = [f"-D{name}={value}" for name, value in extension.define_macros]
    options = [*extension.extra_compile_args, "-O1", "-Werror", "-fPIC", *macros, f"-I{headers}"]
    (source,) = extension.sources
    command = [compiler, *options, "-c", source, "-o", str(tmp_path / "kernel.o")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_one_build_is_for_all_processors_of_a_kind(extension):
    assert not [option for option in extension.extra_compile_args if option.startswith("-m")]
    assert extension.optional


def test_a_change_of_any_file_is_a_reason_to_compile_again(extension):
    known = {*extension.sources, *extension.depends}
    assert known == {path.relative_to(ROOT).as_posix() for path in (ROOT / "kernel").iterdir()}
