"""What can be told of a kit by looking at it: who may read its files, how long its certificates are good."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeAlias

from cryptography import x509

from sedml.errors import counted
from sedml.mpc.certificates import Credentials
from sedml.service.kits.folder import exposed
from sedml.service.kits.trusted import revoked_in

Verdict: TypeAlias = Literal["PASS", "WARN", "FAIL"]

SOON = timedelta(days=30)
"""How long before a certificate expires there are warnings."""

_LITTLE_SPACE, _NO_SPACE = 2 << 30, 64 << 20


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `do` says how to put it right."""

    what: str
    verdict: Verdict
    found: str
    do: str = ""


def expiries(credentials: Credentials) -> dict[str, datetime]:
    """Until when each thing is good that a server's identity rests on; the list of those revoked if there is one."""
    authority, revoked = credentials.authority, revoked_in(credentials.authority)
    found = {
        "server": x509.load_pem_x509_certificate(credentials.certificate).not_valid_after_utc,
        "authority": x509.load_pem_x509_certificate(authority).not_valid_after_utc,
    }
    ends = None if revoked is None else x509.load_pem_x509_crl(revoked).next_update_utc
    return found if ends is None else found | {"revoked": ends}


def check_expiry(what: str, expires: datetime, do: str) -> Check:
    """Whether something is good for a while yet."""
    left = expires - datetime.now(UTC)
    if left < timedelta(0):
        return Check(what, "FAIL", f"expired on {expires:%Y-%m-%d}", do)
    found = f"good for {counted(left.days, 'day')}, until {expires:%Y-%m-%d}"
    return Check(what, "WARN", found, do) if left < SOON else Check(what, "PASS", found)


def check_modes(folder: Path) -> Check:
    """Whether the owner alone may read the files of a kit."""
    paths = exposed(folder)
    if not paths:
        return Check("file modes", "PASS", "readable by their owner only")
    names = ", ".join("the folder" if path == folder else path.name for path in paths)
    return Check("file modes", "FAIL", f"others can read: {names}", f"Run: chmod -R go= {folder}")


def check_space(what: str, free: int, bound: str = "") -> Check:
    """Whether there is room on a disk."""
    found = f"{bound}{free / 1e9:.1f} GB free"
    if free >= _LITTLE_SPACE:
        return Check(what, "PASS", found)
    return Check(what, "FAIL" if free < _NO_SPACE else "WARN", found, "Free some disk space.")
