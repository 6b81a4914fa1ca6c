"""The key that a server signs its log with, and how everybody knows that it is this server's.

The authority of the deployment, which every kit trusts already, certifies it under the name "log.s0" or "log.s1", for
this use alone: no connection takes it for a server. So whoever has a ca.pem can tell the keys of both logs.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from sedml.errors import KitError, LogError
from sedml.mpc.certificates import CLOCK_SKEW, Authority
from sedml.service.kits.folder import read_bytes
from sedml.service.log.notes import Signer, Verifier
from sedml.service.messages import ServerName

LOG_KEY, LOG_CERTIFICATE = "log.key", "log.pem"
_USE = x509.ObjectIdentifier("2.25.229371409553196405931718293485712004657")  # to sign logs of sedml
_WRONG = (  # what is raised by reading a certificate that anybody may have made
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
)


def origin(authority: bytes, server: ServerName) -> str:
    """The name of a server's log, which no other deployment has."""
    certificate = x509.load_pem_x509_certificate(authority)
    return f"sedml.{certificate.fingerprint(hashes.SHA256()).hex()[:16]}/{server}"


def new_log_key(authority: Authority, server: ServerName) -> dict[str, bytes]:
    """A new key and its certificate, which is good for as long as the authority is, by the names of their files."""
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise KitError("The authority's key is not an elliptic curve key.", "Make an authority with `sedml provision`.")
    key = Ed25519PrivateKey.generate()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"log.{server}")]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - CLOCK_SKEW)
        .not_valid_after(issuer.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_USE]), critical=True)
        .sign(issuer_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {LOG_KEY: private, LOG_CERTIFICATE: certificate.public_bytes(serialization.Encoding.PEM)}


@lru_cache(maxsize=16)
def certified(certificate: bytes, authority: bytes, server: ServerName) -> Verifier:
    """The key of a server's log, if the authority says that it is; raises otherwise."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        [name] = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        use = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        key = found.public_key()
        if name.value == f"log.{server}" and _USE in use and isinstance(key, Ed25519PublicKey):
            return Verifier(origin(authority, server), key.public_bytes_raw())
    except _WRONG:
        pass
    raise LogError(
        f"The key that {server.upper()} signs its log with is not certified by the authority of this deployment.",
        "Check with both operators that your ca.pem is theirs.",
    )


def read_log_key(folder: Path, authority: bytes, server: ServerName) -> tuple[Signer, bytes]:
    """The key of a server's kit, and its certificate; raises unless they belong together, and to this server."""
    if not (folder / LOG_KEY).exists():
        raise KitError(
            f"{folder} has no {LOG_KEY}: it was made by an older release.",
            "Run `sedml certify` for this kit, which gives it one.",
        )
    certificate = read_bytes(folder / LOG_CERTIFICATE)
    verifier = certified(certificate, authority, server)
    try:
        key = serialization.load_pem_private_key(read_bytes(folder / LOG_KEY), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey) or key.public_key().public_bytes_raw() != verifier.key:
        raise KitError(
            f"{folder / LOG_KEY} is not the key of {LOG_CERTIFICATE}.", "Restore both from your copy of the kit."
        )
    return Signer(verifier.name, key), certificate
