"""The hash of the code that is installed: what two operators compare, and what a log of releases can hold.

The same in a checkout, in a wheel and where one was installed. Anybody can compute it without this code, in the folder
that has `sedml` in it:

    find sedml -type f ! -path '*/__pycache__/*' ! -path 'sedml/mpc/_kernel.*' |
        LC_ALL=C sort | xargs sha256sum | sha256sum

The compiled kernel has a hash of its own: it depends on the compiler, and a machine may be without one. **Whoever runs
a server can let it say what they like.** Equal hashes show that nobody made a mistake; that nobody lies, they cannot
show. Python's bytecode does not count: what is in `__pycache__` is taken to belong to the source beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_KERNEL = "sedml/mpc/_kernel."


@cache
def release_hash() -> str:
    """SHA-256 in hexadecimal of every file of this package, but not of the compiled kernel.

    As the files were when it was first asked for: a server asks when it starts, before anybody can replace them.
    """
    return hash_of_files(_files())


@cache
def kernel_hash() -> str | None:
    """SHA-256 of the compiled kernel that is installed; none where there is none."""
    compiled = sorted(name for name in _files() if name.startswith(_KERNEL))
    return hashlib.sha256(_files()[compiled[0]]).hexdigest() if compiled else None


def hash_of_files(files: Mapping[str, bytes]) -> str:
    """The hash of a release by the contents of its files, such as those in a wheel; the kernel's is left out."""
    lines = (
        f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n"
        for name in sorted(files, key=str.encode)
        if name.startswith("sedml/") and not name.startswith(_KERNEL)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _files() -> dict[str, bytes]:
    found = (path for path in _HERE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(_HERE.parent).as_posix(): path.read_bytes() for path in found}
