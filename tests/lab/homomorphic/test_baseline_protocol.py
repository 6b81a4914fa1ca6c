"""The whole baseline: the answers of `ideal`, exact counts of bytes and rounds, fresh ciphertexts."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sedml.errors import InputError, ShareError
from sedml.lab import homomorphic
from sedml.lab.homomorphic import BaselineReport, make_keys, run_baseline
from sedml.lab.homomorphic.algorithm1 import (
    aggregate,
)
from sedml.lab.homomorphic.wire import Link, unpack
from sedml.lab.semi_honest.two_noise_task import Task
from sedml.protocol.votes import histogram
from support.harness import numbers
from support.semi_honest import fixed_noises, zero_parts
from support.toys import Tap, toy_keys


def terms(votes, classes, threshold=1, sigma=3.0):
    K, Q = votes.shape
    return Task(classes=classes, samples=Q, teachers=K, threshold=threshold, sigma1=sigma, sigma2=sigma)


def both(task, votes, parts, link=None):
    """The baseline's labels and the ideal ones, for the same noise."""
    noises, expected = fixed_noises(task, histogram(votes, task.classes), parts)
    found = aggregate(link or Tap(), toy_keys(), task, votes, noises)
    return found.tolist(), expected.tolist()


def random_parts(generator, classes, samples, bound=6):
    def draw(*shape):
        return generator.integers(-bound, bound + 1, size=shape)

    return (draw(samples), draw(classes, samples)), (draw(samples), draw(classes, samples))


@settings(max_examples=12)
@given(st.integers(2, 6), st.integers(1, 5), st.integers(1, 6), st.integers(1, 6), st.integers(0, 2**32))
def test_labels_are_those_of_ideal_for_any_votes_and_noise(classes, samples, teachers, threshold, key):
    generator = numbers(key)
    votes = generator.integers(-1, classes, size=(teachers, samples))
    task = terms(votes, classes, threshold)
    found, expected = both(task, votes, random_parts(generator, classes, samples))
    assert found == expected


def test_the_first_of_tied_classes_wins():
    votes = np.array([[1, 2, 0, 3], [2, 3, 3, -1], [1, 2, 0, 0], [2, 3, 3, 0]])
    found, expected = both(terms(votes, 4), votes, zero_parts(4, 4))
    assert found == expected == [1, 2, 0, 0]


def test_noise_is_taken_block_by_block(monkeypatch):
    monkeypatch.setattr(Task, "block_samples", property(lambda _: 8))
    generator = numbers(5)
    votes = generator.integers(0, 3, size=(5, 20))
    task = terms(votes, 3, threshold=3)
    assert len(list(task.blocks)) == 3
    found, expected = both(task, votes, random_parts(generator, 3, 20))
    assert found == expected
    assert -1 in found
    assert len(set(found)) > 2


def test_no_second_round_where_nobody_agrees():
    votes = np.array([[0, 1], [1, 0], [2, 2]])
    task, link = terms(votes, 3, threshold=3), Tap()
    found, expected = both(task, votes, zero_parts(3, 2), link)
    assert found == expected == [-1, -1]
    assert {m.phase for m in link.messages} == {"teachers", "highest", "threshold"}
    assert link.rounds == 4 * 2 + 5


def test_every_byte_and_round_is_counted():
    K, Q, N = 3, 5, 5
    votes = np.tile(np.arange(Q) % N, (K, 1))
    task, link = terms(votes, N, threshold=K, sigma=0.1), Tap()
    both(task, votes, zero_parts(N, Q), link)
    keys = toy_keys()
    P, D = keys.paillier.public.size, keys.dgk.public.size
    width1, width2, width3 = 2, task.widths.threshold - 1, task.widths.label - 1 + 3

    def comparison(count, width):
        return 3 * 4 + count * (P + (2 * width + 1) * D)

    def duels(width):
        return sum(comparison(rows * Q, width) + 4 + 2 * rows * Q * P for rows in (2, 1, 1))

    assert link.server_bytes("count") == 0
    assert link.server_bytes("highest") == duels(width1)
    assert link.server_bytes("threshold") == comparison(Q, width2) + 1 + 1
    assert link.server_bytes("label") == duels(width3) + 4 + Q * P
    assert link.rounds == 3 * 4 + 5 + 3 * 4 + 1
    assert link.bytes_of("teacher 2") == 2 * (4 + N * Q * P) + 1
    assert link.bytes_of("requester") == 2 * 4 * Q + 1
    # The counter against the bytes that were really there.
    assert [m.size for m in link.messages] == [len(message) for *_, message in link.carried]
    servers = [len(message) for a, b, _, message in link.carried if {a, b} == {"S0", "S1"}]
    phases = ("teachers", "count", "highest", "threshold", "label")
    assert sum(servers) == sum(link.server_bytes(phase) for phase in phases)


def repeated_ciphertexts():
    """Ciphertexts that crossed the link more than once, in a job in which all numbers are alike."""
    votes = np.zeros((3, 4), np.int64)
    link = Tap()
    both(terms(votes, 4), votes, zero_parts(4, 4), link)
    sizes = {
        "ballot": 64,
        "blinded differences": 64,
        "selection": 64,
        "blinded winners": 64,
        "low bits": 32,
        "tests": 32,
    }
    seen = [
        c
        for who in ("S0", "S1", "teacher 0", "teacher 1")
        for s, n in sizes.items()
        for c in link.ciphertexts(who, s, n)
    ]
    assert len(seen) > 400
    return len(seen) - len(set(seen))


def test_no_ciphertext_is_sent_twice():
    assert repeated_ciphertexts() == 0


@pytest.mark.parametrize(
    "message", [b"", b"\0\0\0\1", b"\0\0\0\2\0\1", b"\0\0\0\1\0\1\0", b"\0\0\0\1\0\0", b"\0\0\0\1\1\0", b"\0\0\0\1\2\0"]
)
def test_damaged_messages_are_refused(message):
    with pytest.raises(ShareError):
        unpack(message, 2, 256, 1)


def test_a_server_that_cut_its_message_short_is_noticed():
    class Lossy(Link):
        def send(self, sender, receiver, step, message):
            return super().send(sender, receiver, step, message)[: -1 if step == "tests" else None]

    votes = np.zeros((2, 1), np.int64)
    with pytest.raises(ShareError):
        both(terms(votes, 2), votes, zero_parts(2, 1), Lossy())


def test_a_report_of_real_keys():
    votes = np.array([[0, 1, 2], [0, 1, 0], [0, 1, 1], [0, 2, -1]])
    report = run_baseline(
        votes,
        classes=3,
        threshold=0.75,
        sigma1=0.2,
        sigma2=0.2,
        key_bits=1024,
    )
    assert isinstance(report, BaselineReport)
    assert report.matches_ideal
    assert (report.key_bits, report.samples, report.classes, report.teachers) == (1024, 3, 3, 4)
    assert report.answered == 2
    assert report.rounds == 2 * 4 + 5 + 2 * 4 + 1
    assert report.teacher_bytes == 4 + 9 * 256 + 1 + 4 + 6 * 256
    phases = ["count", "highest", "threshold", "label"]
    assert list(report.seconds) == list(report.server_bytes) == ["teachers", *phases, "total"]
    assert report.seconds["total"] == pytest.approx(sum(report.seconds[phase] for phase in phases))
    assert report.server_bytes["total"] == sum(report.server_bytes[phase] for phase in phases)


def test_a_wrong_label_would_be_reported(monkeypatch):
    def run():
        return run_baseline([[0], [0]], classes=2, threshold=1, sigma1=0.1, sigma2=0.1, key_bits=256).matches_ideal

    assert run()
    right = homomorphic.aggregate
    monkeypatch.setattr(homomorphic, "aggregate", lambda *inputs: 1 - right(*inputs))
    assert not run()


@pytest.mark.parametrize("key_bits", [0, 128, 1023])
def test_keys_that_cannot_work_are_refused(key_bits):
    task = terms(np.zeros((2, 1), np.int64), 2)
    with pytest.raises(InputError):
        make_keys(task, key_bits)


def test_without_gmpy2_pythons_integers_do():
    code = (
        "import sys; sys.modules['gmpy2'] = None\n"
        "from sedml.lab.homomorphic import run_baseline\n"
        "r = run_baseline([[0, 1], [0, 2]], classes=3, threshold=2, sigma1=0.1, sigma2=0.1, key_bits=256)\n"
        "assert r.matches_ideal and r.answered == 1 and r.arithmetic == 'Python integers', r\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=dict(os.environ))
