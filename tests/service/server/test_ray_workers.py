"""Blocks of a job on a real Ray cluster of two nodes, on this machine; and what a server does without."""

import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from sedml.errors import ChannelError, InputError, MissingExtraError, PeerIdentityError, WorkerGoneError
from sedml.mpc.certificates import throwaway_credentials
from sedml.mpc.channel import dial
from sedml.protocol import task as task_module
from sedml.service.server.live.worker_connections import opening_of
from sedml.service.server.run import blocks, blocks_on_workers, pacing, ray_workers
from sedml.service.server.run.ray_process import work_on_node
from sedml.service.server.run.ray_workers import RayWorkers, open_workers
from sedml.service.server.run.worker_pool import LocalWorkers
from support.driven import CountedVote, driven, linked
from support.open_base_ots import open_base_ots
from support.ray_cluster import ray_cluster
from support.server_process import until
from support.tiers import thorough

BLOCKS = 8
needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed (the extra `ray`)")
pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(task_module, "_BLOCK_ANDS", 8)
    monkeypatch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)
    monkeypatch.setattr(pacing, "_ENOUGH", 0.0)


@pytest.fixture
def cluster():
    folder = tempfile.mkdtemp(prefix="ray-")  # the names of Ray's sockets must not be long
    try:
        with ray_cluster(Path(folder)) as running:
            yield running
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def errands(monkeypatch):
    """All that workers were given."""
    given, make = [], blocks_on_workers.Assignment

    def noted(*fields):
        given.append(make(*fields))
        return given[-1]

    monkeypatch.setattr(blocks_on_workers, "Assignment", noted)
    return given


def secrets_of(assignment):
    pem = b"".join(assignment.credentials.key.splitlines()[1:-1])
    return [assignment.counts.tobytes(), pem]


@thorough
@needs_ray
def test_tasks_find_the_labels_though_a_node_is_killed(tmp_path, cluster, errands, monkeypatch):
    save, attend = blocks.save, blocks_on_workers._attend
    saved, killed, lock, local = [], [], threading.Lock(), threading.local()

    def attended(run, worker, attempt):
        local.on_second = cluster.on_second_node(worker.wire._stream.getpeername()[1])
        return attend(run, worker, attempt)

    def counted(node, record, attempt, *rest):
        save(node, record, attempt, *rest)
        with lock:
            saved.append(attempt)
            # After about two blocks of eight: this worker waits for a word of its server.
            if len(saved) >= 4 and not killed and local.on_second:
                killed.append(attempt)
                cluster.kill_second_node()

    monkeypatch.setattr(blocks_on_workers, "_attend", attended)
    monkeypatch.setattr(blocks, "save", counted)
    with linked(tmp_path, compute=cluster.address) as deployed:
        vote = CountedVote(deployed, 8 * BLOCKS)
        with driven(deployed) as runners:
            until(lambda: all(runner._pool.size(1) == 2 for runner in runners), "Ray answers")
            vote.close()
            vote.finish()
    assert killed
    assert len(errands) >= 2 * BLOCKS  # more if the other server had not saved that block yet
    # Nothing that a worker was given went through Ray: not in its logs, its spilled objects, its state.
    left = [path.read_bytes() for path in cluster.folder.rglob("*") if path.is_file()]
    assert sum(b"work_on_node" in content for content in left) > 0  # they do tell of the tasks
    for secret in {one for assignment in errands for one in secrets_of(assignment)}:
        assert not any(form in content for content in left for form in (secret, secret.hex().encode()))


class Threads(RayWorkers):
    """The same without Ray: what a task would do is done by a thread of this process."""

    def _running(self):
        return True

    def _tell(self, **order):
        if "hire" in order:
            where = (order["host"], order["port"]), bytes.fromhex(order["opening"])
            self.orders = [*getattr(self, "orders", []), order]
            threading.Thread(target=self._work, args=(order["kit"], *where), daemon=True).start()
        if "size" in order:
            self._sizes.append(2)
        return True

    def _work(self, *where):
        with suppress(ChannelError):  # its server may be gone
            work_on_node(*where)


@pytest.fixture
def threads(monkeypatch):
    made = []
    monkeypatch.setattr(
        ray_workers, "open_workers", lambda node: made.append(Threads(node, "ray://nowhere:1")) or made[-1]
    )
    monkeypatch.setattr("sedml.service.server.run.runner.open_workers", ray_workers.open_workers)
    return made


def test_workers_call_back_and_are_joined(tmp_path, threads, errands):
    with linked(tmp_path) as deployed:
        vote = CountedVote(deployed, 8 * BLOCKS)
        vote.close()
        with driven(deployed):
            vote.finish()
    assert len(errands) == 2 * BLOCKS
    for pool in threads:
        assert all(set(order) == {"hire", "kit", "host", "port", "opening"} for order in pool.orders)
        assert pool._fetching == {}
        assert pool._coming == {}


def test_a_worker_that_hangs_up_is_replaced(tmp_path, threads, errands, monkeypatch):
    attend, hung_up = blocks_on_workers._attend, []

    def attended(run, worker, attempt):
        if (attempt.block.index, run.node.role) in ((2, 0), (5, 1)) and attempt.number == 1:
            hung_up.append(attempt)
            worker.end()
        return attend(run, worker, attempt)

    monkeypatch.setattr(blocks_on_workers, "_attend", attended)
    with linked(tmp_path) as deployed:
        vote = CountedVote(deployed, 8 * BLOCKS)
        vote.close()
        with driven(deployed):
            vote.finish()
    assert len(hung_up) == 2


def test_a_stranger_is_no_worker(tmp_path, threads):
    with linked(tmp_path) as deployed, driven(deployed):
        pool, own = threads[0], deployed.nodes[0].credentials
        address = pool._listener.getsockname()
        with pytest.raises(ChannelError):  # no opening
            dial(address, own, "s0", 5.0)
        with pytest.raises(PeerIdentityError):  # the other operator's certificate
            dial(address, deployed.nodes[1].credentials, "s0", 5.0, opening_of(pool._key, 900, 0))
        with pytest.raises(ChannelError):  # nobody's
            dial(address, throwaway_credentials()[0], "s0", 5.0, opening_of(pool._key, 901, 0))
        with pytest.raises(ChannelError):  # made up
            dial(address, own, "s0", 5.0, opening_of(bytes(32), 902, 0))
        # With all of that, but nobody was sent for: it is sent away.
        with dial(address, own, "s0", 5.0, opening_of(pool._key, 903, 0)) as stream:
            assert stream.recv(1) == b""
        with socket.create_connection(address, 5.0) as plain:  # nothing is there to fetch
            plain.sendall(opening_of(pool._key, 904, 1))
            assert plain.recv(1) == b""


@thorough
def test_without_its_cluster_a_server_works_alone(tmp_path, errands):
    with linked(tmp_path, compute="ray://127.0.0.1:1") as deployed, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_workers, "require_libraries", lambda *_: None)  # whether or not it is installed
        patch.setattr(ray_workers, "_ANSWER", 0.01)
        vote = CountedVote(deployed, 8 * BLOCKS)
        vote.close()
        with driven(deployed) as runners:
            vote.finish()
            with runners[0]._pool._lock:
                runners[0]._pool._not_before = float("inf")
                runners[0]._pool._process.kill()
            until(lambda: runners[0]._pool._process.poll() is not None, "it is gone")
            with pytest.raises(WorkerGoneError):
                runners[0]._pool.hire(lambda: False)
    assert errands == []


def test_whoever_wants_ray_needs_it(tmp_path, monkeypatch):
    monkeypatch.setattr("sedml.extras._is_installed", lambda _: False)
    missing = pytest.raises(MissingExtraError, match=r"sedml-pate\[ray\]")
    with linked(tmp_path, compute="ray://127.0.0.1:1") as deployed, missing:
        open_workers(deployed.nodes[0])


@thorough
def test_auto_is_local_where_no_cluster_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with linked(tmp_path, compute="auto") as deployed:
        assert isinstance(open_workers(deployed.nodes[0]), LocalWorkers)
        monkeypatch.setattr(ray_workers, "_is_installed", lambda: True)
        assert isinstance(open_workers(deployed.nodes[0]), LocalWorkers)
        # A mark of a cluster that is gone.
        monkeypatch.setattr(ray_workers, "require_libraries", lambda *_: None)
        monkeypatch.setattr(RayWorkers, "size", lambda *_: 0)
        (tmp_path / "ray").mkdir()
        (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
        assert isinstance(open_workers(deployed.nodes[0]), LocalWorkers)


@pytest.mark.parametrize("place", ["ray", "ray://", "ray://head", "ray://head:port", "here", "", "ray://a b:1", 3])
def test_a_place_that_is_none_is_refused(tmp_path, place):
    with pytest.raises(InputError, match="compute"), linked(tmp_path, compute=place):
        pass
