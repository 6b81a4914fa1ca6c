"""A job of the baseline: count, highest vote, threshold check, the teachers' second round, label.

S0 has ciphertexts and public keys, S1 the private keys; all else goes through the link.

- Ballots: in the first round a teacher sends E(1) for the class it votes for and E(0) for all others. In the second,
  for the samples that passed the threshold, it sends the same again with its share of the label noise added.
- Duel: d = b - a is compared (`compare`), e0 xor e1 = (b >= a). S1 sends E(e1) and E(e1 z); as z = d + mask, S0 takes
  E(e1 d) = E(e1 z) - mask E(e1), and a + (e0 xor e1) d is a + e1 d or b - e1 d, as its own bit says. Both ciphertexts
  are fresh and neither server learns who won.
- Threshold: n* - T + g. S0 adds its part of g under encryption, S1 adds its own to what it decrypts. Both bits of the
  sign are exchanged: t is all that is opened.
- Label: S0 packs m_i = n_i + g_i and the class into one number, m_i 2^s + (2^s - 1 - i), so that there are no ties and
  the first class of the highest count wins. Of the winner, blinded once more, S1 sends the low s bits to the
  requester, S0 those of the blinding: their difference is the class, and m stays hidden.

All samples and all duels of a level share a message: 4 messages per level, 5 for the threshold, 1 for the label.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sedml.lab.homomorphic import paillier
from sedml.lab.homomorphic.compare import PrivateKeys, Sign, blind, open_blinded, signs
from sedml.lab.homomorphic.wire import Link, pack, pack_bits, unpack, unpack_bits
from sedml.lab.semi_honest.check_and_label_noise import Noise
from sedml.lab.semi_honest.gadgets.tournament import levels
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.mpc.ring import Array
from sedml.protocol.votes import NO_CONSENSUS, Votes

__all__ = ["add_ballot", "aggregate", "ballot", "duel", "noise_shares", "threshold_check", "tournament", "widest"]

Consensus = npt.NDArray[np.bool_]

_LABEL = ">u4"


def widest(task: Task) -> int:
    """Bits of the longest comparison of a job."""
    return max(_highest_width(task), _threshold_width(task), _label_width(task))


def aggregate(
    link: Link, keys: PrivateKeys, task: Task, votes: Votes, noises: tuple[Noise, Noise]
) -> npt.NDArray[np.int64]:
    """votes: int[K, Q] -> what the requester gets, int64[Q].

    `noises[0]` is S0's and `noises[1]` S1's for the threshold check; for the label their sum is dealt to the teachers.
    """
    key, samples = keys.paillier.public, task.samples
    counts = _sum_of_ballots(link, key, task, votes, phase="count", noise=None)
    with link.phase("highest"):
        n_star = tournament(link, keys, _rows(counts, task.classes), _highest_width(task))
    with link.phase("threshold"):
        g = [np.concatenate([noise.threshold(b.index, b.samples) for b in task.blocks]) for noise in noises]
        consensus = threshold_check(link, keys, n_star, task.threshold, (g[0], g[1]), _threshold_width(task))
    labels = np.full(samples, NO_CONSENSUS, np.int64)
    _tell(link, task, consensus)
    if consensus.any():
        g_i = _label_noise(task, noises, consensus)
        noisy = _sum_of_ballots(link, key, task, votes[:, consensus], phase="label", noise=g_i)
        with link.phase("label"):
            labels[consensus] = _labels(link, keys, task, noisy)
    return labels


def ballot(key: paillier.PublicKey, votes: Votes, classes: int, noise: list[int] | None = None) -> bytes:
    """A teacher: votes int[Q] -> its message, E(vote is i, plus noise) for class 0 and all samples, class 1, ..."""
    one_hot = (votes == np.arange(classes)[:, np.newaxis]).ravel().tolist()
    numbers = one_hot if noise is None else [vote + own for vote, own in zip(one_hot, noise, strict=True)]
    return pack([paillier.encrypt(key, m) for m in numbers], key.size)


def add_ballot(key: paillier.PublicKey, total: list[int], message: bytes) -> list[int]:
    """S0: one more teacher's message; gives the new sum."""
    arrived = unpack(message, key.size, key.n_squared, len(total))
    return [paillier.add(key, c, d) for c, d in zip(total, arrived, strict=True)]


def noise_shares(noise: Array, teachers: int, n: int) -> Iterator[list[int]]:
    """Noise int[N, A], split into one share modulo n for each teacher: any but all of them are uniform."""
    rest: npt.NDArray[np.object_] = noise.astype(object).ravel()
    for _ in range(teachers - 1):
        share = [secrets.randbelow(int(n)) for _ in rest]
        rest = (rest - share) % int(n)
        yield share
    yield (rest % int(n)).tolist()


def duel(link: Link, keys: PrivateKeys, a: list[int], b: list[int], width: int) -> list[int]:
    """E(a), E(b) -> E(max(a, b)) for every pair, |b - a| < 2^width."""
    key = keys.paillier.public
    differences = [paillier.add(key, d, paillier.scale(key, c, -1)) for c, d in zip(a, b, strict=True)]
    s0, s1 = signs(link, keys, differences, width)
    arrived = link.send("S1", "S0", "selection", _selection(keys, s1))
    return _select(key, arrived, s0, a, b)


def tournament(link: Link, keys: PrivateKeys, rows: list[list[int]], width: int) -> list[int]:
    """rows: N lists of Q ciphertexts -> the highest of each sample, Q ciphertexts."""
    for duels in levels(len(rows)):
        left = [c for row in rows[0 : 2 * duels : 2] for c in row]
        right = [c for row in rows[1 : 2 * duels : 2] for c in row]
        won = duel(link, keys, left, right, width)
        rows = _rows(won, duels) + rows[2 * duels :]
    return rows[0]


def threshold_check(
    link: Link, keys: PrivateKeys, n_star: list[int], threshold: int, g: tuple[Array, Array], width: int
) -> Consensus:
    """E(n*) for each sample, g: both servers' noise, int[Q] each -> whether n* + g >= T, known to both servers."""
    key = keys.paillier.public
    distances = [paillier.add_plain(key, c, int(own) - threshold) for c, own in zip(n_star, g[0], strict=True)]
    s0, s1 = signs(link, keys, distances, width, s1_adds=g[1].tolist())
    theirs = unpack_bits(link.send("S1", "S0", "sign bits", pack_bits([sign.bit for sign in s1])), len(s1))
    t = theirs ^ np.array([sign.bit for sign in s0], np.bool_)
    return unpack_bits(link.send("S0", "S1", "t", pack_bits(t)), len(s0))


def _selection(keys: PrivateKeys, parts: list[Sign]) -> bytes:
    """S1: E(e1) and E(e1 z) of every duel."""
    numbers = [m for part in parts for m in (part.bit, part.bit * part.number)]
    return pack([paillier.encrypt_own(keys.paillier, m) for m in numbers], keys.paillier.public.size)


def _select(key: paillier.PublicKey, message: bytes, parts: list[Sign], a: list[int], b: list[int]) -> list[int]:
    """S0: the winner of every duel."""
    arrived = unpack(message, key.size, key.n_squared, 2 * len(parts))
    won = []
    for part, bit, product, left, right in zip(parts, arrived[0::2], arrived[1::2], a, b, strict=True):
        # E(-e1 d) = E(mask e1 - e1 z)
        loss = paillier.add(key, paillier.scale(key, bit, part.number), paillier.scale(key, product, -1))
        won.append(
            paillier.add(key, right, loss) if part.bit else paillier.add(key, left, paillier.scale(key, loss, -1))
        )
    return won


def _labels(link: Link, keys: PrivateKeys, task: Task, noisy: list[int]) -> npt.NDArray[np.int64]:
    """E(m_i) -> i*, which the requester puts together from two shares."""
    key, index_bits, width = keys.paillier.public, _index_bits(task), _label_width(task)
    last = (1 << index_bits) - 1
    rows = [
        [paillier.add_plain(key, paillier.scale(key, c, 1 << index_bits), last - i) for c in row]
        for i, row in enumerate(_rows(noisy, task.classes))
    ]
    winners = tournament(link, keys, rows, width)
    masks, message = blind(key, winners, width)
    opened = open_blinded(keys, link.send("S0", "S1", "blinded winners", message), len(masks))
    shares = []
    for server, numbers in (("S0", masks), ("S1", opened)):
        low = np.array([int(number & last) for number in numbers], _LABEL)
        shares.append(np.frombuffer(link.send(server, "requester", "labels", low.tobytes()), _LABEL).astype(np.int64))
    return last - (shares[1] - shares[0] & last)


def _sum_of_ballots(
    link: Link, key: paillier.PublicKey, task: Task, votes: Votes, *, phase: str, noise: Array | None
) -> list[int]:
    """One round of all teachers: E of the counts, with the noise if given, class by class."""
    total = [1] * (task.classes * votes.shape[1])  # ciphertexts of zero, not random
    shares = iter(()) if noise is None else noise_shares(noise, task.teachers, key.n)
    for teacher, row in enumerate(votes):
        with link.phase("teachers"):
            message = ballot(key, row, task.classes, next(shares, None))
            arrived = link.send(f"teacher {teacher}", "S0", "ballot", message)
        with link.phase(phase):
            total = add_ballot(key, total, arrived)
    return total


def _tell(link: Link, task: Task, consensus: Consensus) -> None:
    """S0 tells every teacher, and the requester, which samples passed."""
    with link.phase("teachers"):
        for party in [f"teacher {k}" for k in range(task.teachers)] + ["requester"]:
            link.send("S0", party, "passed", pack_bits(consensus))


def _label_noise(task: Task, noises: tuple[Noise, Noise], consensus: Consensus) -> Array:
    """g_i: int[N, A], the sum of both sources, block by block as `ideal_labels` takes it."""
    parts = []
    for block in task.blocks:
        passed = int(consensus[block.start : block.stop].sum())
        if passed:
            parts.append(np.add(*(noise.label(block.index, task.classes, passed) for noise in noises)))
    joined: Array = np.concatenate(parts, axis=1)
    return joined


def _rows(flat: list[int], rows: int) -> list[list[int]]:
    each = len(flat) // rows
    return [flat[i * each : (i + 1) * each] for i in range(rows)]


def _highest_width(task: Task) -> int:
    return task.teachers.bit_length()


def _threshold_width(task: Task) -> int:
    """`task.widths` proves that all numbers of a phase have fewer bits than its ring."""
    return task.widths.threshold - 1


def _label_width(task: Task) -> int:
    return task.widths.label - 1 + _index_bits(task)


def _index_bits(task: Task) -> int:
    return (task.classes - 1).bit_length()
