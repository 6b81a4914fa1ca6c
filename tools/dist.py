"""Builds the source distribution and the wheel, and tries both where nothing else is installed.

The wheel has the kernel in C, so this takes a C compiler; the source distribution is tried as where there is none.
`make dist` runs this; exit code 1 if anything is wrong. What is built comes from a copy of the checkout, because
building takes up what an earlier build has left behind.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "kernel", "src/sedml")
KERNEL = "sedml/mpc/_kernel.abi3.so"

_TRIAL = """
import sys
import numpy as np
import sedml

rng = np.random.default_rng(7)
truth = rng.integers(5, size=40)
predictions = np.where(rng.random((30, 40)) < 0.9, truth, rng.integers(5, size=(30, 40)))
counts = np.stack([(predictions == label).sum(axis=0) for label in range(5)])
result = sedml.aggregate(predictions, classes=5, threshold=12, sigma=0.1, delta=1e-5)
assert (counts.max(axis=0) > 14).all()
assert result.labels.tolist() == counts.argmax(axis=0).tolist(), result.labels
assert result.privacy.epsilon > 0
split = np.column_stack([np.arange(20) % 5, np.full(20, 3)])
some = sedml.aggregate(split, classes=5, threshold=15, sigma=0.1)
assert some.labels.tolist() == [-1, 3], some.labels
for name in sedml.__all__:
    try:
        getattr(sedml, name)
    except sedml.SedmlError as error:  # what needs an extra says which
        assert "pip install" in str(error), error
heavy = [name for name in ("torch", "sklearn", "starlette", "sqlalchemy", "pyarrow") if name in sys.modules]
assert not heavy, heavy
"""


def main() -> None:
    """Build, check, try."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sdist, wheel = build(place)
        told = f"{project['name'].replace('-', '_')}-{project['version']}"
        _expect(sdist.name == f"{told}.tar.gz", f"The source distribution is called {sdist.name}.")
        platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
        _expect(wheel.name == f"{told}-cp311-abi3-{platform}.whl", f"The wheel is called {wheel.name}.")
        _run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
        check_same(wheel, _from_checkout(place))
        check_contents(wheel, project)
        try_bare(wheel, place / "bare", project["version"])
        try_without_compiler(sdist, place / "bare")
    print(f"{sdist.name} and {wheel.name} are in dist, and work.")


def build(place: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made from it, in dist/."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run([sys.executable, "-m", "build", "--outdir", str(DIST), str(copy_checkout(place / "copy"))], quiet=True)
    (sdist,), (wheel,) = DIST.glob("*.tar.gz"), DIST.glob("*.whl")
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    in_c = {path.relative_to(ROOT).as_posix() for path in (ROOT / "kernel").iterdir()}
    lacking = {"pyproject.toml", "setup.py", "README.md", "LICENSE", *in_c} - names
    _expect(not lacking, f"The source distribution lacks what it is built with: {sorted(lacking)}")
    return sdist, wheel


def check_same(one: Path, other: Path) -> None:
    """Two wheels have the same files with the same bytes."""
    first, second = files_of(one), files_of(other)
    different = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    _expect(not different, f"The wheel from the source distribution differs from that of the checkout: {different}")


def check_contents(wheel: Path, project: dict[str, object]) -> None:
    """All of the package is in the wheel, and nothing else."""
    files = files_of(wheel)
    info = next(name for name in files if name.endswith(".dist-info/METADATA")).partition("/")[0]
    strange = [name for name in files if not name.startswith(("sedml/", f"{info}/"))]
    _expect(not strange, f"The wheel has files outside the package: {strange}")
    source = ROOT / "src"
    ours = {
        path.relative_to(source).as_posix()
        for path in (source / "sedml").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    } | {KERNEL}
    packed = {name for name in files if name.startswith("sedml/")}
    _expect(KERNEL in packed, "The wheel has no kernel in C: a release is built where there is a C compiler.")
    _expect(packed == ours, f"The wheel and the source differ in {sorted(packed ^ ours)}")
    _expect("sedml/py.typed" in packed, "The wheel has no py.typed.")
    _expect(any(name.endswith(".j2") for name in packed), "The wheel has no templates.")
    metadata = Parser().parsestr(files[f"{info}/METADATA"].decode("utf-8"))
    _expect(metadata["License-Expression"] == project["license"], "The wheel names another license.")
    _expect(f"{info}/licenses/LICENSE" in files, "The wheel has no license.")
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    _expect(urls == project["urls"], f"The wheel has other addresses: {urls}")
    nowhere = re.findall(r"\]\((?![a-z]+:|#)([^()\s]+)\)", metadata.get_payload())
    _expect(not nowhere, f"A package index cannot follow these links of README.md: {nowhere}")


def try_bare(wheel: Path, place: Path, version: str) -> None:
    """Install the wheel with what it requires and nothing else, and use it."""
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    _run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel)])
    _run([python, "-m", "pip", "check", "--disable-pip-version-check"])
    sedml = str(place / "bin" / "sedml")
    said, kernel = _run([sedml, "--version"], quiet=True).splitlines()
    _expect(said == f"sedml {version}", f"`sedml --version` says {said}.")
    _expect("was built at install" not in kernel, f"`sedml --version` says {kernel}.")
    _expect("Usage: " in _run([sedml, "--help"], quiet=True), "`sedml --help` shows no help.")
    _run([python, "-I", "-c", _TRIAL])
    kits = place / "kits"
    servers = ["--servers", "127.0.0.1:8440,127.0.0.1:8441"]
    _run([sedml, "provision", "--out", str(kits), *servers, "--teachers", "2", "--requesters", "1"], quiet=True)
    made = {path.name for path in kits.iterdir()}
    _expect({"s0", "s1", "teacher-001", "teacher-002", "requester-1", "authority"} <= made, f"Made only {made}.")


def try_without_compiler(sdist: Path, place: Path) -> None:
    """Install the source distribution over it as where there is no compiler: NumPy does all of it."""
    python = str(place / "bin" / "python")
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-cache-dir", "--force-reinstall"]
    _run([python, "-m", "pip", *install, str(sdist)], environment={**os.environ, "CC": "false"})
    kernel = _run([str(place / "bin" / "sedml"), "--version"], quiet=True).splitlines()[1]
    _expect(kernel.startswith("kernel: NumPy (no kernel in C was built at install"), f"Without a compiler: {kernel}.")
    _run([python, "-I", "-c", _TRIAL])


def _from_checkout(place: Path) -> Path:
    out = place / "direct"
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(copy_checkout(place / "again"))]
    _run(command, quiet=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def copy_checkout(to: Path) -> Path:
    """What a distribution is built from, and nothing else."""
    for name in NEEDED:
        there = to / name
        there.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, there, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / name, there)
    return to


def files_of(wheel: Path) -> dict[str, bytes]:
    """Everything in a wheel."""
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist() if not name.endswith("/")}


def _run(command: list[str], *, quiet: bool = False, environment: dict[str, str] | None = None) -> str:
    """Run what must go well; what it printed, if that was not for people."""
    done = subprocess.run(
        command, cwd=tempfile.gettempdir(), env=environment, capture_output=quiet, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {done.returncode}.\n{done.stdout}\n{done.stderr}")
    return done.stdout or ""


def _expect(true: bool, otherwise: str) -> None:
    if not true:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    main()
