"""Checkpoints: how many entries a log has and under which root, as a note that its server signs and others cosign.

Three public formats of C2SP: signed-note, tlog-checkpoint and tlog-cosignature (v1, with a time), with Ed25519. One key
signs a server's own log and cosigns the other one's: what is signed begins with other words.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sedml.errors import LogError

_SIGNED, _COSIGNED = b"\x01", b"\x04"
_MOST = 16_384
_DASH = "— "
_TIME, _LATEST = 8, 2**36


@dataclass(frozen=True)
class Checkpoint:
    """The first `size` entries of the log of this name."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        """What is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"

    @property
    def head(self) -> tuple[int, bytes]:
        """Size and root, which is what proofs are about."""
        return self.size, self.root


@dataclass(frozen=True)
class Verifier:
    """Whose signatures count: a name, and the raw public key."""

    name: str
    key: bytes

    @property
    def vkey(self) -> str:
        """As tools for such notes write a cosigner's key."""
        return f"{self.name}+{self._id(_COSIGNED).hex()}+{base64.b64encode(_COSIGNED + self.key).decode()}"

    def check(self, note: str) -> None:
        """Raise unless the log's own signature is under this note."""
        self._verify(self.signature(note), parse(note)[0].text.encode())

    def signature(self, note: str) -> bytes:
        """The log's own, which `check` checks."""
        return self._found(parse(note)[1], _SIGNED)

    def cosigned_at(self, note: str) -> int:
        """When this party cosigned, in seconds since 1970; raises if it did not."""
        return self.cosignature(note)[0]

    def cosignature(self, note: str) -> tuple[int, bytes]:
        """This party's, with its time; raises if there is none, or a wrong one."""
        checkpoint, signatures = parse(note)
        stamped = self._found(signatures, _COSIGNED)
        time = int.from_bytes(stamped[:_TIME])
        if time >= _LATEST:
            raise LogError(f"{self.name} has cosigned at a time that no calendar has.", "Ask both operators.")
        self._verify(stamped[_TIME:], _cosigned(checkpoint, time))
        return time, stamped[_TIME:]

    def check_receipt(self, text: bytes, signature: str) -> None:
        """Raise unless the server has signed that it has a ballot."""
        self._verify(bytes.fromhex(signature), text)

    def _found(self, signatures: list[tuple[str, bytes]], kind: bytes) -> bytes:
        for name, signature in signatures:
            if name == self.name and signature[:4] == self._id(kind):
                return signature[4:]
        raise LogError(f"The checkpoint lacks the signature of {self.name}.", "Ask both operators.")

    def _verify(self, signature: bytes, message: bytes) -> None:
        try:
            Ed25519PublicKey.from_public_bytes(self.key).verify(signature, message)
        except (InvalidSignature, ValueError):
            raise LogError(f"The signature of {self.name} is wrong.", "Ask both operators.") from None

    def _id(self, kind: bytes) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + kind + self.key).digest()[:4]

    def line(self, signature: bytes, time: int | None = None) -> str:
        """The line of a note that has this signature; of a cosignature, with its time."""
        kind, stamp = (_SIGNED, b"") if time is None else (_COSIGNED, time.to_bytes(_TIME))
        return f"{_DASH}{self.name} {base64.b64encode(self._id(kind) + stamp + signature).decode()}\n"


@dataclass(frozen=True)
class Signer:
    """Who signs: a name, and the key."""

    name: str
    key: Ed25519PrivateKey = field(compare=False, repr=False)

    @property
    def verifier(self) -> Verifier:
        """What others check its signatures with."""
        return Verifier(self.name, self.key.public_key().public_bytes_raw())

    def sign(self, checkpoint: Checkpoint) -> bytes:
        """As the log itself."""
        return self.key.sign(checkpoint.text.encode())

    def cosign(self, checkpoint: Checkpoint, time: int) -> bytes:
        """As somebody who saw that it extends all checkpoints that it has cosigned."""
        return self.key.sign(_cosigned(checkpoint, time))


def _cosigned(checkpoint: Checkpoint, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{checkpoint.text}".encode()


def parse(note: str) -> tuple[Checkpoint, list[tuple[str, bytes]]]:
    """What a note says, and the signatures under it, none of them checked: name, and key id with signature."""
    if len(note) > _MOST:
        raise _malformed()
    text, _, lines = note.rpartition("\n\n")
    try:
        origin, size, root = text.split("\n")
        known = Checkpoint(origin, int(size), base64.b64decode(root, validate=True))
        signatures = []
        for line in lines.removesuffix("\n").split("\n"):
            dash, name, signature = line.split(" ")
            if dash != _DASH.strip():
                raise ValueError
            signatures.append((name, base64.b64decode(signature, validate=True)))
    except (ValueError, binascii.Error):
        raise _malformed() from None
    # One text for one checkpoint: what was signed is what was read.
    if known.text != f"{text}\n" or len(known.root) != 32 or not 0 <= known.size < 2**62:
        raise _malformed()
    return known, signatures


def _malformed() -> LogError:
    return LogError("This is not a checkpoint of a log.", "Ask for it again; if it stays so, ask both operators.")
