"""Messages between the parties as bytes, and the link that carries and counts all of them.

A message of ciphertexts is their number in four bytes and then each of them, big-endian, in as many bytes as the
modulus has. What a party gets is parsed from bytes again, and checked: nothing travels as a Python object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
import numpy.typing as npt

from sedml.errors import ShareError
from sedml.lab.homomorphic.modular import number

__all__ = ["Link", "Message", "pack", "pack_bits", "unpack", "unpack_bits"]

_COUNT_BYTES = 4
_SERVERS = {"S0", "S1"}


@dataclass(frozen=True)
class Message:
    """What the link keeps of a message."""

    phase: str
    sender: str
    receiver: str
    step: str
    size: int


@dataclass
class Link:
    """Every message of a job goes through here; so does the clock of its phases."""

    seconds: dict[str, float] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    _phase: str = ""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Charge what happens inside to a phase."""
        self._phase, start = name, perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start

    def send(self, sender: str, receiver: str, step: str, message: bytes) -> bytes:
        """Carry a message; what the receiver gets."""
        self.messages.append(Message(self._phase, sender, receiver, step, len(message)))
        return message

    def server_bytes(self, phase: str) -> int:
        """Bytes between the two servers in a phase, both ways."""
        return sum(m.size for m in self._between_servers() if m.phase == phase)

    def bytes_of(self, party: str) -> int:
        """Bytes that a party sent and received in the whole job."""
        return sum(m.size for m in self.messages if party in (m.sender, m.receiver))

    @property
    def rounds(self) -> int:
        """One-way messages between the servers: each is the answer to the one before."""
        return sum(1 for _ in self._between_servers())

    def _between_servers(self) -> Iterator[Message]:
        return (m for m in self.messages if {m.sender, m.receiver} == _SERVERS)


def pack(values: Sequence[int], size: int) -> bytes:
    """Ciphertexts of `size` bytes each."""
    return len(values).to_bytes(_COUNT_BYTES, "big") + b"".join(int(value).to_bytes(size, "big") for value in values)


def unpack(message: bytes, size: int, modulus: int, count: int) -> list[int]:
    """`count` ciphertexts modulo `modulus`."""
    expected = _COUNT_BYTES + count * size
    if len(message) != expected or int.from_bytes(message[:_COUNT_BYTES], "big") != count:
        raise _damaged(f"A message has {len(message)} bytes instead of {expected}, or not the contents it announces.")
    starts = range(_COUNT_BYTES, expected, size)
    values = [number(int.from_bytes(message[start : start + size], "big")) for start in starts]
    if not all(0 < value < modulus for value in values):
        raise _damaged("A message holds a number that is not a ciphertext of its key.")
    return values


def pack_bits(bits: Sequence[int] | npt.NDArray[np.bool_]) -> bytes:
    """Eight bits to a byte."""
    return np.packbits(np.asarray(bits, np.bool_)).tobytes()


def unpack_bits(message: bytes, count: int) -> npt.NDArray[np.bool_]:
    """`count` bits."""
    if len(message) != -(-count // 8):
        raise _damaged(f"A message of {len(message)} bytes does not hold {count} bits.")
    return np.unpackbits(np.frombuffer(message, np.uint8), count=count).astype(np.bool_)


def _damaged(what: str) -> ShareError:
    return ShareError(what, "Run the job again; if it comes back, the parties run different versions.")
