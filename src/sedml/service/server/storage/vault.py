"""Encryption at rest: whatever is secret goes into the database sealed under the key of the server's kit.

AES-256-GCM with a key for each job, derived from the kit's by HKDF, and a random nonce for each piece. What a piece is
(its job, table, row and page) is authenticated with it, so no piece can be put in another's place.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sedml.errors import StoreError

_NONCE = 12


@dataclass(frozen=True)
class Vault:
    """Seals and opens; its repr shows nothing."""

    key: bytes = field(repr=False)

    def seal(self, job: str, label: str, secret: bytes | memoryview) -> bytes:
        """One piece."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + _cipher(self.key, job).encrypt(nonce, secret, f"{job}/{label}".encode())

    def open(self, job: str, label: str, sealed: bytes) -> bytes:
        """The piece again; raises if it, its key or its place is not the one it was sealed with."""
        try:
            return _cipher(self.key, job).decrypt(sealed[:_NONCE], sealed[_NONCE:], f"{job}/{label}".encode())
        except (InvalidTag, ValueError):
            raise StoreError(
                "A piece of the store cannot be decrypted: it was changed, or belongs to another kit.",
                "Start the server with the kit that wrote it, or restore the newest backup.",
            ) from None

    def digest(self, job: str, label: str, secret: bytes) -> str:
        """A keyed digest, to recognise the same bytes again; it tells nothing to whoever lacks the key."""
        named = f"{job}/{label}/".encode() + secret
        return hashlib.blake2b(named, key=self.key, digest_size=32, person=b"sedml-store-v1").hexdigest()


def page_label(teacher: str, page: int) -> str:
    """The place of a page of a teacher's ballot."""
    return f"ballot/{teacher}/{page}"


@lru_cache(maxsize=256)
def _cipher(key: bytes, job: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=f"sedml-vault-v1/{job}".encode()).derive(key))
