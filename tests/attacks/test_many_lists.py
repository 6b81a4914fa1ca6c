"""One teacher asks for the list of 100 jobs in 16 loops, as fast as it can: it uses its share of a processor, no more.

pytest -m "" -s tests/attacks/test_many_lists.py     # prints what a list costs, and what another account waits
"""

from __future__ import annotations

import http.client
import os
import sys
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from sedml.service.server.http.limits import REQUEST_SECONDS
from sedml.service.terms import Terms
from support.deployment import DATA, terms_for
from support.live_servers import Live, make_kits, settings_of
from support.server_process import Server
from support.tiers import thorough

JOBS, LOOPS, SECONDS = 100, 16, 10.0
SHARE, BURST = 0.25, 2.0


class Client:
    """An account on a connection of its own."""

    def __init__(self, server: Server, token: str) -> None:
        self._headers = {"Authorization": f"Bearer {token}"}
        self._connection = http.client.HTTPConnection("127.0.0.1", server.kit.port)
        self._connection.sock = server.connect()

    def get(self, path: str) -> tuple[int, float]:
        """The status, and how long it took."""
        start = time.perf_counter()
        self._connection.request("GET", path, headers=self._headers)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status, time.perf_counter() - start

    def close(self) -> None:
        self._connection.close()


def used(server: Server) -> float:
    """Seconds of a processor, since its start."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def open_jobs(live: Live) -> list[Terms]:
    made = [terms_for(64, deadline=int(time.time()) + 3600) for _ in range(JOBS)]
    token = live.token("requester-1", "s0")
    for terms in made:
        for path, body in (("", terms.model_dump_json()), ("/data", DATA)):
            while live.s0.ask("PUT", f"/v1/jobs/{terms.id}{path}", token, body).status != 201:
                pass  # it too has its share, and is made to wait
    return made


@thorough
def test_another_account_does_not_wait_for_it(tmp_path):
    settings = settings_of(max_open_jobs_per_requester=JOBS, processor_share=SHARE, processor_burst=BURST)
    live = Live(make_kits(tmp_path / "kits", settings, teachers=2, requesters=1))
    live.s0.start()
    try:
        live.s0.wait_ready()
        job = open_jobs(live)[0].id
        greedy, other = (live.token(name, "s0") for name in ("teacher-001", "teacher-002"))
        patient, before = Client(live.s0, other), used(live.s0)
        took = sorted(patient.get("/v1/jobs")[1] for _ in range(100))
        cost = (used(live.s0) - before) / 100
        sys.stdout.write(f"a list of {JOBS} jobs: {1e3 * took[50]:.1f} ms, {1e3 * cost:.1f} ms of a processor\n")
        got: Counter[int] = Counter()
        end = time.monotonic() + SECONDS

        def loop() -> None:
            with closing(Client(live.s0, greedy)) as client:
                while time.monotonic() < end:
                    got[client.get("/v1/jobs")[0]] += 1

        loops = [threading.Thread(target=loop) for _ in range(LOOPS)]
        start, before = time.monotonic(), used(live.s0)
        for one in loops:
            one.start()
        waits = []
        while time.monotonic() < end:
            status, waited = patient.get(f"/v1/jobs/{job}")
            assert status == 200
            waits.append(waited)
            time.sleep(0.05)
        seconds = time.monotonic() - start
        share = (used(live.s0) - before) / seconds
        for one in loops:
            one.join()
        patient.close()
        waits.sort()
        middle, longest = (round(1e3 * wait) for wait in (waits[len(waits) // 2], waits[-1]))
        sys.stdout.write(f"{LOOPS} loops got {dict(got)} in {seconds:.0f} s; the server used {share:.2f} processors\n")
        sys.stdout.write(f"another account waited {middle} ms, at most {longest} ms\n")
        most = (BURST + SHARE * (time.monotonic() - start)) / REQUEST_SECONDS
        assert 0 < got[200] <= most + LOOPS
    finally:
        live.s0.kill()
