"""Logs: secrets of every kind are planted in every place, and none comes out."""

import enum
import io
import json
import logging
import sys
import threading
import warnings
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

import numpy as np
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import KitError
from sedml.service.server.ops.logs import clean, clean_text, configure, describe_exception

NUMBER = 987_654_321_007  # longer than any part of a time
# Fixed, as they name test cases; of the form that real ones have.
TOKEN = "sedml_AyHr1d_dLEvymaJQ0J_5A9MaWu_rRwN_gO5g5luMRR0"
SEED = bytes.fromhex("ae09d98f2e967da30c00037bac041ed0fb9bc8f65d8d6fa3fe3352374bf26de6")
LARGE = int.from_bytes(SEED, "big") | 2**255
SHARE = np.arange(NUMBER - 7, NUMBER + 3, dtype=np.uint64)
PLANTED = [TOKEN, TOKEN[6:], SEED.hex(), SEED.hex().upper(), repr(SEED)[2:-1], str(NUMBER), str(LARGE)]
PLANTED += ["correct horse", "hunter2"]


@pytest.fixture
def read_log(monkeypatch):
    """Configure, and what was written since; all that is global is put back."""
    stream = io.StringIO()
    root = logging.getLogger()
    handlers, level, told = root.handlers[:], root.level, logging.raiseExceptions
    hooks = sys.excepthook, threading.excepthook

    def start(log_level="debug", log_format="json"):
        monkeypatch.setattr(sys, "stderr", stream)
        configure(log_level, log_format)
        return lambda: stream.getvalue()

    yield start
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.raiseExceptions = told
    sys.excepthook, threading.excepthook = hooks
    structlog.reset_defaults()


def assert_clean(text):
    assert [secret for secret in PLANTED if secret in text] == []


SECRET_FIELDS = {
    "token": "correct horse",
    "Authorization": "Basic hunter2",
    "client_secret": "hunter2",
    "seed": NUMBER,
    "label_share": [NUMBER],
    "ballot": {"half": "hunter2"},
    "body": "hunter2",
    "storage_key": "hunter2",
    "keys": ["hunter2"],
    "password": "hunter2",
    "votes": [NUMBER],
    "noise": NUMBER,
    "said": f"the token is {TOKEN}.",
    "header": f"Bearer {TOKEN}",
    "hexadecimal": SEED.hex(),
    "shouted": SEED.hex().upper(),
    "quoted": f"got {SEED!r}",
    "printed": f"got {SHARE!r}",
    "database": "postgresql://sedml:hunter2@db/sedml",
    "raw": SEED,
    "view": memoryview(SEED),
    "array": SHARE,
    "scalar": SHARE[7],
    "buffer": bytearray(SEED),
    "number": LARGE,
    "many": list(range(NUMBER - 20, NUMBER + 20)),
    "object": type("Kit", (), {"__repr__": lambda _: TOKEN})(),
    TOKEN: "a key can be one too",
}


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("field", SECRET_FIELDS)
def test_no_field_gives_a_secret_away(read_log, field, log_format):
    written = read_log(log_format=log_format)
    value = SECRET_FIELDS[field]
    log = structlog.get_logger("sedml.test")
    log.info("happened", **{field: value})
    log.bind(**{field: value}).warning("happened", nested={"deep": [{field: value}], "deeper": ({field: value},)})
    with structlog.contextvars.bound_contextvars(**{field: value}):
        log.error("happened")
    text = written()
    assert text.count("happened") == 3
    assert_clean(text)


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_no_message_gives_a_secret_away(read_log, log_format):
    written = read_log(log_format=log_format)
    structlog.get_logger().info(f"hello {TOKEN} and {SEED!r}", token="hunter2")
    for name in ("somebody", "uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.info("token %s, seed %s, share %s, %r", TOKEN, SEED.hex(), SHARE, SEED)
        logger.info("seed %(seed)s", {"seed": "hunter2"})
        logger.info("with extra", extra={"seed": "hunter2", "array": SHARE})
        logger.info(f"{TOKEN} {SEED}")
        logger.info({"msg": TOKEN, "seed": NUMBER})
        logger.info("%d %s", "not a number", TOKEN)
    text = written()
    assert text.count("with extra") == 3
    assert text.count("could not be written") == 3
    assert_clean(text)


def test_uvicorn_is_routed_even_after_it_was_configured(read_log):
    logger = logging.getLogger("uvicorn.access")
    stray = logging.StreamHandler(io.StringIO())
    logger.addHandler(stray)
    logger.propagate = False
    written = read_log()
    line = ("127.0.0.1:1", "GET", f"/v1/jobs?token={TOKEN}", "1.1", 200)
    logger.info('%s - "%s %s HTTP/%s" %d', *line, extra={"color_message": "x"})
    logging.getLogger("uvicorn").info("started")
    entry, started = map(json.loads, written().splitlines())
    assert entry["event"].startswith('127.0.0.1:1 - "GET /v1/jobs?token=<redacted>')
    assert entry["logger"] == "uvicorn.access"
    assert "color_message" not in entry
    assert (started["event"], started["level"]) == ("started", "info")
    assert stray.stream.getvalue() == ""


def fail_with(message, cause=None):
    seed = SEED
    assert seed
    raise ValueError(message) from cause


@pytest.mark.parametrize("log_format", ["json", "console"])
@pytest.mark.parametrize("message", [TOKEN, SEED, SEED.hex(), SHARE, "correct horse", {"seed": "hunter2"}])
def test_no_exception_gives_a_secret_away(read_log, message, log_format):
    written = read_log(log_format=log_format)
    log = structlog.get_logger("sedml.test")
    try:
        try:
            fail_with(message)
        except ValueError as first:
            first.add_note(TOKEN)
            raise KeyError(message) from first
    except KeyError as error:
        log.exception("crashed", error=error)
        log.error("crashed", exc_info=error)
        log.error("crashed", exc_info=(type(error), error, error.__traceback__))
        logging.getLogger("uvicorn.error").exception("crashed %s", error)
        logging.getLogger("uvicorn.error").error("crashed", exc_info=error, stack_info=True)
        group = ExceptionGroup(str(message), [error, ValueError(message)])
        log.error("crashed", exc_info=group)
    text = written()
    assert text.count("crashed") >= 6
    assert text.count("in fail_with") >= 6
    assert text.count("ValueError") >= 6
    assert "ExceptionGroup" in text
    assert_clean(text)


def test_what_nobody_caught_is_logged_clean(read_log):
    written = read_log()

    def crash():
        fail_with(f"{TOKEN} hunter2")

    thread = threading.Thread(target=crash)
    thread.start()
    thread.join()
    try:
        crash()
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
        sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    entries = [json.loads(line) for line in written().splitlines()]
    assert [entry["event"] for entry in entries] == ["thread crashed", "crashed"]
    assert all("in fail_with" in entry["exception"] for entry in entries)
    assert_clean(written())


def test_warnings_are_logged_clean(read_log):
    written = read_log()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"odd {TOKEN}", UserWarning, stacklevel=1)
    assert "odd <redacted>" in written()
    assert_clean(written())


def test_errors_of_ours_and_of_the_system_keep_their_words():
    ours = describe_exception(KitError("The file x is missing.", f"Put back {TOKEN}."))
    assert ours == "KitError: The file x is missing. Put back <redacted>."
    assert describe_exception(OSError(28, "No space left on device", TOKEN)) == "OSError: No space left on device"
    assert describe_exception(OSError(TOKEN)) == "OSError"


def test_a_circle_of_exceptions_ends():
    first, second = ValueError(), KeyError()
    first.__cause__, second.__cause__ = second, first
    assert describe_exception(first).count("Error") == 2


class State(enum.StrEnum):
    OPEN = "open"


def test_what_is_no_secret_stays_as_it_is(read_log):
    written = read_log()
    fields = {
        "job": "0123456789abcdef0123456789abcdef",
        "teacher": "teacher-001",
        "state": State.OPEN,
        "status": HTTPStatus.NOT_FOUND,
        "seconds": 0.25,
        "ballot_count": 3,
        "body_bytes": 1234,
        "nothing": None,
        "token": None,
        "ok": True,
        "at": datetime(2030, 1, 1, tzinfo=UTC),
        "path": Path("/srv/sedml"),
        "names": ("a", "b"),
        "url": "https://s0.example:8440/v1/jobs",
    }
    structlog.get_logger("sedml.test").info("job created", **fields)
    entry = json.loads(written())
    assert entry.pop("timestamp").endswith("Z")
    assert entry == fields | {
        "event": "job created",
        "level": "info",
        "logger": "sedml.test",
        "state": "open",
        "status": 404,
        "at": "2030-01-01 00:00:00+00:00",
        "path": "/srv/sedml",
        "names": ["a", "b"],
    }


def test_bytes_and_arrays_are_their_length():
    assert clean(SEED) == clean(bytearray(SEED)) == clean(memoryview(SEED)) == "<32 bytes>"
    assert clean(SHARE) == clean(np.asfortranarray(SHARE)) == "<80 bytes>"
    assert clean({"share": SHARE, "ballot": b""}) == {"share": "<80 bytes>", "ballot": "<0 bytes>"}
    assert clean({"ballot_count": True, "seed_bytes": "7"}) == {
        "ballot_count": "<redacted>",
        "seed_bytes": "<redacted>",
    }


@given(st.text(max_size=50), st.text(max_size=50))
def test_a_token_is_found_wherever_it_stands(before, after):
    assert TOKEN not in clean_text(before + TOKEN + after)
    assert TOKEN[10:] not in clean_text(before + TOKEN + after)


def test_long_and_deep_values_are_cut():
    assert len(clean_text("a " * 5_000 + TOKEN)) < 2_100
    assert clean(list(range(33))) == "<33 items>"
    deep = {"level": 0}
    deep["next"] = deep
    assert "items>" in str(clean(deep))


def test_nobody_writes_lines_of_the_log(read_log):
    written = read_log(log_format="console")
    structlog.get_logger().info("a\nforged line\x1b[2J", name="b\r\nforged line\u2028")
    logging.getLogger("x").info("c %s", "d\nforged line")
    assert len(written().splitlines()) == 2
    assert "\x1b[2J" not in written()


def test_the_level_holds_for_everybody(read_log):
    written = read_log(log_level="warning")
    structlog.get_logger("sedml").info("quiet")
    logging.getLogger("uvicorn.access").info("quiet")
    structlog.get_logger("sedml").warning("loud")
    assert [json.loads(line)["event"] for line in written().splitlines()] == ["loud"]


@pytest.mark.parametrize("count", [0, 2])
def test_a_farewell_that_cancels_nothing_is_no_error(read_log, count):
    written = read_log()
    logging.getLogger("uvicorn.error").error("Cancel %s running task(s), timeout graceful shutdown exceeded", count)
    assert ("Cancel 2 running task(s)" in written()) == bool(written()) == bool(count)


def test_configuring_twice_writes_once(read_log):
    read_log()
    written = read_log()
    structlog.get_logger().info("once")
    assert written().count("once") == 1
