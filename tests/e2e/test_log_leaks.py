"""What looks for secrets in the servers' logs finds them, however they were written."""

from __future__ import annotations

import base64
import hashlib
import secrets
from pathlib import Path

import pytest

from sedml.service.kits import ClientKit
from support.live_servers import Live, make_kits, settings_of
from support.log_leaks import Secrets

SECRET = hashlib.shake_256(b"the same on every run, for the names of the tests").digest(64)
FORMS = [
    SECRET,
    SECRET.hex().encode(),
    SECRET.hex().upper().encode(),
    repr(SECRET).encode(),
    str(list(SECRET)).encode(),
    str(int.from_bytes(SECRET, "big")).encode(),
    str(int.from_bytes(SECRET, "little")).encode(),
    base64.b64encode(SECRET),
    base64.b64encode(b"a" + SECRET),
    base64.urlsafe_b64encode(b"bb" + SECRET),
    SECRET.hex().encode()[40:80],
]


@pytest.mark.parametrize("written", FORMS, ids=range(len(FORMS)))
def test_every_way_to_write_a_secret_is_found(written):
    watched = Secrets()
    watched.add("the seed", SECRET)
    watched.add("another", secrets.token_bytes(64))
    assert watched.found_in(b'{"event": "request", "body": "' + written + b'"}\n') == ["the seed"]
    assert watched.found_in(b'{"event": "request", "body": "' + secrets.token_bytes(64) + b'"}\n') == []


def test_a_token_in_a_log_is_an_error_and_its_name_is_said(place):
    live = never_started(place / "planted")
    live.check_logs()
    token = ClientKit.load(live.kits / "teacher-002").servers["s1"].token
    with live.s1.log.open("a") as log:
        log.write(f'{{"event": "request", "header": "{token[10:]}"}}\n')
    with pytest.raises(AssertionError, match="teacher-002 token s1"):
        live.check_logs()


def test_a_failure_of_the_server_in_a_log_is_an_error(place):
    live = never_started(place / "failed")
    with live.s0.log.open("a") as log:
        log.write('{"event": "internal", "level": "error"}\n')
    with pytest.raises(AssertionError, match="internal"):
        live.check_logs()


def never_started(folder: Path) -> Live:
    live = Live(make_kits(folder, settings_of(), teachers=2, requesters=0))
    for server in live.servers:
        (server.kit.folder / "data").mkdir()
    return live
