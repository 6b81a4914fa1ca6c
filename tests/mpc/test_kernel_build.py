"""The kernel in C: no warning, here or for 64-bit ARM, no option that ties it to one processor, nothing undefined."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import setuptools

from support.tiers import thorough

ROOT = Path(__file__).parents[2]
TESTS = "tests/mpc/test_kernel.py", "tests/mpc/test_authenticated_kernel.py"
RUN = """
import importlib.util, sys, pytest
spec = importlib.util.spec_from_file_location("sedml.mpc._kernel", sys.argv[1])
module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
sys.exit(pytest.main(["-sv", "-p", "no:cacheprovider", "-m", "", *sys.argv[2:]]))
"""


@pytest.fixture
def extension(monkeypatch) -> setuptools.Extension:
    """As setup.py has it."""
    asked: dict = {}
    monkeypatch.setattr(setuptools, "setup", lambda **given: asked.update(given))
    return runpy.run_path(str(ROOT / "setup.py"))["KERNEL"]


def compile_with(compiler: str, extension: setuptools.Extension, *options: str) -> subprocess.CompletedProcess:
    headers = Path(sysconfig.get_path("include"))
    if shutil.which(compiler) is None or not (headers / "Python.h").exists():
        pytest.skip(f"there is no {compiler}, or no headers of Python")
    macros = [f"-D{name}={value}" for name, value in extension.define_macros]
    # Python's own headers are not ours to be warned of.
    command = [compiler, *extension.extra_compile_args, "-fPIC", *macros, "-isystem", headers, *options]
    return subprocess.run([*command, *extension.sources], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("compiler", ["cc", "clang", "aarch64-linux-gnu-gcc"])
def test_it_compiles_without_a_warning(compiler, extension, tmp_path):
    done = compile_with(compiler, extension, "-Werror", "-Wstrict-aliasing=1", "-c", "-o", str(tmp_path / "kernel.o"))
    assert done.returncode == 0, done.stderr


@thorough
def test_its_tests_pass_under_sanitizers(extension, tmp_path):
    """Every read and write within its buffer, and nothing that C leaves undefined: AddressSanitizer and UBSan."""
    library = tmp_path / "kernel.so"
    sanitizers = "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1"
    done = compile_with("cc", extension, *sanitizers, "-shared", "-o", str(library))
    name = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True).stdout
    if done.returncode or not Path(name.strip()).is_absolute():
        pytest.skip(f"this compiler has no sanitizers: {done.stderr[-200:]}")
    settings = {
        "LD_PRELOAD": name.strip(),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python does not free everything at its end
        "PYTHONMALLOC": "malloc",  # so that a buffer of Python has guards around it as well
    }
    command = [sys.executable, "-c", RUN, str(library), *TESTS]
    played = subprocess.run(command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert played.returncode == 0, (played.stdout + played.stderr)[-3000:]
    assert " passed" in played.stdout


def test_one_build_is_for_all_processors_of_a_kind(extension):
    assert not [option for option in extension.extra_compile_args if option.startswith("-m")]
    assert "-Werror" not in extension.extra_compile_args  # a compiler that nobody knows yet must not break an install
    assert extension.optional


def test_a_change_of_any_file_is_a_reason_to_compile_again(extension):
    known = {*extension.sources, *extension.depends}
    assert known == {path.relative_to(ROOT).as_posix() for path in (ROOT / "kernel").iterdir()}
