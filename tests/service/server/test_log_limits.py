"""A flood of requests that are refused fills no disk, and hides nothing else."""

from __future__ import annotations

import logging

import pytest

from sedml.service.server.ops.log_limits import Sparing


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(record)


@pytest.fixture
def time():
    return [0.0]


@pytest.fixture
def handler(time):
    made = Lines()
    made.addFilter(Sparing(most=3, window=60.0, clock=lambda: time[0]))
    return made


def say(handler, name, message, **fields):
    msg = {"event": message, **fields} if fields else message
    handler.handle(logging.LogRecord(name, logging.INFO, "", 0, msg, (), None))


def refuse(handler, code="malformed-request", caller=None):
    say(handler, "sedml.http", "request", code=code, caller=caller)


def test_the_first_few_are_written_and_then_how_many_more(handler, time):
    for _ in range(1_000):
        refuse(handler)
    assert len(handler.written) == 3
    time[0] = 61.0
    for _ in range(1_000):
        refuse(handler)
    assert [line.msg.get("more_like_it") for line in handler.written] == [None] * 3 + [997, None, None]
    time[0] = 122.0
    refuse(handler, caller="teacher-1")
    assert "more_like_it" not in handler.written[-1].msg


def test_one_kind_does_not_hide_another(handler):
    for _ in range(100):
        refuse(handler)
    for code, caller in (("malformed-request", "teacher-1"), ("invalid-token", None), (None, None)):
        refuse(handler, code, caller)
        assert (handler.written[-1].msg["code"], handler.written[-1].msg["caller"]) == (code, caller)


@pytest.mark.parametrize(
    ("name", "event", "fields"),
    [
        ("sedml.runner", "job.failed", {"job": "a", "code": "cheating"}),
        ("sedml.http", "internal", {"incident": "a"}),
        ("sedml.http", "records", {"what": "a"}),
        ("sedml.http", "request", {"code": None, "caller": "teacher-1"}),
        ("sedml.link", "link.call", {"error": "PeerGoneError"}),
        ("root", "a message", {}),
    ],
)
def test_everything_else_is_always_written(handler, name, event, fields):
    for _ in range(100):
        say(handler, name, event, **fields)
    assert len(handler.written) == 100


def test_the_web_server_cannot_be_made_to_flood_it_either(handler, time):
    for number in range(100):
        say(handler, "uvicorn.error", f"Invalid HTTP request received: {number}")
    time[0] = 61.0
    say(handler, "uvicorn.error", "Invalid HTTP request received.")
    assert len(handler.written) == 4
    assert handler.written[-1].more_like_it == 97
