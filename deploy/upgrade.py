"""Puts a new release in the place of the old one at a server under systemd, and takes it back if it does not get well.

As root, with the Python of the system, from the folder `deploy` of the new release:

    python3 deploy/upgrade.py to s0 sedml_pate-0.3.0-cp311-abi3-linux_x86_64.whl
    python3 deploy/upgrade.py back s0 /opt/sedml-0.2.0-1a2b3c4d --backup /var/backups/sedml/s0/20300101T031500Z

`to` installs the release beside the old one, stops the server, backs up store and ledger, switches and starts. Unless
the server is then ready for a while on end, it goes back by itself, as `back` does later. A store that the new release
has changed cannot be read by the old one: then the backup is put back, jobs that were running when it was made end, and
what happened since the switch is forgotten. The changed data folder is moved aside, and nothing is deleted.

Exit code 0: it is done. 1: nothing has changed, or the old release runs again. 2: the server is stopped and needs you.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
_HEALTH = (HERE / "container" / "healthcheck.py").read_text()
_PATIENCE = 10
"""So many times as long the old release may take to get ready: there is nothing else to go back to."""

_STAMP = "*T*Z"
"""What backups are called, by the clock; beside them may lie what is none, such as lost+found."""

# Run by the Python of a release: can it use the store and the ledger that are there? Says which kind they are.
_OPEN = """
import sys
from sedml.errors import LedgerError, StoreError
from sedml.service.kits import ServerKit
from sedml.service.server.node import open_node
from sedml.service.server.settings import load_settings
kit = ServerKit.load(sys.argv[1])
settings = load_settings(kit)
print("tables" if "://" in settings.database + settings.ledger else "files")
try:
    open_node(kit, settings).close()
except (StoreError, LedgerError) as error:
    print(error.what, file=sys.stderr)
    sys.exit(3)
"""


class StoppedError(Exception):
    """It cannot go on; what to do is in the text."""


@dataclass(frozen=True)
class Place:
    """One server of this machine."""

    server: str
    current: Path
    """What the unit runs: a link to the folder of a release, or on the first upgrade that folder itself."""
    kit: Path
    data: Path
    backups: Path
    within: float
    steady: float

    @property
    def unit(self) -> str:
        """Of systemd."""
        return f"sedml-server@{self.server}"

    def systemctl(self, verb: str) -> bool:
        """Whether it went well."""
        command = ["systemctl", verb, self.unit]
        return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603

    def run(self, release: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
        """Python of a release, as the user and with the settings of the server."""
        variables = {"PATH": os.environ["PATH"], "SEDML_SERVER__DATA_DIR": str(self.data)}
        more = self.kit.with_suffix(".env")
        if more.is_file():
            lines = (line for line in more.read_text().splitlines() if line.strip() and line.lstrip()[0] not in "#;")
            variables |= {
                name.strip(): "".join(shlex.split(value)) for name, _, value in (x.partition("=") for x in lines)
            }
        owner = (self.kit / "storage.key").stat()
        user, group = (owner.st_uid, owner.st_gid) if os.geteuid() == 0 else (None, None)
        return subprocess.run(  # noqa: S603 - of a release that root has installed
            [str(release / "bin" / "python"), *map(str, words)],
            env=variables,
            cwd="/",
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            capture_output=True,
            text=True,
            check=False,
        )

    def ready(self, release: Path) -> bool:
        """Whether the server says so itself, by its own certificate."""
        return self.run(release, "-c", _HEALTH, self.kit).returncode == 0


def say(text: str) -> None:
    """Progress, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


# ---- Steps ---------------------------------------------------------------------------------------------------------


def install(wheel: Path, lock: Path, current: Path) -> Path:
    """A release in a folder of its own, with the libraries of the lock file to the byte; or the folder it is in."""
    if wheel.is_dir():
        return wheel.resolve()
    parts = wheel.name.split("-")
    if wheel.suffix != ".whl" or not wheel.is_file():
        raise StoppedError(f"{wheel} is no wheel. Give that of the release, or the folder where one is installed.")
    folder = Path(f"{current}-{parts[1]}-{hashlib.sha256(wheel.read_bytes()).hexdigest()[:8]}")
    if folder.exists():
        return folder
    quiet = ["install", "--quiet", "--disable-pip-version-check"]
    try:
        for command in (
            [sys.executable, "-m", "venv", folder],
            [folder / "bin" / "pip", *quiet, "--require-hashes", "--requirement", lock],
            [folder / "bin" / "pip", *quiet, "--no-deps", wheel],
        ):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode:
                raise StoppedError(
                    f"{shlex.join(map(str, command))} failed. The server was not touched.\n{done.stderr}"
                )
        (folder / "deploy").mkdir()
        shutil.copy(HERE / "backup.py", folder / "deploy")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def stop(place: Place, release: Path) -> None:
    """Nothing of the server may answer after that, or a backup could miss what it says it has."""
    place.systemctl("stop")
    if place.systemctl("is-active") or place.ready(release):
        raise StoppedError(f"{place.unit} was told to stop and still answers. Look at `systemctl status {place.unit}`.")


def back_up(place: Place, release: Path) -> Path:
    """With the release that wrote them: store and ledger of a server that is stopped, so nothing is lost since."""
    before = set(place.backups.glob(_STAMP))
    done = place.run(release, release / "deploy" / "backup.py", "store", place.kit, "--to", place.backups)
    if done.returncode:
        raise StoppedError(f"No backup could be made: {done.stderr.strip()}")
    return max(set(place.backups.glob(_STAMP)) - before)


def switch(place: Place, release: Path) -> None:
    """The unit runs this release from its next start on."""
    beside = place.current.with_name(f".{place.current.name}.next")
    beside.unlink(missing_ok=True)
    beside.symlink_to(release)
    beside.replace(place.current)


def started(place: Place, release: Path, within: float) -> bool:
    """Whether it was ready for so many seconds on end, within a time, and did not end meanwhile."""
    place.systemctl("start")
    until, since = time.monotonic() + within, None
    while (now := time.monotonic()) < until and place.systemctl("is-active"):
        if not place.ready(release):
            since = None
        elif since is None:
            since = now
        elif now - since >= place.steady:
            return True
        time.sleep(min(1.0, place.steady))
    return False


def opens(place: Place, release: Path) -> tuple[bool, bool]:
    """Whether this release can use the store and the ledger that are there, and whether these are files."""
    done = place.run(release, "-c", _OPEN, place.kit)
    if done.returncode not in (0, 3):
        raise StoppedError(f"The old release does not even start: {done.stderr.strip()}")
    return done.returncode == 0, done.stdout.strip() == "files"


def put_back(place: Place, release: Path, backup: Path) -> None:
    """The store and the ledger of the backup, in a new data folder; what was there goes aside."""
    aside = place.data.with_name(f"{place.data.name}.changed-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
    place.data.rename(aside)
    place.data.mkdir(mode=0o700)
    owner = aside.stat()
    os.chown(place.data, owner.st_uid, owner.st_gid)
    done = place.run(release, release / "deploy" / "backup.py", "restore", backup, "--kit", place.kit)
    if done.returncode:
        raise StoppedError(f"{backup} could not be put back: {done.stderr.strip()}\nWhat was there is in {aside}.")
    if (aside / "public").is_dir():  # no backup has it, and clients check it against the terms
        shutil.rmtree(place.data / "public", ignore_errors=True)
        shutil.move(aside / "public", place.data / "public")
    say(
        "The new release had changed the store, which the old one cannot read: the backup was put back. Jobs that "
        "were running when it was made end as refused, at both servers, and stay charged; those that took votes go "
        f"on. Whatever came in after the switch is forgotten here, and kept in {aside}. The log of jobs was put back "
        "too: if the other server has seen more of it, no job runs until its operator accepts that "
        f"(docs/how-to/operate/log.md).\n{done.stdout.strip()}"
    )


# ---- There and back ------------------------------------------------------------------------------------------------


def go_back(place: Place, old: Path, backup: Path) -> None:
    """The old release runs again, on its own store or on the backup."""
    stop(place, old)
    switch(place, old)
    readable, in_files = opens(place, old)
    if readable:
        say("The store is as the old release left it, or as it can read it: jobs go on.")
    elif in_files:
        put_back(place, old, backup)
    else:
        raise StoppedError(
            "The new release has changed the tables in PostgreSQL, which the old one cannot read. Dump and drop those "
            "whose names begin with sedml_store_ and sedml_ledger_, then put the backup back and start the server:\n"
            f"  {old}/bin/python {old}/deploy/backup.py restore {backup} --kit {place.kit}\n"
            f"  systemctl start {place.unit}"
        )
    if not started(place, old, _PATIENCE * place.within):
        raise StoppedError(f"{old} is not ready either. Look at `journalctl -u {place.unit}`.")
    say(f"{place.unit} runs {old} again, and is ready.")


def upgrade(place: Place, wheel: Path, lock: Path) -> int:
    """See above; the exit code."""
    if not place.systemctl("is-active") or not place.ready(place.current.resolve()):
        raise StoppedError(f"{place.unit} is not ready now. Mend it first: otherwise nobody could tell what broke it.")
    new = install(wheel, lock, place.current)
    if new == place.current.resolve():
        raise StoppedError(f"{new} is what runs already.")
    say(f"The new release is in {new}. Stopping {place.unit}.")
    old = place.current.resolve()
    try:
        stop(place, old)
        backup = back_up(place, old)
    except BaseException:
        place.systemctl("start")
        raise
    say(f"Store and ledger are in {backup}. Switching.")
    if not place.current.is_symlink():
        old = place.current.with_name(f"{place.current.name}-before-{backup.name}")
        place.current.rename(old)
    try:
        switch(place, new)
        well = started(place, new, place.within)
    except BaseException:
        go_back(place, old, backup)
        raise
    if well:
        say(
            f"{place.unit} runs {new}, and is ready. To go back, whatever has happened until then:\n"
            f"  python3 {Path(__file__).resolve()} back {place.server} {old} --backup {backup}"
        )
        return 0
    say(f"{new} ended, or was not ready for {place.steady:g} s on end within {place.within:g} s. Going back.")
    go_back(place, old, backup)
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says."""
    words = _parser().parse_args(arguments)
    kit = words.kit or Path("/etc/sedml", words.server)
    data = words.data or Path("/var/lib/sedml", words.server)
    backups = words.backups or Path("/var/backups/sedml", words.server)
    place = Place(words.server, words.current, kit, data, backups, words.within, words.steady)
    try:
        if words.command == "to":
            return upgrade(place, words.release, words.lock)
        go_back(place, words.release.resolve(), words.backup)
    except (StoppedError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1 if place.systemctl("is-active") else 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Upgrade a server under systemd, or go back.")
    commands = parser.add_subparsers(dest="command", required=True)
    to = commands.add_parser("to", help="Take a new release, and go back if it does not get well.")
    to.add_argument("server", help="Such as s0.")
    to.add_argument("release", type=Path, help="Its wheel, or the folder where it is installed.")
    to.add_argument("--lock", type=Path, default=HERE / "requirements.lock", help="The libraries of that release.")
    back = commands.add_parser("back", help="Take the release before.")
    back.add_argument("server", help="Such as s0.")
    back.add_argument("release", type=Path, help="The folder of the old release, as `to` printed it.")
    back.add_argument("--backup", type=Path, required=True, help="The backup that `to` made.")
    for one in (to, back):
        one.add_argument("--current", type=Path, default=Path("/opt/sedml"), help="What the unit runs.")
        one.add_argument("--kit", type=Path, help="Default: /etc/sedml/SERVER.")
        one.add_argument("--data", type=Path, help="Default: /var/lib/sedml/SERVER.")
        one.add_argument("--backups", type=Path, help="Default: /var/backups/sedml/SERVER.")
        one.add_argument("--within", type=float, default=120.0, help="Seconds in which it has to get ready.")
        one.add_argument("--steady", type=float, default=10.0, help="Seconds that it has to stay so.")
    return parser


if __name__ == "__main__":
    sys.exit(main())
