"""A worker's parties run together, each is counted, and none is left waiting for one that is lost."""

import os
import socket
import sys

import pytest

from sedml.lab.peers.engines.party_processes import Party, Turn, received_bytes, run_parties

SENT = 70_000


def exchange(party: Party, reply: int) -> list[Turn]:
    """Rank 1 sends to rank 0, who answers with `reply` bytes."""
    if party.rank == 0:
        with socket.create_server(("127.0.0.1", party.ports[0])) as server:
            party.barrier.wait()
            link, _ = server.accept()
    else:
        party.barrier.wait()
        link = socket.create_connection(("127.0.0.1", party.ports[0]))

    def once() -> int:
        if party.rank == 1:
            link.sendall(bytes(SENT))
            return len(link.recv(reply, socket.MSG_WAITALL))
        got = len(link.recv(SENT, socket.MSG_WAITALL))
        link.sendall(bytes(reply))
        return got

    with link:
        return party.measure(once)


def fail(party: Party, how: str) -> list[Turn]:
    """The last party is lost; the others wait for it at the barrier."""
    if party.rank == 1:
        if how == "raise":
            raise ValueError("two\nlines")
        os._exit(1)
    return party.measure(lambda: None)


def test_parties_run_as_processes_and_all_their_traffic_is_counted():
    turns = run_parties(exchange, [10, 10], repeat=2)
    assert [len(side) for side in turns] == [2, 2]
    assert {turn.output for turn in turns[0]} == {SENT}
    assert {turn.output for turn in turns[1]} == {10}
    assert all(turn.seconds > 0 for side in turns for turn in side)
    if sys.platform == "linux":
        assert [turn.received for turn in turns[0]] == [SENT, SENT]
        assert [turn.received for turn in turns[1]] == [10, 10]


@pytest.mark.parametrize(
    ("how", "reason"), [("raise", "party 1: ValueError: two lines"), ("exit", "party 1 ended without an answer")]
)
def test_a_lost_party_ends_the_run_with_its_reason(how, reason):
    with pytest.raises(RuntimeError, match=f"^{reason}$"):
        run_parties(fail, [how, how], repeat=1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a socket has received")
def test_only_what_arrives_over_tcp_is_counted(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    ours, theirs = socket.socketpair()
    with link, other, ours, theirs, (tmp_path / "file").open("wb") as file:
        before = received_bytes()
        link.sendall(bytes(1000))
        ours.sendall(bytes(500))
        file.write(bytes(500))
        other.recv(1000, socket.MSG_WAITALL)
        assert received_bytes() == before + 1000
