"""What workers of S1 say at S0's door, and what becomes of those who say something else there."""

import socket
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.mpc.certificates import throwaway_credentials
from sedml.mpc.channel import connect, listen
from sedml.service.server.link.handshakes import Handshakes
from sedml.service.server.live.worker_connections import MAGIC, OPENING, WorkerConnections, opening_of


@contextmanager
def pair():
    with ExitStack() as stack:
        ours, theirs = (stack.enter_context(one) for one in socket.socketpair())
        ours.settimeout(120)
        yield ours, theirs


def received(visits, opening):
    with pair() as (ours, theirs):
        taken = visits.receive(theirs, opening)
        assert taken or ours.recv(1) == b""
        return taken


def test_an_opening_is_good_once_and_for_its_run_alone():
    visits, came = WorkerConnections(), []
    with visits.expected(lambda _, *which: came.append(which)) as key, visits.expected(lambda *_: None) as other:
        assert received(visits, opening_of(key, 7, 0))
        assert not received(visits, opening_of(key, 7, 0))
        assert received(visits, opening_of(key, 7, 2))
        assert not received(visits, opening_of(key, 7, 1))
        assert received(visits, opening_of(key, 8, 0))
        assert opening_of(other, 7, 0) != opening_of(key, 7, 0)
    assert came == [(7, 0), (7, 2), (8, 0)]
    assert not received(visits, opening_of(key, 9, 0))


@given(st.data())
def test_no_changed_opening_is_taken(data):
    visits = WorkerConnections()
    with visits.expected(lambda *_: None) as key:
        opening = bytearray(opening_of(key, data.draw(st.integers(0, 2**32 - 1)), data.draw(st.integers(0, 2**32 - 1))))
        opening[data.draw(st.integers(len(MAGIC), OPENING - 1))] ^= data.draw(st.integers(1, 255))
        assert not received(visits, bytes(opening))


@pytest.fixture
def door():
    came = []
    with listen("127.0.0.1", 0) as listener:
        made = Handshakes(listener, lambda: CREDENTIALS[0], lambda *one: came.append(one))
        yield made, listener.getsockname(), came
        made.close()
        for connection, _ in came:
            connection.close()


CREDENTIALS = throwaway_credentials()


def turns(door, many=4):
    return [one for _ in range(many) for one in door.turn(0.02)]


def test_an_opening_comes_in_pieces(door):
    opened, address, came = door
    opening = opening_of(bytes(32), 3, 1)
    with socket.create_connection(address) as caller:
        for byte in opening[:-1]:
            caller.sendall(bytes([byte]))
            assert turns(opened, 1) == []
        assert came == []
        caller.sendall(opening[-1:] + b"a handshake follows")
        assert turns(opened) == []
        [(connection, said)] = came
        assert said == opening
        assert connection.recv(100) == b"a handshake follows"  # for whoever takes it over


@pytest.mark.parametrize("words", [b"SEDX" + bytes(60), b"S" + bytes(60), b"SE", b"GET / HTTP/1.1\r\n\r\n"])
def test_whoever_says_anything_else_is_sent_away(door, words):
    opened, address, came = door
    with socket.create_connection(address) as caller:
        caller.settimeout(120)
        caller.sendall(words)
        if len(words) < len(MAGIC):
            caller.shutdown(socket.SHUT_WR)
        assert turns(opened) == []
        with suppress(ConnectionResetError):
            while caller.recv(1000):
                pass  # an alert, perhaps
    assert came == []
    assert not opened._until


def test_half_an_opening_does_not_keep_the_door_busy(door, monkeypatch):
    """A caller that has begun is not looked at until there is more of it."""
    opened, address, _ = door
    looks, opens = [], opened._opens
    monkeypatch.setattr(opened, "_opens", lambda plain: looks.append(plain) or opens(plain))
    with socket.create_connection(address) as caller:
        caller.sendall(MAGIC)
        turns(opened, 10)
        assert len(looks) <= 2


def test_the_peer_still_comes_in(door):
    from concurrent.futures import ThreadPoolExecutor

    opened, address, came = door
    with ThreadPoolExecutor(1) as threads:
        calling = threads.submit(connect, address, bytes(16), CREDENTIALS[1], timeout=120.0)
        entered = []
        while not entered:
            entered = opened.turn(0.1)
        calling.result().close()
        entered[0].close()
    assert came == []
