"""Keys far too small to protect anything, made once, and a link that remembers what it carried."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from sedml.lab.homomorphic import dgk, paillier
from sedml.lab.homomorphic.compare import PrivateKeys, largest_test
from sedml.lab.homomorphic.wire import Link

BITS = 256
V_BITS = 48
WIDEST = 24


@cache
def toy_paillier() -> paillier.PrivateKey:
    return paillier.keygen(BITS)


@cache
def toy_keys(widest: int = WIDEST) -> PrivateKeys:
    return PrivateKeys(toy_paillier(), dgk.keygen(BITS, largest_test(widest), V_BITS))


@dataclass
class Tap(Link):
    """Keeps the messages themselves."""

    carried: list[tuple[str, str, str, bytes]] = field(default_factory=list)

    def send(self, sender: str, receiver: str, step: str, message: bytes) -> bytes:
        assert type(message) is bytes
        self.carried.append((sender, receiver, step, message))
        # A copy: the receiver has nothing but these bytes.
        return bytes(bytearray(super().send(sender, receiver, step, message)))

    def ciphertexts(self, sender: str, step: str, size: int) -> list[int]:
        """All numbers of the messages of one step."""
        bodies = [message[4:] for who, _, what, message in self.carried if (who, what) == (sender, step)]
        return [int.from_bytes(body[i : i + size], "big") for body in bodies for i in range(0, len(body), size)]
