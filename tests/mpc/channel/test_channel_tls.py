"""What only the network transport can meet: the bytes on the wire, broken connections, strangers."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading

import numpy as np
import pytest

from sedml.errors import (
    ChannelError,
    FrameMismatchError,
    InputError,
    PeerGoneError,
    PeerIdentityError,
    PeerTimeoutError,
)
from sedml.mpc.certificates import Credentials, client_context, issue_certificate, make_authority
from sedml.mpc.channel import accept, connect, listen, tls
from sedml.mpc.channel.frame import HEADER_SIZE

WITHIN = 120.0
"""Seconds that anything may take on a busy machine."""


def header(task: bytes, length: int, *, block: int = 0, step: bytes = b"x", delay: int = 0) -> bytes:
    return struct.pack("<16s32sIIQ", task, step, block, delay, length)


def read_exactly(peer: ssl.SSLSocket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += peer.recv(size - len(data))
    return data


def reset(peer: ssl.SSLSocket) -> None:
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def test_the_bytes_on_the_wire(servers, both, task):
    expected = bytes.fromhex(
        "000102030405060708090a0b0c0d0e0f"
        "63617272792f32000000000000000000"
        "00000000000000000000000000000000"
        "04030201" + "00000000" + "0a00000000000000" + "0102030000000005" + "ff01"
    )
    arrays = [np.array([0x0500000000030201], "<u8"), np.array([255, 1], np.uint8)]

    def peer_side():
        data = read_exactly(peer, len(expected))
        peer.sendall(data)
        return data

    with servers.raw_peer() as (channel, peer):
        received, sent = both(lambda: channel.exchange(0x01020304, "carry/2", arrays), peer_side)
        assert sent == expected
        np.testing.assert_array_equal(received[0], arrays[0])
        np.testing.assert_array_equal(received[1], arrays[1])


def test_nothing_but_tls_1_3_and_no_delay(servers):
    with servers.raw_peer() as (_, peer):
        assert peer.version() == "TLSv1.3"
        assert peer.selected_alpn_protocol() == "sedml-link/1"
    with servers.link("tls") as ends:
        for end in ends:
            assert end._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_frame_that_comes_byte_by_byte(servers, both, task):
    def peer_side():
        for byte in header(task, 4) + b"abcd":
            peer.sendall(bytes([byte]))

    with servers.raw_peer() as (channel, peer):
        received, _ = both(lambda: channel.exchange(0, "x", [np.zeros(4, np.uint8)]), peer_side)
        assert received[0].tobytes() == b"abcd"


def test_the_next_frame_may_already_be_there(servers, task):
    with servers.raw_peer() as (channel, peer):
        peer.sendall(header(task, 1) + b"a" + header(task, 1, block=1) + b"b")
        assert channel.exchange(0, "x", [np.zeros(1, np.uint8)])[0].tobytes() == b"a"
        assert channel.exchange(1, "x", [np.zeros(1, np.uint8)])[0].tobytes() == b"b"


@pytest.mark.parametrize("size", [1_000, 4_000_000])
@pytest.mark.parametrize("part", [0, HEADER_SIZE // 2, HEADER_SIZE, HEADER_SIZE + 500])
@pytest.mark.parametrize("abrupt", [False, True])
def test_a_peer_that_hangs_up_in_the_middle_of_a_frame(servers, both, task, size, part, abrupt):
    frame = header(task, size) + bytes(size)

    def peer_side():
        read_exactly(peer, HEADER_SIZE)
        peer.sendall(frame[:part])
        if abrupt:
            reset(peer)
        peer.close()

    with servers.raw_peer() as (channel, peer):
        error, _ = both(lambda: channel.exchange(0, "x", [np.zeros(size, np.uint8)]), peer_side)
        assert type(error) is PeerGoneError
        with pytest.raises(ChannelError, match="closed"):
            channel.exchange(0, "x", [])


def test_a_peer_that_answers_without_listening_is_gone(servers, task):
    size = 30_000_000
    with servers.raw_peer() as (channel, peer):
        peer.sendall(header(task, size))
        peer.close()
        with pytest.raises(PeerGoneError):
            channel.exchange(0, "x", [np.zeros(size, np.uint8)])


def test_a_peer_that_falls_silent_in_the_middle_of_a_frame(servers, task):
    with servers.raw_peer(timeout=0.2) as (channel, peer):
        peer.sendall(header(task, 1000) + bytes(500))
        with pytest.raises(PeerTimeoutError):
            channel.exchange(0, "x", [np.zeros(1000, np.uint8)])


def test_a_peer_that_reads_nothing_times_out(servers, task):
    size = 30_000_000
    with servers.raw_peer(timeout=0.2) as (channel, peer):
        peer.sendall(header(task, size))
        with pytest.raises(PeerTimeoutError):
            channel.exchange(0, "x", [np.zeros(size, np.uint8)])


@pytest.mark.parametrize("size", [0, 4_000_000])
def test_a_mismatch_is_found_before_the_payload_comes(servers, task, size, monkeypatch):
    monkeypatch.setattr(tls, "_LINGER", 0.1)
    with servers.raw_peer() as (channel, peer):
        peer.sendall(header(task, size, step=b"y"))
        with pytest.raises(FrameMismatchError, match="'y'"):
            channel.exchange(0, "x", [np.zeros(size, np.uint8)])


def test_a_mismatch_lets_the_peer_finish_and_see_our_header(servers, both, task):
    size = 8_000_000

    def peer_side():
        peer.sendall(header(task, size, step=b"y") + bytes(size))
        ours = read_exactly(peer, HEADER_SIZE)
        peer.close()
        return ours

    with servers.raw_peer() as (channel, peer):
        error, ours = both(lambda: channel.exchange(0, "x", [np.zeros(size, np.uint8)]), peer_side)
        assert type(error) is FrameMismatchError
        assert ours == header(task, size)


def test_a_mismatch_is_found_even_if_the_peer_is_gone(servers, task):
    with servers.raw_peer() as (channel, peer):
        peer.sendall(header(task, 0, step=b"y"))
        reset(peer)
        with pytest.raises(FrameMismatchError, match="'y'"):
            channel.exchange(0, "x", [])


def test_a_round_that_the_peer_cannot_have_finished_fails(servers, task):
    with servers.raw_peer() as (channel, peer):
        peer.sendall(header(task, 0))
        reset(peer)
        with pytest.raises(PeerGoneError):
            channel.exchange(0, "x", [])


def test_bytes_that_are_no_header_are_not_shown(servers, monkeypatch):
    monkeypatch.setattr(tls, "_LINGER", 0.1)
    with servers.raw_peer() as (channel, peer):
        peer.sendall(b"secret share\xff" * 5)
        with pytest.raises(FrameMismatchError, match="not a frame") as caught:
            channel.exchange(0, "x", [])
        assert "secret" not in str(caught.value)


def test_tampered_bytes_are_noticed(servers):
    with servers.raw_peer() as (channel, peer), socket.socket(fileno=os.dup(peer.fileno())) as below:
        below.sendall(b"\x17\x03\x03\x00\x60" + bytes(0x60))
        with pytest.raises(ChannelError, match="damaged"):
            channel.exchange(0, "x", [np.zeros(32, np.uint8)])


def meet(servers, both, task, s0: Credentials, s1: Credentials, **names: str):
    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        return both(
            lambda: accept(listener, task, s0, timeout=WITHIN, peer=names.get("client", "s1")),
            lambda: connect(address, task, s1, timeout=WITHIN, peer=names.get("server", "s0")),
        )


def test_the_listening_end_must_be_who_is_expected(servers, both, task):
    errors = meet(servers, both, task, servers.s1, servers.s1)
    assert [type(error) for error in errors] == [PeerIdentityError] * 2
    assert "s0" in str(errors[1])


def test_the_connecting_end_must_be_who_is_expected(servers, both, task):
    errors = meet(servers, both, task, servers.s0, servers.s0)
    assert [type(error) for error in errors] == [PeerIdentityError] * 2
    assert "it is s0, not s1" in str(errors[0])


def test_other_names_can_be_agreed_on(servers, both, task):
    left, right = (issue_certificate(servers.authority, name) for name in ("left", "right"))
    for end in meet(servers, both, task, left, right, client="right", server="left"):
        end.close()


@pytest.mark.parametrize("stranger", ["s0", "s1"])
def test_another_authority_is_refused_by_both(servers, both, task, stranger):
    other = issue_certificate(make_authority(), stranger)
    s0, s1 = (other, servers.s1) if stranger == "s0" else (servers.s0, other)
    errors = meet(servers, both, task, s0, s1)
    assert [type(error) for error in errors] == [PeerIdentityError] * 2


@pytest.mark.parametrize("stranger", ["s0", "s1"])
def test_an_impostor_who_names_our_authority_is_refused_by_the_other(servers, both, task, stranger):
    other = issue_certificate(make_authority(), stranger)
    impostor = Credentials(other.certificate, other.key, servers.authority.certificate)
    s0, s1 = (impostor, servers.s1) if stranger == "s0" else (servers.s0, impostor)
    errors = meet(servers, both, task, s0, s1)
    assert [type(error) for error in errors] == [PeerIdentityError] * 2


def bare_client(**options: object) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    for name, value in options.items():
        setattr(context, name, value)
    return context


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        (bare_client(), PeerIdentityError),
        (bare_client(maximum_version=ssl.TLSVersion.TLSv1_2), ChannelError),
        (None, ChannelError),
    ],
    ids=["no certificate", "TLS 1.2", "no TLS"],
)
def test_clients_of_another_kind_are_refused(servers, both, task, context, expected):
    def intrude() -> bytes:
        with socket.create_connection(address, timeout=WITHIN) as plain:
            if context is None:
                plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
                return plain.recv(1)
            with context.wrap_socket(plain) as secured:
                return secured.recv(1)

    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        error, got = both(lambda: accept(listener, task, servers.s0, timeout=WITHIN), intrude)
        assert type(error) is expected
        assert isinstance(got, OSError) or got != b"+"


def test_another_wire_format_is_refused(servers, both, task):
    def dial() -> bytes:
        context = client_context(servers.s1)
        context.set_alpn_protocols(["sedml-link/99"])
        with (
            socket.create_connection(address, timeout=WITHIN) as plain,
            context.wrap_socket(plain, server_hostname="s0") as secured,
        ):
            return secured.recv(1)

    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        error, got = both(lambda: accept(listener, task, servers.s0, timeout=WITHIN), dial)
        assert type(error) is ChannelError
        assert "sedml-link/1" in str(error)
        assert got == b""


def test_the_listener_survives_a_stranger(servers, both, task):
    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        socket.create_connection(address, timeout=WITHIN).close()
        with pytest.raises(PeerGoneError):
            accept(listener, task, servers.s0, timeout=WITHIN)
        ends = both(
            lambda: accept(listener, task, servers.s0, timeout=WITHIN),
            lambda: connect(address, task, servers.s1, timeout=WITHIN),
        )
        for end in ends:
            end.close()


def test_connect_waits_for_the_listener(servers, task):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    ends = []
    dialling = threading.Thread(target=lambda: ends.append(connect(address, task, servers.s1, timeout=WITHIN)))
    dialling.start()
    with listen(*address) as listener:
        ends.append(accept(listener, task, servers.s0, timeout=WITHIN))
        dialling.join()
    assert len(ends) == 2
    for end in ends:
        end.close()


def test_connect_gives_up_in_time(servers, task):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    with pytest.raises(PeerTimeoutError, match="refused"):
        connect(address, task, servers.s1, timeout=0.2)


def test_connect_to_one_who_never_answers_times_out(servers, task):
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(PeerTimeoutError):
        connect(mute.getsockname(), task, servers.s1, timeout=0.2)


def test_accept_gives_up_in_time(servers, task):
    with listen("127.0.0.1", 0) as listener:
        with pytest.raises(PeerTimeoutError, match="did not connect"):
            accept(listener, task, servers.s0, timeout=0.2)
        with (
            socket.create_connection(listener.getsockname(), timeout=WITHIN),
            pytest.raises(PeerTimeoutError, match="silent"),
        ):
            accept(listener, task, servers.s0, timeout=0.2)


def test_a_taken_port_is_explained():
    with listen("127.0.0.1", 0) as listener, pytest.raises(ChannelError, match="Cannot listen"):
        listen(*listener.getsockname())


def test_settings_are_checked_before_anyone_is_called(servers):
    with listen("127.0.0.1", 0) as listener, pytest.raises(InputError):
        accept(listener, b"short", servers.s0)
    with pytest.raises(InputError):
        connect(("127.0.0.1", 1), bytes(16), servers.s1, timeout=0)
