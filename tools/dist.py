"""Builds the source distribution and the wheel, the same bytes every time, tries both where nothing else is, and starts
a server with the libraries of the lock file.

The wheel has the kernel in C, so this takes a C compiler; the source distribution is tried as where there is none.
`make dist` runs this; exit code 1 if anything is wrong. What is built comes from a copy of the checkout, because
building takes up what an earlier build has left behind.

Whoever builds the same commit with what `buildinfo.json` names gets the same bytes, in whatever folder, at whatever
time, with whatever umask: `SHA256SUMS` has their hashes, and those of the bill of materials (CycloneDX). Times in
archives are that of the commit, or SOURCE_DATE_EPOCH where there is no git.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
import zlib
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

from sedml.release import hash_of_files

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
NEEDED = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "kernel", "src/sedml")
KERNEL = "sedml/mpc/_kernel.abi3.so"
LOCK = ROOT / "deploy" / "requirements.lock"
# The backend's own hooks (PEP 517), in this environment: the extra `dist` says with which setuptools.
_HOOK = [sys.executable, "-c", "import sys, setuptools.build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"]
_READY_WITHIN = 120.0
# What would get into the bytes.
_SWAYS = ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED", "ARCHFLAGS")

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
        shutil.rmtree(DIST, ignore_errors=True)
        epoch = commit_time()
        sdist, wheel = build(place / "one", DIST, epoch)
        told = f"{project['name'].replace('-', '_')}-{project['version']}"
        _expect(sdist.name == f"{told}.tar.gz", f"The source distribution is called {sdist.name}.")
        platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
        _expect(wheel.name == f"{told}-cp311-abi3-{platform}.whl", f"The wheel is called {wheel.name}.")
        _run([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
        check_same((sdist, wheel), build(place / "other", place / "again", epoch))
        check_contents(wheel, project)
        try_bare(wheel, place / "bare", project["version"])
        try_without_compiler(sdist, place / "bare")
        try_locked(wheel, place / "locked")
        files = [sdist, wheel, write_materials(wheel, told), write_build_info(wheel, told, epoch)]
    (DIST / "SHA256SUMS").write_text("".join(f"{_sha256(path)}  {path.name}\n" for path in files))
    print(f"{sdist.name} and {wheel.name} are in dist, and work. Release {hash_of_files(files_of(wheel))}.")


def commit_time() -> int:
    """SOURCE_DATE_EPOCH: that of the environment, else of the commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False)
    _expect(asked.returncode == 0, "This is no checkout of git: set SOURCE_DATE_EPOCH to the time of the release.")
    return int(asked.stdout)


def build(place: Path, out: Path, epoch: int) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made from it, in `out`; `place` is for what is in between."""
    kept = {name: value for name, value in os.environ.items() if name not in _SWAYS}
    fixed = kept | {"SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    _run([*_HOOK, "build_sdist", str(out)], quiet=True, environment=fixed, within=copy_checkout(place / "copy"))
    (sdist,) = out.glob("*.tar.gz")
    pack_again(sdist, epoch)
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        packed.extractall(place, filter="data")
    in_c = {path.relative_to(ROOT).as_posix() for path in (ROOT / "kernel").iterdir()}
    lacking = {"pyproject.toml", "setup.py", "README.md", "LICENSE", *in_c} - names
    _expect(not lacking, f"The source distribution lacks what it is built with: {sorted(lacking)}")
    unpacked = place / sdist.name.removesuffix(".tar.gz")
    _run([*_HOOK, "build_wheel", str(out)], quiet=True, environment=fixed, within=unpacked)
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def pack_again(sdist: Path, epoch: int) -> None:
    """The same files in one order, of nobody in particular and at one time: setuptools writes what the machine has."""
    content = io.BytesIO()
    with tarfile.open(sdist) as packed, tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as anew:
        for entry in sorted(packed.getmembers(), key=lambda one: one.name):
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            entry.mtime, entry.pax_headers = epoch, {}
            entry.mode = 0o755 if entry.isdir() else 0o644
            anew.addfile(entry, packed.extractfile(entry))
    sdist.write_bytes(gzip.compress(content.getvalue(), mtime=epoch))


def check_same(ours: tuple[Path, Path], theirs: tuple[Path, Path]) -> None:
    """Two builds are the same, to the byte."""
    for one, other in zip(ours, theirs, strict=True):
        _expect(one.read_bytes() == other.read_bytes(), f"Two builds of {one.name} differ: diffoscope shows where.")


def write_materials(wheel: Path, told: str) -> Path:
    """What a server consists of, in CycloneDX: this wheel, and all that the lock file names."""
    path = DIST / f"{told}.cdx.json"
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--pyproject", str(ROOT / "pyproject.toml")]
    _run([*command, "--output-reproducible", "-o", str(path), str(LOCK)], quiet=True)
    materials = json.loads(path.read_text())
    ours = materials["metadata"]["component"]
    ours["hashes"] = [{"alg": "SHA-256", "content": _sha256(wheel)}]
    ours["properties"] = [{"name": "sedml:release", "value": hash_of_files(files_of(wheel))}]
    path.write_text(json.dumps(materials, indent=1) + "\n")
    return path


def write_build_info(wheel: Path, told: str, epoch: int) -> Path:
    """All that the bytes depend on, for whoever wants to build them again."""
    compiler = sysconfig.get_config_var("CC").split()[0]
    files = files_of(wheel)
    found = {
        "SOURCE_DATE_EPOCH": epoch,
        "release": hash_of_files(files),
        "kernel": hashlib.sha256(files[KERNEL]).hexdigest(),
        "python": platform.python_version(),
        "setuptools": version("setuptools"),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "compiler": _run([compiler, "--version"], quiet=True).splitlines()[0],
        "machine": platform.machine(),
    }
    path = DIST / f"{told}.buildinfo.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    return path


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
    said, kernel, release = _run([sedml, "--version"], quiet=True).splitlines()
    _expect(said == f"sedml {version}", f"`sedml --version` says {said}.")
    _expect("was built at install" not in kernel, f"`sedml --version` says {kernel}.")
    _expect(release == f"release: {hash_of_files(files_of(wheel))}", f"`sedml --version` says {release}.")
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


def try_locked(wheel: Path, place: Path) -> None:
    """Install a server with the libraries of the lock file, to the byte, and start it."""
    venv.create(place, with_pip=True)
    python, sedml = str(place / "bin" / "python"), str(place / "bin" / "sedml")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*install, "--require-hashes", "--requirement", str(LOCK)])
    _run([*install, "--no-deps", str(wheel)])
    _run([python, "-m", "pip", "check", "--disable-pip-version-check"])
    kits = place / "kits"
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        servers = ",".join(f"127.0.0.1:{held.getsockname()[1]}" for held in (one, other))
    _run([sedml, "provision", "--out", str(kits), "--servers", servers, "--teachers", "2"], quiet=True)
    server = subprocess.Popen([sedml, "serve", str(kits / "s1")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + _READY_WITHIN
        asked = [python, str(ROOT / "deploy" / "container" / "healthcheck.py"), str(kits / "s1")]
        while subprocess.run(asked, capture_output=True, check=False).returncode:
            _expect(server.poll() is None, f"The server with the locked libraries ended with {server.returncode}.")
            _expect(time.monotonic() < until, "The server with the locked libraries does not get ready.")
            time.sleep(0.5)
        server.terminate()
        _expect(server.wait(_READY_WITHIN) == 0, f"Told to stop, the server ended with {server.returncode}.")
    finally:
        server.kill()


def copy_checkout(to: Path) -> Path:
    """What a distribution is built from and nothing else, with the modes that everybody gives it."""
    for name in NEEDED:
        there = to / name
        there.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, there, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        else:
            shutil.copy(ROOT / name, there)
    for path in (to, *to.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return to


def files_of(wheel: Path) -> dict[str, bytes]:
    """Everything in a wheel."""
    with zipfile.ZipFile(wheel) as packed:
        return {name: packed.read(name) for name in packed.namelist() if not name.endswith("/")}


def _run(
    command: list[str], *, quiet: bool = False, environment: dict[str, str] | None = None, within: Path | None = None
) -> str:
    """Run what must go well; what it printed, if that was not for people."""
    done = subprocess.run(
        command,
        cwd=within or tempfile.gettempdir(),
        env=environment,
        capture_output=quiet,
        text=True,
        check=False,
        umask=0o022,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\nended with exit code {done.returncode}.\n{done.stdout}\n{done.stderr}")
    return done.stdout or ""


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _expect(true: bool, otherwise: str) -> None:
    if not true:
        raise SystemExit(otherwise)


if __name__ == "__main__":
    main()
