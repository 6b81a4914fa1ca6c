"""Bearer tokens: 256 random bits that prove who calls. A server keeps only their hash."""

from __future__ import annotations

import hashlib
import secrets

__all__ = ["TOKEN", "new_token", "token_hash"]

TOKEN = r"sedml_[A-Za-z0-9_-]{43}"  # noqa: S105 - what one looks like
"""A regular expression for all tokens and nothing else."""


def new_token() -> str:
    """A token that nobody else has."""
    return f"sedml_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """What a server stores of a token, 64 hexadecimal digits; any text has one."""
    # A token cannot be guessed, so no salt or slow hash is needed to keep it from being guessed.
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
