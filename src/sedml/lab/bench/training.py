"""Training all teachers at once against one after another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from sedml import Progress, silent
from sedml.errors import InputError, explain_missing
from sedml.learn.cluster import Cluster
from sedml.learn.datasets import load_dataset

__all__ = ["TeachersReport", "bench_teachers"]


@dataclass(frozen=True)
class TeachersReport:
    """Times of the whole ensemble; `one_by_one_seconds` is scaled from `compared` networks."""

    teachers: int
    samples: int
    steps: int
    network: str
    device: str
    compared: int
    batched_seconds: float
    one_by_one_seconds: float
    same_votes: float
    plurality_accuracy: float
    cluster_seconds: float | None = None
    """Of the same networks as tasks of a Ray cluster, if one was given."""
    cluster_same: bool | None = None
    """Whether they came out the same to the last bit."""

    @property
    def speedup(self) -> float:
        """How many times faster all at once is."""
        return self.one_by_one_seconds / self.batched_seconds


def bench_teachers(
    dataset: str,
    data_dir: Path | None,
    *,
    teachers: int,
    samples: int,
    steps: int,
    compare: int,
    network: str,
    progress: Progress = silent,
    cluster: Cluster | None = None,
) -> TeachersReport:
    """Train the same networks on the same data both ways, `compare` of them one after another; and on a cluster."""
    with explain_missing():
        import torch

        from sedml.learn.ensemble import EnsembleConfig, predict, train_ensemble, train_one_by_one
        from sedml.learn.networks import choose_device

    data = load_dataset(dataset, data_dir)
    if not data.is_images or teachers * samples > len(data.train_labels) or min(teachers, samples, compare) < 1:
        raise InputError(
            f"{dataset} does not have {samples} images for each of {teachers} teachers.",
            f"It has {len(data.train_labels):,} training samples; ask for at most that many images in all.",
        )
    order = np.random.default_rng(0).permutation(len(data.train_labels))[: teachers * samples]
    shards = list(order.reshape(teachers, samples))
    images = np.ascontiguousarray(data.train_images.transpose(0, 3, 1, 2))
    tests = np.ascontiguousarray(data.test_images.transpose(0, 3, 1, 2))
    config = EnsembleConfig(network=network, steps=steps)
    compared = min(compare, teachers)
    progress("one after another", 0, 3)
    start = perf_counter()
    single = train_one_by_one(
        images, data.train_labels, classes=data.classes, shards=shards, config=config, teachers=compared
    )
    one_by_one = (perf_counter() - start) * teachers / compared
    progress("all at once", 1, 3)
    start = perf_counter()
    together = train_ensemble(images, data.train_labels, classes=data.classes, shards=shards, config=config)
    batched = perf_counter() - start
    spread = same = None
    if cluster is not None:
        progress("on the cluster", 1, 3)
        start = perf_counter()
        far = train_ensemble(
            images, data.train_labels, classes=data.classes, shards=shards, config=config, cluster=cluster
        )
        spread = perf_counter() - start
        same = all(torch.equal(value.cpu(), far.parameters[name]) for name, value in together.parameters.items())
    progress("voting", 2, 3)
    votes = predict(together, tests)
    counts = np.stack([(votes == i).sum(axis=0) for i in range(data.classes)])
    return TeachersReport(
        teachers=teachers,
        samples=samples,
        steps=steps,
        network=network,
        device=str(choose_device("auto")),
        compared=compared,
        batched_seconds=batched,
        one_by_one_seconds=one_by_one,
        same_votes=float((predict(single, tests) == votes[:compared]).mean()),
        plurality_accuracy=float((counts.argmax(axis=0) == data.test_labels).mean()),
        cluster_seconds=spread,
        cluster_same=same,
    )
