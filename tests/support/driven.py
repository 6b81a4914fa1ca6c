"""Two servers of a deployment that drive their jobs themselves, over a real link, with workers of their own.

Neither they nor their workers add noise, so that a test knows which labels are right.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np

from sedml.service.server.jobs import lifecycle
from sedml.service.server.jobs.records import get
from sedml.service.server.run import block_work
from sedml.service.server.run.runner import Runner
from sedml.service.states import JobState
from support.deployment import (
    REQUESTER,
    WITHOUT_NOISE,
    Deployment,
    deployment,
    fetch_labels,
    labels_without_noise,
    make_ballot,
    publish,
    terms_for,
)
from support.server_process import free_ports, until


@contextmanager
def linked(folder: Path, **settings: object) -> Iterator[Deployment]:
    """Both servers, on a free port of the loopback; nobody drives them yet."""
    [port] = free_ports(1)
    values = {"keep_inputs": "1d", "link_host": "127.0.0.1", "link_port": port, "compute_workers": 2, **settings}
    path = os.pathsep.join([str(WITHOUT_NOISE), *sys.path])
    quiet = patch.object(block_work, "draw_noise", lambda task, samples: np.zeros((task.classes, samples), np.int64))
    made = deployment(folder, **values)
    try:
        with quiet, patch.dict(os.environ, PYTHONPATH=path):
            yield made
    finally:
        made.close()


@contextmanager
def driven(deployed: Deployment) -> Iterator[list[Runner]]:
    """Both go on with their jobs until the block ends."""
    with ExitStack() as stack:
        runners = [Runner(node) for node in deployed.nodes]
        for runner in runners:
            stack.callback(runner.stop)
            runner.start()
        yield runners


class CountedVote:
    """A job that is ready to run, and all that is true of it in the end."""

    def __init__(self, deployed: Deployment, samples: int, teachers: int = 4) -> None:
        self.deployed, rng = deployed, random.Random(5)
        self.terms = terms_for(samples)
        drawn = np.random.default_rng(5).integers(-1, self.terms.classes, (teachers, samples))
        self.votes = drawn.astype(np.int16)
        for node in deployed.nodes:
            publish(node, self.terms)
        for number, row in enumerate(self.votes):
            ballot = make_ballot(f"teacher-{number}", row, self.terms, rng)
            for node in deployed.nodes:
                ballot.send(node, self.terms.id)

    def close(self) -> None:
        """End the vote."""
        for node in self.deployed.nodes:
            lifecycle.close(node, REQUESTER, self.terms.id)

    def records(self) -> list:
        found = []
        for node in self.deployed.nodes:
            with node.store.read() as connection:
                found.append(get(connection, self.terms.id))
        return found

    def states(self) -> list[JobState]:
        return [record.state for record in self.records()]

    def finish(self) -> None:
        """Wait until both have it, and check the labels."""
        until(lambda: self.states() == [JobState.DONE] * 2, "the job is done")
        task = self.records()[0].task
        labels = fetch_labels(self.deployed, self.terms.id, task)
        np.testing.assert_array_equal(labels, labels_without_noise(task, self.votes))
