"""One measured job: synthetic votes, shared and dealt as for real, and the labels that `ideal` expects.

A `Job` is a folder on disk, so that the two server processes read only their own half: shares or ballots,
a seed, S1's corrections block by block, and the seed of the server's own noise, which the benchmark chooses
because it must know the noise to check every label.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from sedml.lab.bench.workload import random_counts, random_votes
from sedml.lab.paper.correlations import Correlations
from sedml.lab.paper.dealing import Seeds, deal_block, dealt_correlations
from sedml.lab.paper.lab_run import ballot_loaders
from sedml.lab.paper.lab_task import LabTask
from sedml.lab.paper.lone_noise import lab_noise
from sedml.lab.paper.onehot_ballots import cast_onehot
from sedml.lab.semi_honest.check_and_label_noise import Noise
from sedml.lab.semi_honest.semi_honest_servers import Loader
from sedml.lab.semi_honest.two_noise_ideal import ideal_labels
from sedml.mpc.prg import Seed
from sedml.mpc.sharing import share
from sedml.protocol.task import Block
from sedml.protocol.votes import histogram

__all__ = ["Dealing", "Half", "deal_to", "expected_labels", "make_votes", "write_half"]


@dataclass(frozen=True)
class Dealing:
    """What dealing a job took: seconds, and bytes to both servers."""

    seconds: float
    bytes: int


@dataclass(frozen=True)
class Half:
    """What one server of a job is given, read from its folder."""

    task: LabTask
    role: int
    folder: Path

    @classmethod
    def read(cls, folder: Path, role: int) -> Half:
        """The terms and the folder that belong to S0 or S1."""
        terms = json.loads((folder / "task.json").read_text())
        return cls(LabTask(**terms), role, folder / f"s{role}")

    @property
    def noise(self) -> Noise:
        """This server's own noise."""
        return lab_noise(self.task, self.role, Seed((self.folder / "noise.seed").read_bytes()))

    def correlations(self, block: Block) -> Correlations:
        """This server's one-use randomness for a block."""
        seed = Seed((self.folder / "seed").read_bytes())
        corrections = None
        if self.role == 1:
            corrections = np.fromfile(self.folder / f"corrections-{block.index}", np.uint8)
        return dealt_correlations(self.task, block, seed, corrections)

    @property
    def loader(self) -> Loader:
        """How this server reads its shares."""
        # Plain bytes: the header of an .npy file is parsed as Python, which two threads of 3.11 must not do at once.
        if self.task.votes == "counts":
            layout = self.task.counts_layout
            shares = np.memmap(self.folder / "counts", layout.ring.dtype, "r", shape=layout.shape)
            return lambda block: np.asarray(shares[:, block.start : block.stop])
        rows = np.memmap(self.folder / "ballots", np.uint8, "r").reshape(self.task.teachers, -1)
        return ballot_loaders(self.task, [(row.tobytes(), row.tobytes()) for row in rows])[self.role]


def make_votes(task: LabTask, seed: int) -> tuple[npt.NDArray[np.int16] | None, npt.NDArray[np.integer]]:
    """Single votes int[K, Q], or None where the job starts from counts, and the counts int[N, Q]."""
    if task.votes == "counts":
        return None, random_counts(task.samples, task.classes, task.teachers, seed)
    votes = random_votes(task.samples, task.classes, task.teachers, seed)
    return votes, histogram(votes, task.classes)


def write_half(
    folder: Path, task: LabTask, votes: npt.NDArray[np.int16] | None, counts: npt.NDArray[np.integer]
) -> None:
    """Share the votes, or the counts, and put each server's share into its folder."""
    folder.mkdir(mode=0o700)
    (folder / "task.json").write_text(json.dumps(asdict(task)))
    for role in (0, 1):
        (folder / f"s{role}").mkdir()
        (folder / f"s{role}" / "noise.seed").write_bytes(Seed.random().key)
    if votes is None:
        shares = share(task.counts_layout, counts, Seed.random(), "counts")
        for role in (0, 1):
            shares[role].tofile(folder / f"s{role}" / "counts")
        return
    ballots = [cast_onehot(row, task) for row in votes]
    for role in (0, 1):
        rows = np.stack([np.frombuffer(ballot[role], np.uint8) for ballot in ballots])
        rows.tofile(folder / f"s{role}" / "ballots")


def deal_to(folder: Path, task: LabTask) -> Dealing:
    """Deal every block of a job into the servers' folders; nothing where they make their own randomness."""
    if task.dealt is None:
        return Dealing(0.0, 0)
    seeds = Seeds.of(task)
    for role, seed in enumerate((seeds.s0, seeds.s1)):
        (folder / f"s{role}" / "seed").write_bytes(seed.key)
    seconds, size = 0.0, len(seeds.s0.key) + len(seeds.s1.key)
    for block in task.blocks:
        start = perf_counter()
        corrections = deal_block(task, block, seeds)
        seconds += perf_counter() - start
        size += corrections.size
        corrections.tofile(folder / "s1" / f"corrections-{block.index}")
    return Dealing(seconds, size)


def expected_labels(folder: Path, task: LabTask, counts: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """What the ideal functionality answers for the noise that the two servers draw."""
    return ideal_labels(task, counts, (Half.read(folder, 0).noise, Half.read(folder, 1).noise))
