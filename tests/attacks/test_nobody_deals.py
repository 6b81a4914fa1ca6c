"""A dealer could choose masks that give votes away, or use them for two jobs. There is none: nobody else has a say."""

import random

import numpy as np

from sedml.service.server.http import App
from support.deployment import closed_job


def test_the_servers_take_terms_public_data_and_ballots_and_nothing_else_about_a_job(deployed):
    sent = {
        f"{route.method} {route.path}"
        for route in App(deployed.nodes[0]).routes
        if route.method != "GET" and "/jobs" in route.path
    }
    job = "/v1/jobs/{job}"
    assert sent == {f"PUT {job}", f"PUT {job}/data", f"PUT {job}/ballot", f"POST {job}/close", f"DELETE {job}"}


def test_two_jobs_about_the_same_votes_have_no_mask_in_common(deployed):
    votes = np.array([random.Random(1).randrange(3) for _ in range(64)], np.int16)
    for _ in range(2):
        terms = closed_job(deployed, {f"teacher-{number}": votes for number in range(4)})  # the same but for the nonce
        assert deployed.meet(terms.id) == ["done", "done"]
    assert len({task for _, task, _, step in deployed.sent if step == "block/masked"}) == 2
    deployed.link.check()
