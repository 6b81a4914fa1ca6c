"""S1 calls about several jobs at once, and about one again before its last call has ended."""

from __future__ import annotations

import threading

import pytest

from sedml.service.server.link.calls import Host
from sedml.service.server.live.peer_contact import PeerContact
from support.deployment import Clock
from support.server_process import until

JOB, OTHER = "ab" * 16, "cd" * 16


class _Channel:
    aborted = False

    def abort(self) -> None:
        self.aborted = True


@pytest.fixture
def host(deployed):
    made = Host(deployed.nodes[0], lambda job, channel: None)
    yield made
    made._listener.close()


@pytest.fixture
def server_settings():
    return {"link_port": 0}


def test_of_calls_about_one_job_only_the_newest_goes_on(host):
    first, second, third, other = (_Channel() for _ in range(4))
    handled, go_on = [], threading.Event()

    def handle(_: str, channel: _Channel) -> None:
        handled.append(channel)
        if channel is first:
            assert go_on.wait(60)

    host._handle = handle
    threads = []
    for channel in (first, second, third):
        threads.append(threading.Thread(target=host._meet, args=(JOB, channel)))
        threads[-1].start()
        until(lambda channel=channel: host._calls.get(JOB) is channel, "it is the newest")
        until(lambda: handled, "the first is under way")
    host._meet(OTHER, other)  # which waits for none of them
    go_on.set()
    for thread in threads:
        thread.join()
    assert handled == [first, other, third]
    assert (first.aborted, second.aborted, third.aborted) == (True, True, False)
    assert not host._calls
    assert not host._locks


def test_a_greeting_is_not_lost_while_a_call_ends():
    clock = Clock()
    contact = PeerContact(clock, clock.steady)
    contact.differs_on({"old"})
    greeting = threading.Thread(target=contact.differs_on, args=({"new"},))

    class Job(str):
        """Its hash is asked for after the set was read, and before it is written."""

        def __hash__(self) -> int:
            if greeting.ident is None:
                greeting.start()
                greeting.join(0.1)
            return super().__hash__()

    contact.has_called_about(Job("old"))
    greeting.join()
    assert contact.differing == {"new"}
