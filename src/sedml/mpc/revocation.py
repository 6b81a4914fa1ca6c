"""Certificates that are good no more although they have not expired: the list that the authority signs (RFC 5280).

A list is handed on together with the authority's certificate, as one text of PEM: whoever trusts the one heeds the
other. It is good for as long as the authority is, as it changes only when a certificate is replaced.
"""

from __future__ import annotations

from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sedml.errors import InputError
from sedml.mpc.certificates import CLOCK_SKEW, Authority


def revoke(authority: Authority, certificate: bytes, before: bytes | None = None) -> bytes:
    """The next list of the authority: what is on the one before, and this certificate."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError("The authority's key is not an elliptic curve key.", "Make an authority with SEDML.")
    now = datetime.now(UTC) - CLOCK_SKEW
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.subject)
        .last_update(now)
        .next_update(issuer.not_valid_after_utc)
        .add_extension(x509.CRLNumber(1 if before is None else list_number(before) + 1), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    known = [] if before is None else list(x509.load_pem_x509_crl(before))
    for one in known:
        builder = builder.add_revoked_certificate(one)
    serial = x509.load_pem_x509_certificate(certificate).serial_number
    if serial not in [one.serial_number for one in known]:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now)
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def signed_by(revoked: bytes, authority: bytes) -> bool:
    """Whether this is a list of this authority."""
    try:
        found, issuer = x509.load_pem_x509_crl(revoked), x509.load_pem_x509_certificate(authority)
        key = issuer.public_key()
        return isinstance(key, ec.EllipticCurvePublicKey) and found.is_signature_valid(key)
    except ValueError:
        return False


def list_number(revoked: bytes) -> int:
    """Which list of the authority this is: the highest number is the newest."""
    found = x509.load_pem_x509_crl(revoked).extensions.get_extension_for_class(x509.CRLNumber)
    return found.value.crl_number


def is_revoked(certificate: bytes, revoked: bytes) -> bool:
    """Whether the certificate is on the list."""
    serial = x509.load_pem_x509_certificate(certificate).serial_number
    return x509.load_pem_x509_crl(revoked).get_revoked_certificate_by_serial_number(serial) is not None
