"""A requester that deals the masks, as in the paper, and gets both label shares learns the labels and nothing else."""

import numpy as np

from sedml.lab.paper import lab_block
from sedml.lab.paper.dealing import Seeds
from sedml.lab.paper.lab_run import counts_loaders, run_job
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import NoNoise
from sedml.lab.semi_honest import semi_honest_servers
from sedml.lab.semi_honest.opened_labels import reveal
from sedml.mpc.prg import Seed

SAMPLES = 400
TASK = LabTask(4, SAMPLES, 20, 5, 2.0, 2.0, nonce="fixed", dealt="fused", votes="counts")


def label_share_of_s0(monkeypatch, runner_up):
    """S0's label shares for dealer seeds that are always the same, and counts shared afresh. Class 0 always wins."""
    counts = np.zeros((4, SAMPLES), np.int64)
    counts[0], counts[runner_up] = 12, 8
    halves, taken = counts_loaders(TASK, counts), []
    monkeypatch.setattr(semi_honest_servers, "reveal", lambda task, a, b: taken.append(a.labels) or reveal(task, a, b))
    labels, _ = run_job(TASK, halves, (NoNoise(), NoNoise()), seeds=Seeds.of(TASK, Seed(bytes(32)), Seed(b"1" * 32)))
    monkeypatch.undo()
    assert (labels == 0).all()
    return taken[0]


def test_the_halves_are_uniform_whatever_the_votes(monkeypatch):
    same = label_share_of_s0(monkeypatch, 2), label_share_of_s0(monkeypatch, 2)
    # Four bits at most agree by chance: one in eight for three bits.
    assert (same[0] == same[1]).mean() < 0.3
    occurrences = np.bincount(np.concatenate(same), minlength=8)
    assert occurrences.min() > 2 * SAMPLES / 8 / 2


def test_without_refreshing_the_requester_could_test_its_guess_of_the_runner_up(monkeypatch):
    def leaky(runner_up):
        monkeypatch.setattr(lab_block, "refresh", lambda _role, _common, _label, share, _ring: share)
        return label_share_of_s0(monkeypatch, runner_up)

    truth, right_guess, wrong_guess = leaky(2), leaky(2), leaky(3)
    assert (truth == right_guess).all()
    assert not (truth == wrong_guess).all()
