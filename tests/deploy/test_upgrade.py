"""deploy/upgrade.py on servers that run: a good release stays, a bad one goes, and votes outlive both.

A small script stands in for systemctl; everything it starts and stops is a real server of a real release.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import sedml
from support.live_servers import _MAIN, _QUIET, Live, make_kits, settings_of
from support.server_process import until
from support.tiers import thorough

DEPLOY = Path(__file__).parents[2] / "deploy"
SYSTEMCTL = """#!/bin/sh
cd {place}
alive() {{ test -e pid && grep -q '^State:[[:space:]][^ZX]' /proc/$(cat pid)/status 2>/dev/null; }}
case $1 in
start) alive || {{ setsid opt/sedml/bin/sedml serve {kit} >>s0.log 2>&1 & echo $! >pid; }} ;;
stop) if alive; then kill $(cat pid); while alive; do sleep 0.05; done; fi ;;
is-active) alive ;;
esac
"""


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sedml_deploy_upgrade", DEPLOY / "upgrade.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


upgrade = load()


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


class Machine:
    """S0 under a service manager, S1 beside it, and releases to choose from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live = Live(make_kits(folder / "kits", settings_of()))
        self.current = folder / "opt" / "sedml"
        script(folder / "bin" / "systemctl", SYSTEMCTL.format(place=folder, kit=self.live.s0.kit.folder))

    def release(self, name: str, *changes: tuple[str, str, str], serves: bool = True) -> Path:
        """One that differs in so many places: (file, text, other text)."""
        place = self.folder / "opt" / name
        shutil.copytree(
            Path(sedml.__file__).parent, place / "lib" / "sedml", ignore=shutil.ignore_patterns("__pycache__")
        )
        (place / "lib" / "sedml" / f"of_{len(name)}.txt").write_text(name)
        for file, text, other in changes:
            path = place / "lib" / "sedml" / file
            assert path.read_text().count(text) == 1
            path.write_text(path.read_text().replace(text, other))
        script(place / "bin" / "python", f'#!/bin/sh\nPYTHONPATH={place}/lib exec {sys.executable} "$@"\n')
        (place / "main.py").write_text(_QUIET + _MAIN)
        run = f'exec {place}/bin/python {place}/main.py "$@"' if serves else "exit 1"
        script(place / "bin" / "sedml", f"#!/bin/sh\n{run}\n")
        (place / "deploy").mkdir()
        shutil.copy(DEPLOY / "backup.py", place / "deploy")
        return place

    def command(self, *words: object, within: float = 120.0) -> int:
        kit = self.live.s0.kit.folder
        where = ["--current", self.current, "--kit", kit, "--data", kit / "data", "--backups", self.folder / "backups"]
        self.live.s0.hang_up()
        return upgrade.main([*map(str, [*words, *where, "--within", within, "--steady", 0.2])])

    def runs(self) -> str:
        """Which release answers."""
        return self.live.s0.ask("GET", "/v1/about").document["release"]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch) -> Iterator[Machine]:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("SEDML_")]:
        monkeypatch.delenv(name)
    made.release("sedml")  # a folder and no link, as the first install leaves it
    place = upgrade.Place("s0", made.current, *[made.live.s0.kit.folder] * 3, 120.0, 0.2)
    try:
        made.live.s1.start()
        place.systemctl("start")
        until(lambda: place.ready(made.current), "S0 is ready", 0.2)
        yield made
    finally:
        made.live.s0.hang_up()
        place.systemctl("stop")
        made.live.s1.kill()


def test_the_backup_to_go_back_to_is_the_one_that_was_just_made(tmp_path, monkeypatch):
    """Beside it lies what a disk has, and a backup of a day on which the clock was wrong."""
    made = tmp_path / "20300101T031500Z"
    for name in ("lost+found", "20990101T031500Z"):
        (tmp_path / name).mkdir()

    def run(*_: object) -> subprocess.CompletedProcess:
        made.mkdir()
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(upgrade.Place, "run", run)
    assert upgrade.back_up(upgrade.Place("s0", *[tmp_path] * 4, 1.0, 1.0), tmp_path) == made


@thorough
def test_votes_outlive_good_and_bad_releases(machine: Machine, capsys):
    live, first = machine.live, machine.runs()
    terms, votes = live.create(32), np.random.default_rng(1).integers(-1, 3, (6, 32))
    live.vote(terms.id, votes[:3])

    # It does not start: the old one runs again, on the store as it is.
    assert machine.command("to", "s0", machine.release("dead", serves=False)) == 1
    assert "jobs go on" in capsys.readouterr().out
    assert machine.runs() == first
    assert machine.current.is_symlink()
    live.vote(terms.id, votes[3:4], first=4)

    # It changes the store, and is never ready.
    changed = ("service/server/storage/tables.py", "version=8,", "version=9, migrations={8: lambda connection: None},")
    mute = ("service/server/http/ops_api.py", '"/readyz"', '"/ready-never"')
    assert machine.command("to", "s0", machine.release("changing", changed, mute), within=12.0) == 1
    said = capsys.readouterr().out
    assert "had changed the store" in said
    assert "end as refused" in said
    assert machine.runs() == first
    (aside,) = live.s0.kit.folder.glob("data.changed-*")
    assert (aside / "server.db").is_file()
    live.vote(terms.id, votes[4:5], first=5)

    # A good one stays.
    good = machine.release("good")
    assert machine.command("to", "s0", good) == 0
    assert machine.runs() != first
    assert machine.current.resolve() == good
    live.vote(terms.id, votes[5:], first=6)

    # One that is good and changes the store is left again by hand.
    said = capsys.readouterr().out
    assert machine.command("to", "s0", machine.release("later", changed)) == 0
    said = capsys.readouterr().out
    words = said[said.index(" back s0 ") :].split()
    assert machine.command("back", "s0", words[2], "--backup", words[4]) == 0
    assert machine.current.resolve() == good

    labels = live.finish_put_back(terms.id, "s0")
    live.check_labels(terms, votes, labels)


@thorough
def test_nothing_is_touched_unless_all_is_well_before(machine: Machine, capsys, monkeypatch):
    first = machine.runs()
    assert machine.command("to", "s0", machine.folder / "no.whl") == 1
    assert "is no wheel" in capsys.readouterr().err
    assert machine.command("to", "s0", machine.current) == 1
    assert "runs already" in capsys.readouterr().err
    (machine.current / "deploy" / "backup.py").write_text("raise SystemExit('the disk is full')\n")
    assert machine.command("to", "s0", machine.release("good")) == 1
    assert "No backup could be made: the disk is full" in capsys.readouterr().err
    until(
        lambda: upgrade.Place("s0", machine.current, *[machine.live.s0.kit.folder] * 3, 1, 1).ready(machine.current),
        "S0 is back",
    )
    assert machine.runs() == first
    monkeypatch.setenv("PATH", os.environ["PATH"])
    upgrade.Place("s0", machine.current, *[machine.live.s0.kit.folder] * 3, 1, 1).systemctl("stop")
    assert machine.command("to", "s0", machine.folder / "opt" / "good") == 2
    assert "Mend it first" in capsys.readouterr().err
