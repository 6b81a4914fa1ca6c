"""Somebody watches the network and cannot decrypt it: sizes must not tell how many samples have a label.

Three jobs of one shape, in which none, half and all of 200 samples have one. The watcher has what TLS shows of every
answer that a server gives about them, to anybody, and of every message between the servers: its length. (Label shares
once had a bit a sample and the labels of those that passed: 25, 75 and 125 bytes.)
"""

from __future__ import annotations

import json

import numpy as np

from sedml.service.server.access import Caller
from sedml.service.server.http.app import App
from sedml.service.server.run import block_work
from sedml.service.terms import task_of
from support.deployment import Deployment, closed_job, deployment, fetch_labels, status
from support.http_drive import ask_raw
from support.open_base_ots import open_base_ots

SAMPLES = 200
CALLERS = [Caller("requester-1", "requester"), Caller("teacher-0", "teacher"), Caller("operator-s0", "operator")]
OF_A_JOB = ["", "/labels/0", "/labels/1", "/data", "/ballot"]
OTHERS = ["/v1/jobs", "/v1/budget", "/v1/budget/own", "/v1/server", "/v1/log", "/v1/accounts", "/metrics", "/readyz"]


def votes_for(answered: int) -> dict[str, np.ndarray]:
    """Of three teachers: the same on so many samples, three different ones on the others."""
    alike = np.arange(SAMPLES) < answered
    return {f"teacher-{number}": np.where(alike, 1, number) for number in range(3)}


def answers(made: Deployment, job: str, role: int, patch) -> dict[tuple[str, str], int]:
    """Sizes of what a server answers, head and body, by who asked for what."""
    app, sizes = App(made.nodes[role]), {}
    for caller in CALLERS:
        patch.setattr(
            "sedml.service.server.ops.accounts.authenticate_all", lambda _, shown, caller=caller: [caller] * len(shown)
        )
        for path in [*(f"/v1/jobs/{job}{end}" for end in OF_A_JOB), *OTHERS]:
            answer = ask_raw(app, "GET", path, {"Authorization": "Bearer sedml_x"})
            size = sum(len(name) + len(value) for name, value in answer.headers.items() if name != "content-length")
            sizes[caller.name, path.replace(job, "JOB")] = size + len(
                _timeless(answer.headers.get("content-type", ""), answer.body)
            )
    return sizes


def _timeless(kind: str, body: bytes) -> bytes:
    """Without how long something took, and the figures of machine and process: as long as they happen to be."""
    if body.startswith(b"# HELP"):
        kept = [line for line in body.splitlines() if b"sedml_jobs" in line or b"sedml_b" in line]
        return b"\n".join(kept)
    if "json" not in kind:
        return body

    def without(found: object) -> object:
        if isinstance(found, dict):
            names = [name for name in found if not name.endswith(("seconds", "_bytes"))]
            return {name: without(found[name]) for name in names}
        return [without(one) for one in found] if isinstance(found, list) else found

    return json.dumps(without(json.loads(body))).encode()


def test_whatever_was_answered_all_sizes_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("sedml.mpc.ot.fresh_deltas.base_ots", open_base_ots)
    nothing = np.zeros((3, SAMPLES), np.int64)
    monkeypatch.setattr(block_work, "draw_noise", lambda _, samples: nothing[:, :samples])
    watched = []
    for answered in (0, SAMPLES // 2, SAMPLES):
        made = deployment(tmp_path / str(answered))
        terms = closed_job(made, votes_for(answered), threshold="3", min_teachers=3)
        assert made.meet(terms.id) == ["done", "done"]
        roster = status(made, 0, terms.id).roster
        labels = fetch_labels(made, terms.id, task_of(terms, roster.teachers, roster.digest))
        assert np.count_nonzero(labels >= 0) == answered
        link = {
            (role, block, step): [len(content) for content in contents.values()]
            for (role, _, block, step), contents in made.sent.items()
        }
        watched.append([link, *(answers(made, terms.id, role, monkeypatch) for role in (0, 1))])
        made.close()
    for one in watched[1:]:
        for now, before in zip(one, watched[0], strict=True):
            assert now == before
    assert watched[0][1]["requester-1", "/v1/jobs/JOB/labels/0"] > 8 * SAMPLES, "there is a share in it"
