"""Training on a real Ray cluster of two nodes on this machine: the same models to the last bit, whatever is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

ray = pytest.importorskip("ray", reason="needs the optional extra ray")
torch = pytest.importorskip("torch", reason="needs the optional extra torch")

from typer.testing import CliRunner

from sedml.cli import app
from sedml.errors import InputError
from sedml.learn.cluster import Cluster, connected
from sedml.learn.datasets import load_dataset
from sedml.learn.ensemble import EnsembleConfig, train_ensemble
from sedml.learn.splits import split_teachers
from sedml.learn.teachers import train_teachers

# Ray leaves sockets and logs open when it is done.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)

QUICK = EnsembleConfig(steps=4, batch=32)
TEACHERS = 40  # in pieces of 16, 16 and 8 where images have 8 x 8 pixels


@pytest.fixture(scope="module")
def address():
    """A head and a second node, on this machine; both are gone afterwards."""
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes()
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=1, num_gpus=0, object_store_memory=80 << 20, include_dashboard=False)
        yield nodes.address
    finally:
        nodes.shutdown()


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture(scope="module")
def data(digits):
    shards = np.arange(TEACHERS * 25).reshape(TEACHERS, 25)
    return {
        "images": np.ascontiguousarray(digits.train_images.transpose(0, 3, 1, 2)),
        "labels": digits.train_labels,
        "classes": 10,
        "shards": list(shards),
        "config": QUICK,
        "device": "cpu",
    }


@pytest.fixture(scope="module")
def here(data):
    return train_ensemble(**data)


def same(one, other):
    return all(torch.equal(value, other.parameters[name]) for name, value in one.parameters.items())


def _stop(*_):
    raise KeyboardInterrupt


class TestTraining:
    """On one connection, so that Ray's workers load what they need once."""

    @pytest.fixture(scope="class")
    def cluster(self, address):
        with connected("auto") as found:  # which is the one that runs here
            yield found
        assert not ray.is_initialized()

    def test_networks_of_a_cluster_are_those_of_one_process(self, cluster, data, here):
        seen = []
        assert (cluster.cpus, cluster.gpus, cluster.largest) == (2, 0, 1)
        far = train_ensemble(**data, cluster=cluster, progress=lambda _, *at: seen.append(at))
        assert same(far, here)
        assert seen[-1] == (TEACHERS, TEACHERS)

    def test_what_is_done_is_not_done_again(self, cluster, data, here, tmp_path):
        path, seen = tmp_path / "teachers.pt", []
        with pytest.raises(KeyboardInterrupt):
            train_ensemble(**data, cluster=cluster, checkpoint_path=path, progress=_stop)
        [kept] = tmp_path.iterdir()
        start, stop = map(int, kept.name.removeprefix("teachers.pt.").split("-"))
        far = train_ensemble(
            **data, cluster=cluster, checkpoint_path=path, progress=lambda _, done, __: seen.append(done)
        )
        assert same(far, here)
        assert seen[0] > stop - start  # it was there from the beginning
        assert seen[-1] == TEACHERS
        assert not list(tmp_path.iterdir())

    def test_parts_of_another_training_are_refused(self, cluster, data, tmp_path):
        path = tmp_path / "teachers.pt"
        with pytest.raises(KeyboardInterrupt):
            train_ensemble(**data, cluster=cluster, checkpoint_path=path, progress=_stop)
        with pytest.raises(InputError, match="another seed"):
            train_ensemble(**data, seed=5, cluster=cluster, checkpoint_path=path)
        for part in tmp_path.iterdir():
            part.rename(path)
        with pytest.raises(InputError, match="begun without a cluster"):
            train_ensemble(**data, cluster=cluster, checkpoint_path=path)

    def test_a_worker_that_is_killed_costs_a_second_try(self, cluster, tmp_path):
        def die_once(folder: Path, number: int) -> int:  # in here, so that it goes to the workers as it is
            try:
                (folder / str(number)).touch(exist_ok=False)
            except FileExistsError:
                return number * number
            os.kill(os.getpid(), signal.SIGKILL)
            return -1

        found = dict(cluster.run(die_once, (tmp_path,), [(n,) for n in range(3)]))
        assert found == {0: 0, 1: 1, 2: 4}

    def test_estimators_of_a_cluster_are_those_of_one_process(self, cluster, digits):
        parts = split_teachers(digits.train_labels, 12, "even", classes=10)
        both = []
        arguments = "sklearn.tree.DecisionTreeClassifier", digits.train_images, digits.train_labels, parts
        for where in (None, cluster):
            trained = train_teachers(*arguments, seed=3, cluster=where)
            both.append(np.stack([one.predict(digits.test_images) for one in trained]))
        with pytest.raises(InputError, match=r"Teacher \d+ could not be trained"):
            train_teachers("sklearn.svm.SVC", *arguments[1:], params={"C": -1.0}, cluster=cluster)
        assert np.array_equal(*both)

    def test_students_of_a_cluster_are_those_of_one_process(self, cluster, data_dir):
        if not (data_dir / "mnist").is_dir():
            pytest.skip("no MNIST files")
        from sedml.lab.reproduce.students import LabelFile, train_label_files

        labels = np.full(60, -1)
        labels[:20] = np.arange(20) % 10
        files = [LabelFile("some", {"plain": labels, "secure": np.roll(labels, 3)}, {})]
        both = [
            train_label_files(files, data_dir, steps=2, seeds=2, device="cpu", cluster=one) for one in (None, cluster)
        ]
        assert both[0] == both[1]
        assert len(both[0]) == 4


def test_the_commands_take_a_cluster(address, tmp_path):
    (tmp_path / "some.toml").write_text(
        'teachers = 24\nteacher = "cnn:small"\nteacher_params = { steps = 3 }\n'
        "queries = 30\nthreshold = 0.2\nsigma1 = 1.0\nsigma2 = 1.0\n"
    )
    accuracies = []
    for more in ([], ["--ray", address]):
        out = str(tmp_path / f"out{len(accuracies)}")
        result = CliRunner().invoke(app, ["run", str(tmp_path / "some.toml"), "--out", out, "--json", *more])
        assert result.exit_code == 0, result.output
        accuracies.append(json.loads(result.stdout)["accuracies"])
    for name in ("a teacher alone, mean", "a teacher alone, best", "plurality of all votes, no privacy"):
        assert accuracies[0][name] == accuracies[1][name]


def test_a_cluster_of_this_machine_lasts_as_long_as_it_is_needed(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("sedml.learn.cluster._answers", lambda _: False)  # nor does the one of the other tests
    with connected("auto") as cluster:
        assert len(ray.nodes()) == 1
        started = [one.process.pid for many in ray._private.worker._global_node.all_processes.values() for one in many]
        assert dict(cluster.run(lambda one, other: divmod(one, other), (7,), [(2,), (3,)])) == {0: (3, 1), 1: (2, 1)}
    assert started
    assert not any(Path(f"/proc/{one}").exists() for one in started)


@pytest.mark.parametrize("where", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense", "127.0.0.1:99999"])
def test_no_cluster_no_training(where):
    with pytest.raises(InputError, match=f"No Ray cluster answers at {where} "), connected(where):
        pass


@pytest.mark.parametrize(
    ("cluster", "threads", "on_gpu", "places"),
    [
        (Cluster(64, 0, 16), 1, False, 64),
        (Cluster(64, 0, 16), 4, False, 16),
        (Cluster(64, 0, 16), 32, False, 4),
        (Cluster(64, 2, 16), 32, True, 8),
        (Cluster(1, 0, 1), 2, False, 1),
    ],
)
def test_places(cluster, threads, on_gpu, places):
    assert cluster.places(threads, on_gpu=on_gpu) == places
