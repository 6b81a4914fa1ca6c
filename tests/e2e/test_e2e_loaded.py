"""What `sedml vote` loads, as a process of its own against both servers: a teacher with predictions does not wait."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from support.live_servers import Live

UNNEEDED = {
    "the link between the servers": {"sedml.mpc.channel", "sedml.mpc.garbling.circuit", "sedml.mpc.ot"},
    "how jobs are made": {f"sedml.service.client.{name}" for name in ("prospects", "request", "sample_tables")},
    "kits of servers, and new ones": {
        f"sedml.service.kits.{name}" for name in ("provisioning", "renewal", "server_kit")
    },
    "data in parts": {"sedml.parts"},
    "other rooms": {"sedml.aggregation", "sedml.console", "sedml.lab", "sedml.learn", "sedml.service.server"},
    "libraries": {"matplotlib", "numpy.ma", "rich.table", "scipy", "sklearn", "sqlalchemy", "starlette", "torch"},
}
# What is registered first is called last: the command itself is at its end by then.
_SPY = """
import atexit, gc, json, sys
atexit.register(lambda: print(json.dumps([sorted(sys.modules), gc.get_freeze_count()]), file=sys.stderr))
from sedml.cli import main
main()
"""


def test_a_vote_loads_only_what_it_needs_and_leaves_it_to_the_end_of_its_process(served: Live, tmp_path: Path):
    job = served.create(30).id
    np.save(tmp_path / "predictions.npy", np.arange(30) % 3)
    kit, predictions = served.kits / "teacher-001", tmp_path / "predictions.npy"
    command = ["vote", "--kit", str(kit), "--job", job[:8], "--predictions", str(predictions)]
    done = subprocess.run([sys.executable, "-c", _SPY, *command], capture_output=True, text=True, check=True)
    assert "counts." in done.stdout
    modules, kept = json.loads(done.stderr.splitlines()[-1])
    assert "sedml.service.client.teacher" in modules
    assert {what: found for what, names in UNNEEDED.items() if (found := names.intersection(modules))} == {}
    assert kept > len(modules)
