"""The units of systemd: sound, confined, and with all that a server needs to run a whole job."""

from __future__ import annotations

import ctypes.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer

from sedml.cli import app
from sedml.service.server.http import serving
from sedml.service.server.settings import Settings
from support.live_servers import Live, make_kits, settings_of
from support.tiers import thorough

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = DEPLOY / "systemd"
SERVICES = ("sedml-server@.service", "sedml-backup@.service")
CONFINED = Path(__file__).with_name("confined.py")
MOST_EXPOSED = 1.5
"""Of ten: what `systemd-analyze security` calls OK ends at 5."""


def values(name: str, key: str) -> list[str]:
    return re.findall(rf"^{key}=(.*)$", (UNITS / name).read_text(), re.MULTILINE)


def analyze(*words: object) -> str:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def instances(tmp_path: Path) -> dict[str, Path]:
    """The units for s0, with programs that exist on every machine."""
    made = {}
    for path in UNITS.glob("*@.*"):
        made[path.name] = tmp_path / path.name.replace("@", "@s0")
        made[path.name].write_text(re.sub(r"/opt/sedml/bin/\w+", "/bin/true", path.read_text()))
    return made


def test_the_units_are_sound(instances):
    said = analyze("verify", "--man=no", *instances.values())
    assert not [line for line in said.splitlines() if "sedml-" in line], said


def test_a_misspelt_key_is_noticed(instances):
    path = instances["sedml-server@.service"]
    path.write_text(path.read_text().replace("ProtectSystem=", "ProtectSystems="))
    program = shutil.which("systemd-analyze") or pytest.skip("systemd-analyze is not installed")
    done = subprocess.run([program, "verify", "--man=no", path], capture_output=True, text=True, check=False)
    assert "ProtectSystems" in done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_hardly_exposed(name, instances):
    said = analyze("security", "--no-pager", "--offline=true", f"--threshold={int(10 * MOST_EXPOSED)}", instances[name])
    level = float(re.search(r"exposure level for \S+: ([0-9.]+)", said)[1])
    assert level <= MOST_EXPOSED


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_unit_names_exists(name):
    for value in values(name, "Environment"):
        variable = value.partition("=")[0]
        assert variable.removeprefix("SEDML_SERVER__").lower() in Settings.model_fields
    (start,) = values(name, "ExecStart")
    program, *words = start.split()
    if program.endswith("/sedml"):
        command = typer.main.get_command(app)
        assert words[0] in command.list_commands(command.context_class(command))
    else:
        script = Path(words[0])
        assert (DEPLOY / script.name).is_file()
        asked = subprocess.run(
            [sys.executable, DEPLOY / script.name, words[1], "--help"], capture_output=True, text=True, check=True
        )
        assert all(word in asked.stdout for word in words if word.startswith("--"))


def test_server_and_backup_mean_the_same_data():
    assert values(SERVICES[0], "Environment") == values(SERVICES[1], "Environment")
    assert values(SERVICES[0], "EnvironmentFile") == values(SERVICES[1], "EnvironmentFile")
    assert values(SERVICES[0], "User") == values(SERVICES[1], "User")
    assert "u sedml " in (UNITS / "sedml.sysusers.conf").read_text()


def test_there_is_time_for_an_orderly_end():
    (patience,) = values(SERVICES[0], "TimeoutStopSec")
    assert int(patience.removesuffix("s")) >= 3 * serving._FAREWELL


def test_there_are_files_enough_for_all_connections():
    (files,) = values(SERVICES[0], "LimitNOFILE")
    assert int(files) > 4 * Settings.model_fields["max_connections"].default


# ---- Under the filter of the unit ----------------------------------------------------------------------------------


@pytest.fixture
def filtered() -> list[str]:
    """What to put before a command so that it runs as the unit of the server lets it."""
    if shutil.which("systemd-analyze") is None or ctypes.util.find_library("seccomp") is None:
        pytest.skip("systemd-analyze or libseccomp is not installed")
    if sys.platform != "linux":
        pytest.skip("system calls are filtered on Linux only")
    return [sys.executable, str(CONFINED), str(UNITS / SERVICES[0])]


@pytest.mark.parametrize(
    "attempt",
    [
        "import os; os.chroot('/')",
        "import os; os.setpriority(os.PRIO_PROCESS, 0, 5)",
        "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)",
    ],
)
def test_the_filter_does_keep_programs_from_things(filtered, attempt):
    free = subprocess.run([sys.executable, "-c", attempt], capture_output=True, text=True, check=False)
    held = subprocess.run([*filtered, sys.executable, "-c", attempt], capture_output=True, text=True, check=False)
    assert held.returncode == 1
    assert "PermissionError" in held.stderr
    assert free.returncode == 0 or "PermissionError" in free.stderr


@thorough
def test_a_whole_job_and_a_backup_under_the_filter(filtered, tmp_path: Path):
    live = Live(make_kits(tmp_path / "kits", settings_of()))
    for server in live.servers:
        server._command = [*filtered, *server._command]
    with live.running():
        terms = live.create(64)
        votes = np.random.default_rng(1).integers(-1, 3, (5, 64))
        live.vote(terms.id, votes)
        labels = live.finish(terms.id)
        live.check_labels(terms, votes, labels)
        backup = [sys.executable, str(DEPLOY / "backup.py"), "store", str(live.s0.kit.folder)]
        subprocess.run([*filtered, *backup, "--to", str(tmp_path / "backups")], check=True, capture_output=True)


# ---- On a file system that it cannot write -------------------------------------------------------------------------

_READ_ONLY = """
data=$1 TMPDIR=$1.tmp; shift
export TMPDIR
mount --bind "$data" "$data"
awk '{ print $5 }' /proc/self/mountinfo | while read -r at; do
    case $at in "$data" | /proc* | /sys*) ;; *) mount -o remount,bind,ro "$at" ;; esac
done
mount -t tmpfs tmpfs "$TMPDIR"
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all "$@"
"""


def held_to(data: Path) -> list[str]:
    """What to put before a command so that it can write to this folder and to a /tmp of its own alone."""
    if not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("unshare and setpriv (of util-linux) are not installed")
    data.with_suffix(".tmp").mkdir(exist_ok=True)
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _READ_ONLY, "sh", str(data)]
    if subprocess.run([*words, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount anything, not even for itself")
    return words


def test_a_server_writes_to_its_data_folder_alone(tmp_path: Path):
    """And to a /tmp of its own, as under ProtectSystem=strict with PrivateTmp, and as the compose files have it."""
    settings = settings_of()
    for name in settings:
        (tmp_path / name).mkdir()
        settings[name]["data_dir"] = str(tmp_path / name)
    held = held_to(tmp_path / "s0")
    refused = subprocess.run(
        [*held, "touch", str(tmp_path / "s1" / "mark")], capture_output=True, text=True, check=False
    )
    assert "Read-only file system" in refused.stderr
    subprocess.run([*held, "touch", str(tmp_path / "s0" / "mark")], check=True)
    live = Live(make_kits(tmp_path / "kits", settings))
    for server in live.servers:
        server._command = [*held_to(tmp_path / server.name), *server._command]
    with live.running():
        terms = live.create(64)
        votes = np.random.default_rng(1).integers(-1, 3, (5, 64))
        live.vote(terms.id, votes)
        live.check_labels(terms, votes, live.finish(terms.id))
