"""A server's next certificate, issued by the authority of the deployment, and its next storage key.

The certificate and its key are two files, and no disk replaces two at once. So the new key is written next to the old
one first; the certificate is replaced, which is the moment that counts; then the key takes its place. A kit that is
found in between has the new certificate, and the key next to it is the one that fits: whoever reads the kit takes it.

The certificate that is replaced goes on the authority's list before that, so that no crash leaves it off.

The old storage key is put next to the new one before that takes its place. A server that starts and finds both seals
its store under the new one, then forgets the old one. Cut off anywhere, the same command or the next start goes on
from there.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

from cryptography import x509

from sedml.errors import InputError, KitError
from sedml.files import flush
from sedml.mpc.certificates import Authority, host_names, issue_certificate
from sedml.mpc.revocation import revoke
from sedml.service.kits.client_kit import SERVERS
from sedml.service.kits.folder import locked, read_bytes, read_toml, replace_private, take
from sedml.service.kits.log_key import LOG_CERTIFICATE, LOG_KEY, new_log_key
from sedml.service.kits.provisioning import LONGEST_DAYS, OWN_HOSTS
from sedml.service.kits.server_kit import (
    NEXT_KEY,
    OLD_STORAGE_KEY,
    STORAGE_KEY,
    authority_fingerprint,
    check_credentials,
    is_pair,
    read_storage_key,
)
from sedml.service.kits.trusted import REVOKED, read_authority, read_revoked
from sedml.service.messages import ServerName


def renew_certificate(server: Path, authority: Path, days: int = 365, names: Sequence[str] = ()) -> datetime:
    """Give the kit of a server a new key and a certificate for so many days; until when it is good.

    It has the host names and addresses of the one that it replaces, and these.

    A kit of an older release gets the key of its log with it. That is never replaced: the log is known by it.

    All or nothing: whatever interrupts it, the kit has the old pair or the new one. A server that runs takes up the
    new one at SIGHUP.
    """
    path = server / "kit.toml"
    table = read_toml(path)
    if "listen" not in table:
        raise KitError(f"{server} is not the kit of a server.", "Give that of a server, such as kits/s0.")
    name = cast(ServerName, take(table, "name", "|".join(SERVERS), path, "s0 or s1"))
    issuer = Authority(read_authority(authority / "ca.pem"), read_bytes(authority / "ca.key"))
    if authority_fingerprint(issuer.certificate) != authority_fingerprint(read_authority(server / "ca.pem")):
        raise KitError(
            f"{authority} is not the authority that {server} and its clients trust.",
            "Give the folder that was made with the kits; its ca.pem is the same as theirs.",
        )
    _check_days(issuer, days)
    hosts = [*_kept_hosts(server), *names, *OWN_HOSTS]
    credentials = issue_certificate(issuer, name, days=days, hosts=hosts)
    # An authority whose key is not that of its certificate issues what nobody believes.
    check_credentials(server, credentials, name)
    with locked(server), locked(authority):
        revoked = _revoke(server, issuer, authority)
        _finish(server)
        replace_private(server / NEXT_KEY, credentials.key)
        replace_private(server / "server.pem", credentials.certificate)
        _finish(server)
        if revoked is not None:
            replace_private(server / REVOKED, revoked)
        if not (server / LOG_KEY).exists():  # of a release that kept no log
            made = new_log_key(issuer, name)
            for file in (LOG_CERTIFICATE, LOG_KEY):
                replace_private(server / file, made[file])
    return x509.load_pem_x509_certificate(credentials.certificate).not_valid_after_utc


def new_storage_key(folder: Path) -> None:
    """Give the kit of a server a new key, and keep the old one until the server has started with both."""
    current, old = folder / STORAGE_KEY, folder / OLD_STORAGE_KEY
    with locked(folder):
        key = read_storage_key(current)
        if old.exists() and read_storage_key(old) != key:
            raise KitError(
                f"The storage key of {folder} was replaced, and its server has not taken up the new one yet.",
                "Restart the server, when it is not in the middle of a job, before you replace the key again.",
            )
        replace_private(old, key.hex() + "\n")
        replace_private(current, secrets.token_hex(32) + "\n")


def forget_old_storage_key(folder: Path) -> None:
    """Remove the old key, once nothing is encrypted with it any more."""
    try:
        (folder / OLD_STORAGE_KEY).unlink(missing_ok=True)
        flush(folder)
    except OSError as error:
        raise KitError(
            f"{folder / OLD_STORAGE_KEY} cannot be removed ({error.strerror}).",
            "Remove it yourself: nothing is encrypted with it any more.",
        ) from None


def _kept_hosts(server: Path) -> list[str]:
    """The hosts of the certificate that the kit has, if it has one."""
    try:
        return host_names(read_bytes(server / "server.pem"))
    except (KitError, ValueError, x509.ExtensionNotFound):
        return []


def _revoke(server: Path, issuer: Authority, authority: Path) -> bytes | None:
    """Put the certificate that the kit has on the authority's list; the list, if there is one now."""
    revoked = read_revoked(authority, issuer.certificate)
    try:
        revoked = revoke(issuer, read_bytes(server / "server.pem"), revoked)
    except (KitError, ValueError):  # a kit that has lost its certificate gets one all the same
        return revoked
    replace_private(authority / REVOKED, revoked)
    return revoked


def _finish(server: Path) -> None:
    """Put the key that fits the certificate in its place, if one lies next to it."""
    coming, certificate = server / NEXT_KEY, server / "server.pem"
    if coming.exists() and certificate.exists() and is_pair(read_bytes(coming), read_bytes(certificate)):
        try:
            coming.replace(server / "server.key")
            flush(server)
        except OSError as error:
            raise KitError(
                f"{server / 'server.key'} cannot be written ({error.strerror}).", "Check the disk, then try again."
            ) from None


def _check_days(issuer: Authority, days: int) -> None:
    left = x509.load_pem_x509_certificate(issuer.certificate).not_valid_after_utc - datetime.now(UTC)
    most = min(LONGEST_DAYS, left // timedelta(days=1))
    if not 1 <= days <= most:
        raise InputError(
            f"A certificate for {days} days was asked for.",
            f"Use 1 to {most:,}." if most >= 1 else "The authority itself is about to expire: provision a new one.",
        )
