"""A data folder belongs to one server at a time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from sedml.errors import StoreError
from sedml.service.kits import ServerKit
from sedml.service.server.storage.folder_lock import hold
from support.deployment import Clock, Site, shared_kits
from support.live_servers import make_kits, settings_of
from support.server_process import Server

# Takes the folder, says so, and waits to be killed; or lets a child say so, which stays until its input ends.
_HOLDER = """
import os, pathlib, signal, sys
from sedml.service.server.storage.folder_lock import hold
held = hold(pathlib.Path(sys.argv[1]))
if sys.argv[2] == "alone" or os.fork() == 0:
    print("held", flush=True)
    sys.stdin.read()
else:
    signal.pause()
"""


def site(folder, kit=None, **settings):
    return Site(kit or ServerKit.load(shared_kits() / "s0"), {"data_dir": folder, **settings}, Clock())


def test_a_second_server_is_refused_before_it_touches_anything(tmp_path):
    first, second = site(tmp_path), site(tmp_path)
    first.start()
    upload = first.node.incoming / "upload.part"
    upload.write_bytes(b"half of a file")
    with pytest.raises(StoreError, match="Another server is running on the data folder") as refused:
        second.start()
    assert "`data_dir`" in refused.value.do
    assert upload.read_bytes() == b"half of a file"
    first.node.close()
    first.node.close()
    second.start().close()
    assert not upload.exists(), "what is left over when nobody holds the folder goes"


def test_replicas_have_a_folder_together_and_nobody_else_has_it(tmp_path):
    first, second = (site(tmp_path, replicated=True) for _ in range(2))
    first.start()
    upload = first.node.incoming / "upload.part"
    upload.write_bytes(b"half of a file")
    second.start()
    assert upload.exists(), "it is on its way to the first"
    with pytest.raises(StoreError, match="Another server is running on the data folder"):
        site(tmp_path).start()
    first.node.close()
    with pytest.raises(StoreError, match="Another server is running on the data folder"):
        site(tmp_path).start()
    second.node.close()
    third = site(tmp_path)
    third.start()
    assert not upload.exists()
    third.node.close()


def test_a_server_by_itself_lets_no_replica_in(tmp_path, monkeypatch):
    monkeypatch.setattr("sedml.service.server.storage.folder_lock._MOMENTS", 1)
    alone = site(tmp_path)
    alone.start()
    with pytest.raises(StoreError, match="Another server is running on the data folder"):
        site(tmp_path, replicated=True).start()
    alone.node.close()


def test_no_new_storage_key_is_taken_up_while_others_use_the_old_one(tmp_path):
    first = site(tmp_path, replicated=True)
    first.start()
    rekeyed = replace(first.kit, storage_key=bytes(32), old_storage_key=first.kit.storage_key)
    with pytest.raises(StoreError, match="replicas that use the old one"):
        site(tmp_path, rekeyed, replicated=True).start()
    first.node.close()


def test_what_cannot_be_opened_is_let_go(tmp_path):
    broken = site(tmp_path)
    (tmp_path / "server.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError):
        broken.start()
    hold(tmp_path).release()


@pytest.mark.parametrize("company", ["alone", "with a child"])
def test_a_process_that_was_killed_holds_nothing(tmp_path, company):
    """Nor does a child that it has left behind; while both live, the child does not give the folder away either."""
    command = [sys.executable, "-c", _HOLDER, str(tmp_path), company]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StoreError):
            hold(tmp_path)
        process.kill()
        process.wait()
        hold(tmp_path).release()


def test_a_second_process_on_one_kit_ends_and_the_first_goes_on(tmp_path):
    """Also on a port of its own, where nothing else would stop it."""
    kits = make_kits(tmp_path / "kits", settings_of(), teachers=0, requesters=0)
    server = Server(kits / "s0", [sys.executable, "-m", "sedml", "serve"])
    server.restart()
    try:
        upload = kits / "s0" / "data" / "incoming" / "upload.part"
        upload.write_bytes(b"half of a file")
        again = [sys.executable, "-m", "sedml", "serve", str(kits / "s0"), "--port", "0"]
        ended = subprocess.run(again, capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode == 1
        assert "Another server is running on the data folder" in " ".join(ended.stderr.split())
        assert upload.exists()
        assert server.ask("GET", "/readyz").status == 200
    finally:
        server.stop()
