"""What two servers say to each other in a run has a version. Whoever changes a message finds out here.

A release that says something else must not go on with a job that an older one has begun: it would say it under the same
masks. So if this test fails, raise `PROTOCOL_VERSION` and put the new digest here; never the digest alone.
"""

import hashlib

import numpy as np
import pytest

from sedml.mpc.gadgets.refresh import agree
from sedml.mpc.ot.extension import Extension, set_up
from sedml.mpc.ot.recipe import make
from sedml.mpc.party import Party
from sedml.protocol import task as task_module
from sedml.protocol.ballots import cast, index_shares
from sedml.protocol.block import PROTOCOL_VERSION, recipes, run_block
from sedml.protocol.drawn_noise import DrawnNoise
from sedml.protocol.labels import to_bytes
from sedml.protocol.task import Task
from support.harness import fixed_seed
from support.made import both, taps

SAID = {
    # Since 1: the lowest bit of Delta is 1; protocol "garbled"; a challenge by SHA-256; one-hot vectors lane by lane;
    # greetings measure a delay alone, and neither they nor a job's progress tell of randomness that is made ahead.
    3: {
        "fused": "c23843a07acbf123b702279a84fe085b94f3dfa266f85925f0ab1747480b0339",
        "garbled": "b1bb0c086f18ab570ea12f49e0543cdd2717f805c8d2497e3b6972b184b0ed53",
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
    ballots = [cast(row.astype(np.int16), task.ballot, fixed_seed(100 + k)) for k, row in enumerate(votes)]
    links, shares = taps(), {}

    def side(role, link):
        coins, noise = fixed_seed(role), DrawnNoise(task, fixed_seed(10 + role))
        common = agree(link, fixed_seed(20 + role))
        extension = Extension(set_up(role, link, coins), common.key)
        halves = [ballot[role] for ballot in ballots]
        for block in task.blocks:
            made = make(role, extension, link, block.index, recipes(task, block.samples), coins)
            party = Party(role, link, made)
            share = run_block(party, task, lambda block=block: index_shares(role, halves, task, block), noise, common)
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
