"""Crowds at the doors of both servers, on real sockets: whoever is expected is served meanwhile."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pytest

from sedml.errors import ChannelError
from sedml.mpc.channel import connect, issue_certificate, make_authority
from sedml.mpc.channel.certificates import Credentials
from support.flood import Flood, client_hello
from support.live_servers import Live

pytestmark = pytest.mark.xdist_group("e2e")  # one pair of servers for all of them

SAMPLES = 64
ASKING = client_hello("sedml-link/1")
SAYINGS = {
    "mixed": [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", ASKING, client_hello()],
    "asking": [ASKING],
}


@pytest.mark.parametrize("saying", SAYINGS.values(), ids=SAYINGS)
def test_a_crowd_at_the_link_does_not_hold_up_a_job(served: Live, saying: list[bytes]):
    """Hundreds who stall before or amid the handshake, and come again as soon as they are cut off.

    They are all at S1's own address, and one of them shows a certificate that says it is S1.
    """
    votes = np.random.default_rng(3).integers(-1, 3, (3, SAMPLES))
    made = served.create(SAMPLES)
    served.vote(made.id, votes)
    own, port = served.s0.kit.credentials, served.s0.kit.link_port
    foreign = issue_certificate(make_authority(), "s1")
    believing = Credentials(foreign.certificate, foreign.key, own.authority)
    stop = threading.Event()

    def pretend() -> None:
        while not stop.is_set():
            with contextlib.suppress(ChannelError):
                connect(("127.0.0.1", port), b"0" * 16, believing, peer="s0", timeout=5.0).close()

    pretender = threading.Thread(target=pretend)
    flood = Flood(port, 400, lambda number: saying[number % len(saying)])
    with contextlib.ExitStack() as stack:
        stack.enter_context(flood.running())
        pretender.start()
        stack.callback(pretender.join)
        stack.callback(stop.set)
        start = time.monotonic()
        labels = served.finish(made.id)
        took = time.monotonic() - start
    served.check_labels(made, votes, labels)
    assert flood.opened > 400
    assert took < 10, "without a crowd it takes one second"
