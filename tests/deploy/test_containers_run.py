"""A whole job between two containers of the image, as confined as the compose files have it: servers and all clients.

The image is not built here, for that takes a network: `deploy/container/base.sh` and the Containerfile's first lines
say how. It is tried where podman may start containers and the image is there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sedml.service.kits import provision
from support.server_process import WITHIN, until
from support.tiers import thorough

IMAGE = "localhost/sedml-server"
USER = 10001
SAMPLES, CLASSES, TEACHERS = 20, 3, 3
CONFINED = [
    "--read-only", "--tmpfs=/tmp:size=64m,mode=1777", "--cap-drop=ALL", "--security-opt=no-new-privileges",
    # No more than a process of this machine may have, which may be less than podman's own default.
    "--ulimit=nofile=4096:4096", "--ulimit=nproc=1000:1000", "--ulimit=core=0",
]  # fmt: skip


def podman(*words: object) -> str:
    done = subprocess.run(["podman", *map(str, words)], capture_output=True, text=True, check=False, timeout=WITHIN)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Containers:
    """Both servers, each with a volume of its own, on a network where their names in the kits are theirs."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self.runtime = ["--runtime", "runc"] if shutil.which("runc") else []

    def server(self, which: str, *settings: str) -> None:
        variables = [word for setting in settings for word in ("--env", setting)]
        places = ["-v", f"{self.folder}/kits/{which}:/kit", "-v", f"{self.name}-{which}:/data"]
        known = ["--name", f"{self.name}-{which}", "--network-alias", f"{which}.example"]
        podman(*self.runtime, "run", "-d", *CONFINED, "--network", self.name, *known, *variables, *places, IMAGE)

    def healthy(self, which: str) -> bool:
        asked = ["podman", "healthcheck", "run", f"{self.name}-{which}"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0

    def sedml(self, *words: object) -> str:
        """A client, in a container that ends with it."""
        places = ["-v", f"{self.folder}/kits:/kits", "-v", f"{self.folder}/work:/work", "-w", "/work"]
        once = ["run", "--rm", "--no-healthcheck", *CONFINED, "--network", self.name, *places, IMAGE]
        return podman(*self.runtime, *once, *words)

    def close(self) -> None:
        names = [f"{self.name}-{which}" for which in ("s0", "s1")]
        for words in (["rm", "-f", *names], ["volume", "rm", *names], ["network", "rm", self.name]):
            subprocess.run(["podman", *words], capture_output=True, check=False)


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Containers]:
    if shutil.which("podman") is None or os.getuid():
        pytest.skip("podman is not installed, or this is not root")
    if subprocess.run(["podman", "image", "exists", IMAGE], check=False).returncode:
        pytest.skip(f"{IMAGE} was not built")
    provision(tmp_path / "kits", ("s0.example:8440", "s1.example:8441"), "s0.example:8540", TEACHERS, 1)
    (tmp_path / "work").mkdir()
    np.save(tmp_path / "work" / "public.npy", np.random.default_rng(1).random((SAMPLES, 4), np.float32))
    np.save(tmp_path / "work" / "votes.npy", np.arange(SAMPLES) % CLASSES)
    made = Containers(tmp_path, f"sedml-test-{os.getpid()}")
    for path in (tmp_path, *tmp_path.rglob("*")):
        os.chown(path, USER, USER)
    try:
        podman("network", "create", made.name)
        made.server("s0", "SEDML_SERVER__LINK_HOST=0.0.0.0")
        made.server("s1")
        for which in ("s0", "s1"):
            until(lambda which=which: made.healthy(which), f"the health check of {which} is content", 0.5)
        yield made
    finally:
        made.close()


@thorough
def test_a_whole_job_between_two_containers(containers: Containers):
    found = json.loads(containers.sedml("doctor", "--kit", "/kits/teacher-001", "--json"))
    servers = {check["what"]: check["found"] for check in found["checks"]}["servers"]
    assert re.search(r"both say they run release \S+, [0-9a-f]{64}", servers)
    asked = ["--classes", CLASSES, "--threshold", "0.5", "--epsilon", "9", "--delta", "1e-5"]
    who = ["--min-teachers", TEACHERS, "--deadline", "1h", "--kit", "/kits/requester-1", "--json"]
    job = json.loads(containers.sedml("job", "create", "--data", "public.npy", *asked, *who))["id"]
    for number in range(1, TEACHERS + 1):
        kit = f"/kits/teacher-{number:03}"
        containers.sedml("vote", "--kit", kit, "--job", job, "--predictions", "votes.npy")
    containers.sedml("job", "run", job, "--kit", "/kits/requester-1", "--out", "labels.npy")
    labels = np.load(containers.folder / "work" / "labels.npy")
    assert labels.shape == (SAMPLES,)
    assert set(labels) <= set(range(-1, CLASSES))
    for which in ("s0", "s1"):
        podman("stop", "--time", "45", f"{containers.name}-{which}")
        state = json.loads(podman("inspect", f"{containers.name}-{which}"))[0]["State"]
        assert state["ExitCode"] == 0, "told to stop, it ends in order"
