# mypy: disable-error-code="import-not-found,import-untyped"
"""CrypTen: two parties in Z_{2^64} and a third that deals to them while they compute (its provider "TTP").

The threshold check stays on bits until it is opened (CrypTen's own `max` would convert back at every level); the label
is a tournament written out, for CrypTen's `argmax` draws lots among equal classes.
"""

from __future__ import annotations

import os
import secrets
import sys
from threading import Thread
from types import ModuleType

import numpy as np
import torch

from .party_processes import Answer, Foreign, Integers, Party, Turn, Work, first_highest, run_parties, serve, summary

__all__ = ["play", "solve"]

_PARTIES = 2
_SIGN = 63


def solve(work: Work) -> Answer:
    """`work.variant` is who deals: TTP."""
    shares = list(zip(_share(work.margins), _share(work.noisy), strict=True))
    turns = run_parties(play, [*shares, None], work.repeat)
    labels = []
    for first, second in zip(*turns[:_PARTIES], strict=True):
        (none, share), (_, other) = first.output[:2], second.output[:2]
        label = np.full(work.g.shape, -1)
        label[none == 0] = share + other
        labels.append(label)
    return summary(turns, labels, ("crypten", "torch", "numpy"), rounds=turns[1][-1].output[2])


def play(party: Party, shares: tuple[Integers, Integers] | None) -> list[Turn]:
    """The first two compute on their shares; the last one, without any, deals."""
    torch.set_num_threads(1)
    here = {"WORLD_SIZE": _PARTIES, "RANK": party.rank, "RENDEZVOUS": f"tcp://127.0.0.1:{party.ports[0]}"}
    os.environ.update({name: str(value) for name, value in here.items()} | {"DISTRIBUTED_BACKEND": "gloo"})
    if sys.platform == "linux":
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    crypten = _crypten()
    crypten.cfg.mpc.provider = "TTP"
    return _deal(party) if shares is None else _compute(crypten, party, *shares)


def _crypten() -> Foreign:
    # CrypTen's reader of ONNX models imports a module that PyTorch has given up; nothing here reads a model.
    name = "torch.onnx._internal.registration"
    try:
        __import__(name)
    except ImportError:
        missing = ModuleType(name)
        missing.registry = None  # type: ignore[attr-defined]
        sys.modules[name] = missing
    import crypten

    return crypten


def _share(values: Integers) -> tuple[Integers, Integers]:
    mask = np.frombuffer(secrets.token_bytes(values.nbytes), np.int64).reshape(values.shape)
    return values - mask, mask


def _deal(party: Party) -> list[Turn]:
    from crypten.mpc.provider import TTPServer

    turns: list[Turn] = []
    # The server answers until it is told to stop; what it received is counted beside it.
    beside = Thread(target=lambda: turns.extend(party.measure(lambda: None)))
    beside.start()
    TTPServer()
    beside.join()
    return turns


def _compute(crypten: Foreign, party: Party, margins: Integers, noisy: Integers) -> list[Turn]:
    crypten.init()
    mpc = crypten.mpc
    shared = [mpc.MPCTensor.from_shares(torch.from_numpy(np.array(share)), precision=0) for share in (margins, noisy)]

    def once() -> tuple[Foreign, Foreign]:
        negative = shared[0].to(mpc.binary)._tensor
        negative.share >>= _SIGN
        none = _all(negative).reveal() & 1
        if none.all():
            return none, none[:0]
        return none, _argmax(crypten, shared[1][:, none == 0]).share

    stats = crypten.communicator.get()
    with crypten.cfg.temp_override({"communicator.verbose": True}):
        stats.reset_communication_stats()
        once()
        rounds = stats.get_communication_stats()["rounds"]
    turns = party.measure(once)
    crypten.uninit()
    return [Turn(turn.seconds, turn.received, (*(part.numpy() for part in turn.output), rounds)) for turn in turns]


def _all(bits: Foreign) -> Foreign:
    while (classes := len(bits.share)) > 1:
        half = classes // 2
        pairs = bits[:half] & bits[half : 2 * half]
        if classes % 2:
            pairs.share = torch.cat([pairs.share, bits.share[2 * half :]])
        bits = pairs
    return bits[0]


def _argmax(crypten: Foreign, values: Foreign) -> Foreign:
    index = torch.arange(values.shape[0])[:, None].expand(values.shape)
    both = crypten.stack([values, crypten.cryptensor(index, precision=0)])
    return first_highest(both, lambda winners, left: crypten.cat([winners, left], dim=1))


if __name__ == "__main__":
    serve(solve)
