"""The homomorphic prior art that SEDML is compared with: a Paillier/DGK baseline, our reconstruction.

The paper compares SEDML with XWWL20 (Xiang et al. 2020). All we have of that is what the paper says:
that the teachers encrypt their votes homomorphically, that two servers which do not collude aggregate ciphertexts,
that the number of teachers is fixed in advance, and that after the threshold check of a sample all teachers take part
a second time. This package is a working protocol of that shape, for the functionality of
`sedml.lab.semi_honest.two_noise_ideal`.

*Reconstructed* from that description: the roles, the two rounds of the teachers, the order of the phases.
*Our choice*, as the description does not say: Paillier for the votes and DGK for comparisons; S0 evaluates and S1
holds both keys; how signs, selection and labels are hidden (`compare`, `algorithm1`); that the teachers' second message
is the vote with a share of the label noise, which would explain why their number must be fixed; that the servers add
the noise of the threshold check. It has the usual speed-ups (tables of powers, short exponents, halved decryption, one
message for all samples of a step); it uses one core, packs no two votes into a ciphertext, and makes all randomness
while it is timed. Its figures are not measurements of XWWL20 itself.

A teacher of a deployment would draw its part of the label noise. Here the noise of the whole job is drawn first and
then dealt to the teachers, so that every answer can be checked. Semi-honest, all parties in one process, and not
constant-time: for measuring, not for votes that matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sedml.errors import InputError
from sedml.lab.homomorphic import dgk, paillier
from sedml.lab.homomorphic.algorithm1 import aggregate, widest
from sedml.lab.homomorphic.compare import STATISTICAL_BITS, PrivateKeys, largest_test
from sedml.lab.homomorphic.modular import ARITHMETIC
from sedml.lab.homomorphic.wire import Link
from sedml.lab.paper.lab_block import PHASES
from sedml.lab.semi_honest.check_and_label_noise import fresh_noise
from sedml.lab.semi_honest.two_noise_ideal import ideal_labels
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.protocol.thresholds import threshold_count
from sedml.protocol.votes import NO_CONSENSUS, as_votes, histogram

__all__ = ["BaselineReport", "make_keys", "run_baseline"]

_LEAST_BITS = 256


@dataclass(frozen=True)
class BaselineReport:
    """What a job of the baseline cost. Keys and their tables are made before, and not counted."""

    key_bits: int
    samples: int
    """All really run, none extrapolated."""
    classes: int
    teachers: int
    seconds: dict[str, float]
    """One core. "teachers": the encryption of all of them; then the servers' phases, S0's and S1's work added up, and
    "total", the sum of the servers' phases."""
    server_bytes: dict[str, int]
    """What went between the servers, both ways, by the same phases, and "total"."""
    teacher_bytes: int
    """What one teacher sent and received in both its rounds."""
    rounds: int
    """One-way messages between the servers, each of which waits for the one before."""
    answered: int
    matches_ideal: bool
    arithmetic: str
    """What computed: gmpy2 and its version, or "Python integers"."""


def run_baseline(
    votes: object,
    *,
    classes: int,
    threshold: float,
    sigma1: float,
    sigma2: float,
    key_bits: int = 2048,
) -> BaselineReport:
    """Run a whole job on votes (K, Q), negative where a teacher abstains, and check it against `ideal`.

    `key_bits` is the size of both moduli: 1,024 for the prior art's time, 2,048 for today's.

    >>> report = run_baseline([[0, 1], [0, 1]], classes=2, threshold=1, sigma1=0.1, sigma2=0.1, key_bits=256)
    >>> report.answered, report.matches_ideal
    (2, True)
    """
    checked = as_votes(votes, classes)
    teachers, samples = checked.shape
    task = Task(
        classes=classes,
        samples=samples,
        teachers=teachers,
        threshold=threshold_count(threshold, teachers),
        sigma1=sigma1,
        sigma2=sigma2,
    )
    keys = make_keys(task, key_bits)
    noises = fresh_noise(task)
    link = Link()
    labels = aggregate(link, keys, task, checked, noises)
    expected = ideal_labels(task, histogram(checked, classes), noises)
    seconds: dict[str, float] = {phase: link.seconds.get(phase, 0.0) for phase in PHASES}
    server_bytes: dict[str, int] = {phase: link.server_bytes(phase) for phase in PHASES}
    return BaselineReport(
        key_bits=key_bits,
        samples=samples,
        classes=classes,
        teachers=teachers,
        seconds={"teachers": link.seconds["teachers"]} | seconds | {"total": sum(seconds.values())},
        server_bytes={"teachers": 0} | server_bytes | {"total": sum(server_bytes.values())},
        teacher_bytes=link.bytes_of("teacher 0"),
        rounds=link.rounds,
        answered=int((labels != NO_CONSENSUS).sum()),
        matches_ideal=bool(np.array_equal(labels, expected)),
        arithmetic=ARITHMETIC,
    )


def make_keys(task: Task, key_bits: int) -> PrivateKeys:
    """S1's keys, with both moduli of `key_bits` bits; fewer than 1,024 protect nothing."""
    blinded = widest(task) + STATISTICAL_BITS + 2
    least = max(_LEAST_BITS, 2 * blinded + 4)
    if key_bits < least or key_bits % 8:
        raise InputError(
            f"Keys of {key_bits} bits cannot be used for this task.", f"Use a multiple of 8 of at least {least}."
        )
    # A toy key has no room for two primes of 160 bits.
    v_bits = min(dgk.V_BITS, key_bits // 5)
    return PrivateKeys(paillier.keygen(key_bits), dgk.keygen(key_bits, largest_test(widest(task)), v_bits))
