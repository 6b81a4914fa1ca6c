"""Runs a command under the system calls that a unit of systemd allows, as systemd would: `confined.py UNIT COMMAND...`.

Of the unit only SystemCallFilter and MemoryDenyWriteExecute are applied: what a sandbox can take away from a program
that it turns out to need. Needs libseccomp and systemd-analyze.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
import re
import subprocess
import sys
from pathlib import Path

ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
NO_SUCH_CALL = -1
MASKED_EQUAL = 7
WRITE, EXECUTE = 2, 4


class _Argument(ctypes.Structure):
    _fields_ = [
        ("number", ctypes.c_uint),
        ("compare", ctypes.c_int),
        ("mask", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
    ]


def settings_of(unit: Path, key: str) -> list[str]:
    """All values of a key, in the order of the file."""
    return re.findall(rf"^{key}=(.*)$", unit.read_text(), re.MULTILINE)


def calls_in(group: str) -> set[str]:
    """The system calls of a group such as @system-service, and of the groups within it."""
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", group], capture_output=True, text=True, check=True
    )
    found: set[str] = set()
    for line in listed.stdout.splitlines()[1:]:
        word = line.strip()
        if word and not word.startswith("#"):
            found |= calls_in(word) if word.startswith("@") else {word}
    return found


def allowed(unit: Path) -> set[str]:
    """What is left after all lines of the filter; systemd always adds @default."""
    calls: set[str] = set()
    for line in settings_of(unit, "SystemCallFilter"):
        for group in line.lstrip("~").split():
            calls = calls - calls_in(group) if line.startswith("~") else calls | calls_in(group)
    return calls | calls_in("@default")


def confine(calls: set[str], deny_write_execute: bool) -> None:
    """For this process and all that come of it; there is no way back."""
    library = ctypes.CDLL(ctypes.util.find_library("seccomp"), use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(REFUSE)))
    for name in sorted(calls):
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number <= NO_SUCH_CALL:
            continue
        cases: list[list[_Argument]] = [[]]
        if deny_write_execute and name == "mmap":
            both = WRITE | EXECUTE
            cases = [[_Argument(2, MASKED_EQUAL, both, value)] for value in (0, WRITE, EXECUTE)]
        elif deny_write_execute and name in ("mprotect", "pkey_mprotect"):
            cases = [[_Argument(2, MASKED_EQUAL, EXECUTE, 0)]]
        for case in cases:
            wrong = library.seccomp_rule_add_array(
                rules, ctypes.c_uint32(ALLOW), number, len(case), (_Argument * len(case))(*case)
            )
            if wrong:
                raise OSError(-wrong, f"no rule for {name}")
    if wrong := library.seccomp_load(rules):
        raise OSError(-wrong, "the filter was not taken")


if __name__ == "__main__":
    unit = Path(sys.argv[1])
    confine(allowed(unit), settings_of(unit, "MemoryDenyWriteExecute") == ["yes"])
    os.execv(sys.argv[2], sys.argv[2:])
