"""What two servers say to each other in a run has a version. Whoever changes a message finds out here.

A release that says something else must not go on with a job that an older one has begun: it would say it under the same
masks. So if this test fails, raise `PROTOCOL_VERSION` and put the new digest here; never the digest alone.
"""

import hashlib

import numpy as np
import pytest

from sedml.lab.semi_honest.gadgets.refresh import agree
from sedml.mpc.ot.extension import Extension, set_up
from sedml.lab.semi_honest.recipe import make
from sedml.lab.semi_honest.party import Party
from sedml.protocol import task as task_module
from sedml.lab.semi_honest.block import PROTOCOL_VERSION, recipes, run_block
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.labels import to_bytes
from sedml.protocol.task import Task
from sedml.protocol.votes import histogram
from support.harness import fixed_seed, split_ring
from support.made import both, taps

SAID = {
    # Since 1: the lowest bit of Delta is 1; protocol "garbled"; a challenge by SHA-256; one-hot vectors lane by lane;
    # greetings measure a delay alone, and neither they nor a job's progress tell of randomness that is made ahead.
    # Since 3: nothing is said to count votes, and the roster has the names of ballots.
    4: {
        "fused": "f6071efb7ba6dc8f5bf5a01b3bdb8f09b9de2503d78cf64fc0a2da206787abd8",
        "garbled": "abce84e287d7aa19b4df447fad43ab4e7626337c81bc70510de77a5e885b41ba",
    },
}
PROTOCOLS = pytest.mark.parametrize("protocol", ["fused", "garbled"])


@pytest.fixture(autouse=True)
def three_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_TRANSFERS", 8)


def run(protocol, keys):
    """Both servers' messages, from the set-up to the label shares of every block, and these shares.

    The keys are those of whatever they might draw from the operating system.
    """
    task = Task(10, 24, 20, 10, 4.0, 2.0, protocol, nonce="0" * 32)
    votes = np.arange(20 * 24).reshape(20, 24) // 7 % 10
    counts, links, shares = split_ring(histogram(votes, 10), task.widths.counts), taps(), {}

    def side(role, link):
        coins, noise = fixed_seed(role), DrawnNoise(task, fixed_seed(10 + role))
        common = agree(link, fixed_seed(20 + role))
        extension = Extension(set_up(role, link, coins), common.key)
        for block in task.blocks:
            made = make(role, extension, link, block.index, recipes(task, block.samples), coins)
            party = Party(role, link, made)
            share = run_block(party, task, lambda block=block: counts[role][:, block.start : block.stop], noise, common)
            shares[role, block.index] = to_bytes(task, share)

    both(side, links=links, keys=keys)
    assert len(shares) == 6
    return links, shares


@PROTOCOLS
def test_what_is_said_is_what_its_version_says(protocol):
    links, shares = run(protocol, (1, 2))
    digest = hashlib.sha256()
    for link in links:
        for (block, step), content in zip(link.steps, link.sent, strict=True):
            digest.update(f"{block}/{step}/{content.nbytes}/".encode() + content.tobytes())
    for _, share in sorted(shares.items()):
        digest.update(share)
    assert digest.hexdigest() == SAID[PROTOCOL_VERSION][protocol]


@PROTOCOLS
def test_nothing_is_drawn_but_from_the_coins(protocol):
    """Two runs with the same coins, noise and votes say the same to the bit."""
    (one, first), (other, second) = run(protocol, (1, 2)), run(protocol, (3, 4))
    assert first == second
    for mine, theirs in zip(one, other, strict=True):
        assert mine.steps == theirs.steps
        assert all(np.array_equal(*pair) for pair in zip(mine.sent, theirs.sent, strict=True))
