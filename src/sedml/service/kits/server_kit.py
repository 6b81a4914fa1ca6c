"""The kit of a server: who it is, where it listens, its keys, and the accounts it starts with."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, cast

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from pydantic import ConfigDict, TypeAdapter, ValidationError

from sedml.errors import InputError, KitError
from sedml.mpc.certificates import Credentials, host_names
from sedml.mpc.revocation import is_revoked
from sedml.service.kits.addresses import Address, parse_address
from sedml.service.kits.client_kit import SERVERS
from sedml.service.kits.folder import Value, allow_only, exposed, finding, format_toml, read_bytes, read_toml, take
from sedml.service.kits.log_key import LOG_KEY, read_log_key
from sedml.service.kits.trusted import read_revoked, read_trusted
from sedml.service.log.notes import Signer
from sedml.service.messages import Role, ServerName
from sedml.service.server_messages import TokenHash
from sedml.service.terms import Name

NEXT_KEY = "server.key.next"
"""The key of a certificate that is about to come, or has come a moment ago; see `sedml.service.kits.renewal`."""
STORAGE_KEY = "storage.key"
"""What a server encrypts its store with."""
OLD_STORAGE_KEY = "storage.key.old"


@dataclass(frozen=True)
class Enrolled:
    """An account that a server knows from its start."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Name
    role: Role
    token_hash: TokenHash


ACCOUNTS = TypeAdapter(tuple[Enrolled, ...])
"""The document accounts.json."""


@dataclass(frozen=True)
class ServerKit:
    """What S0 or S1 holds."""

    folder: Path
    name: ServerName
    host: str
    """Where it listens for clients."""
    port: int
    link_host: str
    """The address of S0, in both kits: where S0 listens for S1, and where S1 finds it."""
    link_port: int
    credentials: Credentials
    log_signer: Signer = field(repr=False)
    """Signs its log, and cosigns that of the other server."""
    log_certificate: bytes = field(repr=False)
    storage_key: bytes = field(repr=False)
    accounts: tuple[Enrolled, ...] = field(repr=False)
    old_storage_key: bytes | None = field(default=None, repr=False)
    """While the storage key is being replaced (`sedml.service.kits.new_storage_key`)."""
    peer_at: Address | None = None
    """Where clients find the other server, for `sedml doctor`; older kits do not say."""

    @property
    def role(self) -> int:
        """0 of S0, 1 of S1: which half of everything it holds."""
        return SERVERS.index(self.name)

    @property
    def peer(self) -> ServerName:
        """The other server."""
        return SERVERS[1 - self.role]

    @property
    def host_names(self) -> list[str]:
        """Names and addresses of its machine that its certificate has: for programs that know it by nothing else."""
        return host_names(self.credentials.certificate)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a kit, and make sure that its parts belong together."""
        folder = Path(folder)
        path = folder / "kit.toml"
        table = read_toml(path)
        if "role" in table:
            raise KitError(f"{folder} is the kit of a client.", "Give that of a server, such as kits/s0.")
        allow_only(table, {"name", "listen", "link", "peer"}, path)
        name = cast(ServerName, take(table, "name", "|".join(SERVERS), path, "s0 or s1"))
        listen = _address(table, "listen", path)
        link = _address(table, "link", path)
        old, credentials = folder / OLD_STORAGE_KEY, read_credentials(folder, name)
        signer, certificate = read_log_key(folder, credentials.authority, name)
        return cls(
            folder=folder,
            name=name,
            host=listen.host,
            port=listen.port,
            link_host=link.host,
            link_port=link.port,
            credentials=credentials,
            log_signer=signer,
            log_certificate=certificate,
            storage_key=read_storage_key(folder / STORAGE_KEY),
            accounts=_accounts(folder / "accounts.json"),
            old_storage_key=read_storage_key(old) if old.exists() else None,
            peer_at=_address(table, "peer", path) if "peer" in table else None,
        )


def read_storage_key(path: Path) -> bytes:
    """The key in a file."""
    text = read_bytes(path).decode("latin-1").strip()
    return bytes.fromhex(take({"key": text}, "key", r"[0-9a-f]{64}", path, "64 lower-case hexadecimal digits"))


def check_private(folder: Path) -> None:
    """Raise if others than their owner may read or change the keys of a server."""
    keys = "server.key", NEXT_KEY, LOG_KEY, STORAGE_KEY, OLD_STORAGE_KEY
    found = [path for path in exposed(folder) if path.name in keys]
    if found:
        raise KitError(
            f"Others than their owner may read {' and '.join(map(str, found))}.",
            f"Run: {shlex.join(['chmod', 'go=', *map(str, found)])}. If somebody may have read them, replace them: "
            "docs/how-to/operate/keys.md says how.",
        )


def server_text(name: ServerName, listen: Address, link: Address, peer: Address) -> str:
    """The kit.toml of a server."""
    places = {"listen": listen, "link": link, "peer": peer}
    tables: dict[str, dict[str, Value]] = {key: {"host": at.host, "port": at.port} for key, at in places.items()}
    return format_toml({"name": name}, tables)


def authority_fingerprint(authority: bytes) -> str:
    """SHA-256 of an authority's certificate, to compare by telephone before trusting it."""
    der = x509.load_pem_x509_certificate(authority).public_bytes(serialization.Encoding.DER)
    return hashlib.sha256(der).hexdigest()


def _address(table: dict[str, Any], key: str, path: Path) -> Address:
    entry = table.get(key)
    if isinstance(entry, dict):
        allow_only(entry, {"host", "port"}, path.with_name(f"{path.name} [{key}]"))
        host, port = entry.get("host"), entry.get("port")
        if isinstance(host, str) and type(port) is int:
            try:
                return parse_address(str(Address(host, port)))
            except InputError:
                pass
    raise KitError(
        f"The table [{key}] in {path} is missing or malformed.", 'It must hold host = "..." and port = a number.'
    )


def read_credentials(folder: Path, name: ServerName) -> Credentials:
    """Certificate, key and authority of a kit; raises unless they belong together, and to the server of this name."""
    authority = read_trusted(folder)
    path = folder / "server.pem"
    try:
        credentials = Credentials(read_bytes(path), read_bytes(folder / "server.key"), authority)
    except KitError:
        raise
    except InputError:
        raise _no_certificate(path, name) from None
    coming = folder / NEXT_KEY
    if coming.exists() and not is_pair(credentials.key, credentials.certificate):
        # A renewal was cut off after its certificate, and before its key, was put in place.
        credentials = Credentials(credentials.certificate, read_bytes(coming), authority)
    check_credentials(folder, credentials, name)
    revoked = read_revoked(folder, authority)
    if revoked is not None and is_revoked(credentials.certificate, revoked):
        raise KitError(f"{path} was revoked: nobody accepts it any more.", "Issue another with `sedml certify`.")
    return credentials


def check_credentials(folder: Path, credentials: Credentials, name: ServerName) -> None:
    """Raise unless certificate, key and authority belong together, and to the server of this name."""
    path = folder / "server.pem"
    try:
        certificate = x509.load_pem_x509_certificate(credentials.certificate)
    except ValueError:
        raise _no_certificate(path, name) from None
    if credentials.name != name:
        raise KitError(
            f"{path} is the certificate of {credentials.name}, and this is the kit of {name}.",
            f"Restore the one that was made for {name}.",
        )
    if (other := SERVERS[1 - SERVERS.index(name)]) in host_names(credentials.certificate):
        raise KitError(f"{path} is a certificate of {other} too.", "Issue another with `sedml certify`.")
    try:
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(credentials.authority))
    except (ValueError, TypeError, InvalidSignature):
        raise KitError(
            f"{path} was not issued by the authority of {folder / 'ca.pem'}.",
            "Restore both from your copy of the kit.",
        ) from None
    try:
        serialization.load_pem_private_key(credentials.key, password=None)
    except (ValueError, TypeError):
        raise KitError(
            f"{folder / 'server.key'} is not a private key without a password.", "Restore it from your copy of the kit."
        ) from None
    if not is_pair(credentials.key, credentials.certificate):
        raise KitError(
            f"{folder / 'server.key'} is not the key of the certificate server.pem.",
            "Restore both from your copy of the kit, or issue new ones with `sedml certify`.",
        )


def _no_certificate(path: Path, name: ServerName) -> KitError:
    return KitError(f"{path} is not the certificate of a server.", f"Restore the one that was made for {name}.")


def is_pair(key: bytes, certificate: bytes) -> bool:
    """Whether this is the private key of this certificate."""
    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
        return serialization.load_pem_private_key(key, password=None).public_key() == public
    except (ValueError, TypeError):
        return False


def _accounts(path: Path) -> tuple[Enrolled, ...]:
    try:
        accounts = ACCOUNTS.validate_json(read_bytes(path))
    except ValidationError as error:
        what = f"{path} is malformed at {': '.join(finding(error))}."
        raise KitError(what, "It must be a list of objects with name, role and token_hash.") from None
    for key, values in (("name", [a.name for a in accounts]), ("token_hash", [a.token_hash for a in accounts])):
        twice = [value for value, count in Counter(values).items() if count > 1]
        if twice:
            named = f" {twice[0]!r}" if key == "name" else ""
            raise KitError(f"{path} lists the {key}{named} twice.", "Every account needs its own.")
    return accounts
