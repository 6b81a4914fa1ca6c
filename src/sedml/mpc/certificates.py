"""Who the two servers are: certificates that name them, keys that prove it, TLS settings that insist on it.

A server is known by a DNS name in its certificate, "s0" or "s1", whatever machine it runs on. Both certificates
come from one authority that the two operators set up for this purpose alone: whoever it certifies as "s0" *is* S0.
Behind that name may come the host names and addresses of the machine, for programs that know servers by nothing else;
no such name is ever that of the other server.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sedml.errors import FileFormatError, InputError

PROTOCOL = "sedml-link/1"  # offered in the TLS handshake, so that another wire format is refused there

CLOCK_SKEW = timedelta(minutes=5)
_SERVERS = {"s0", "s1"}
_LIST = b"-----BEGIN X509 CRL-----"
_NO_USAGE = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server shows and trusts, as PEM: its certificate and private key, the authority's certificate.

    Behind the authority's certificate may be the list of those that it has revoked (`revocation`).
    """

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    authority: bytes = field(repr=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", _name(self.certificate))

    @classmethod
    def load(cls, certificate: Path, key: Path, authority: Path) -> Self:
        """Read them from three PEM files."""
        try:
            return cls(certificate.read_bytes(), key.read_bytes(), authority.read_bytes())
        except OSError as error:
            raise FileFormatError(
                f"The credentials file {error.filename} cannot be read ({error.strerror}).",
                "Check the path and who may read it.",
            ) from None


@dataclass(frozen=True, slots=True)
class Authority:
    """The issuer of both servers' certificates, as PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


def make_authority(name: str = "SEDML servers", *, days: int = 365) -> Authority:
    """A new authority with a key of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    certificate = (
        _builder(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"key_cert_sign": True, "crl_sign": True}), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Authority(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def issue_certificate(authority: Authority, name: str, *, days: int = 365, hosts: Iterable[str] = ()) -> Credentials:
    """A new key and a certificate that says its holder is the server of this name, to be found at these hosts too."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", name):
        raise InputError(f"{name!r} cannot be a server's name.", "Use lower-case letters and digits, such as s0.")
    try:
        issuer = x509.load_pem_x509_certificate(authority.certificate)
        issuer_key = serialization.load_pem_private_key(authority.key, password=None)
    except (ValueError, TypeError):
        raise InputError(
            "The authority's certificate or key cannot be read.",
            "Pass both as PEM, the key without a password.",
        ) from None
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise InputError("The authority's key is not an elliptic curve key.", "Make an authority with SEDML.")
    names = [x509.DNSName(name), *_hosts(name, hosts)]
    key = ec.generate_private_key(ec.SECP256R1())
    both_ways = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    certificate = (
        _builder(_subject(name), issuer.subject, key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage(both_ways), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    return Credentials(certificate.public_bytes(serialization.Encoding.PEM), _pem(key), authority.certificate)


def host_names(certificate: bytes) -> list[str]:
    """The names and addresses of its machine that a certificate has behind the name of the server."""
    own, *others = _names(certificate)
    return [str(one.value) for one in others if one != own]


def throwaway_credentials() -> tuple[Credentials, Credentials]:
    """Credentials of S0 and S1 for a day, from an authority that is forgotten: to test and try out."""
    authority = make_authority("SEDML throw-away", days=1)
    return issue_certificate(authority, "s0", days=1), issue_certificate(authority, "s1", days=1)


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS 1.3 for the end that listens: a client without a certificate of our authority is refused."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # a link is never resumed
    return _equip(context, credentials)


def client_context(credentials: Credentials) -> ssl.SSLContext:
    """TLS 1.3 for the end that connects; checks the server's name against the one it is told to expect."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.hostname_checks_common_name = False
    return _equip(context, credentials)


def load_credentials(context: ssl.SSLContext, credentials: Credentials) -> None:
    """Make a context show and trust these, in all connections from now on."""
    # ssl takes a private key from a file only. The directory is ours alone and gone before this returns.
    with tempfile.TemporaryDirectory(prefix="sedml-") as folder:
        path = Path(folder) / "credentials.pem"
        path.touch(mode=0o600)
        path.write_bytes(credentials.key + b"\n" + credentials.certificate)
        try:
            trust(context, credentials.authority)
            # Without a password of our own, OpenSSL would ask for one on the terminal.
            context.load_cert_chain(path, password="")
        except (ssl.SSLError, ValueError):
            raise InputError(
                "The certificate, its private key and the authority's certificate cannot be used together.",
                "Check that all three are PEM, belong together, and that the key has no password.",
            ) from None


def trust(context: ssl.SSLContext, authority: bytes) -> None:
    """Make a context trust the authority, but for the certificates on its list, if there is one."""
    if _LIST not in authority:
        context.load_verify_locations(cadata=authority.decode("ascii"))
        return
    # ssl takes a list from a file only.
    with tempfile.TemporaryDirectory(prefix="sedml-") as folder:
        path = Path(folder) / "authority.pem"
        path.write_bytes(authority)
        context.load_verify_locations(cafile=path)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _equip(context: ssl.SSLContext, credentials: Credentials) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols([PROTOCOL])
    load_credentials(context, credentials)
    return context


def _name(certificate: bytes) -> str:
    try:
        own = _names(certificate)[0].value
        if isinstance(own, str):
            return own
    except (ValueError, x509.ExtensionNotFound, IndexError):
        pass
    raise InputError(
        "The certificate cannot be read, or names no server.",
        "Pass a PEM certificate with a DNS name, such as s0 or s1.",
    )


def _names(certificate: bytes) -> list[x509.DNSName | x509.IPAddress]:
    """DNS names first, in the order in which the certificate has them."""
    parsed = x509.load_pem_x509_certificate(certificate)
    names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [one for kind in (x509.DNSName, x509.IPAddress) for one in names if isinstance(one, kind)]


def _hosts(server: str, hosts: Iterable[str]) -> list[x509.DNSName | x509.IPAddress]:
    """Each once, as certificates have them; raises for one that another server could be taken by."""
    found: list[x509.DNSName | x509.IPAddress] = []
    for host in hosts:
        name = host.strip().lower()
        if name in _SERVERS - {server}:
            raise InputError(
                f"{host!r} is the name by which the servers and their clients know another server than {server}.",
                "Call the machine by another name, such as s0.example, or by its address.",
            )
        try:
            one: x509.DNSName | x509.IPAddress = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            if re.fullmatch(r"[a-z0-9]([a-z0-9._-]{0,251}[a-z0-9])?", name) is None:
                raise InputError(
                    f"{host!r} is not the name or the address of a machine.", "Use one such as s0.example or 10.0.0.5."
                ) from None
            one = x509.DNSName(name)
        if name != server and one not in found:
            found.append(one)
    return found


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
