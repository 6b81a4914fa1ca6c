"""Whom a kit trusts: the authority of its deployment, but for the certificates that it has revoked."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509

from sedml.errors import KitError
from sedml.mpc.revocation import list_number, signed_by
from sedml.service.kits.folder import locked, read_bytes, replace_private

REVOKED = "revoked.pem"
"""The authority's list of certificates that are good no more; a kit without one refuses none."""

_BEGINS = b"-----BEGIN X509 CRL-----"


def read_authority(path: Path) -> bytes:
    """The certificate of the deployment's authority, as PEM."""
    content = read_bytes(path)
    try:
        certificate = x509.load_pem_x509_certificate(content)
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (ValueError, x509.ExtensionNotFound):
        is_authority = False
    if not is_authority:
        raise KitError(f"{path} is not the certificate of an authority.", "Ask the operators for their ca.pem.")
    return content


def read_revoked(folder: Path, authority: bytes) -> bytes | None:
    """The authority's list in this folder, if there is one."""
    path = folder / REVOKED
    if not path.exists():
        return None
    content = read_bytes(path)
    if not signed_by(content, authority):
        raise KitError(
            f"{path} is not a list of revoked certificates of the authority that {folder} trusts.",
            "Copy it again from the folder of the authority.",
        )
    return content


def read_trusted(folder: Path) -> bytes:
    """The authority's certificate, and behind it its list if there is one, as one text of PEM."""
    authority = read_authority(folder / "ca.pem")
    revoked = read_revoked(folder, authority)
    return authority if revoked is None else authority.rstrip() + b"\n" + revoked


def revoked_in(trusted: bytes) -> bytes | None:
    """The list behind an authority's certificate, if there is one."""
    _, mark, rest = trusted.partition(_BEGINS)
    return mark + rest if mark else None


def keep_revoked(folder: Path, revoked: bytes) -> bool:
    """Put a list that somebody handed out into a kit, if it is the authority's and newer; whether it was."""
    authority = read_authority(folder / "ca.pem")
    if not signed_by(revoked, authority):
        raise KitError(
            "A list of revoked certificates was handed out that the authority did not sign.",
            "Do not trust where it came from; tell both operators.",
        )
    with locked(folder):
        known = read_revoked(folder, authority)
        newer = known is None or list_number(revoked) > list_number(known)
        if newer:
            replace_private(folder / REVOKED, revoked)
    return newer
