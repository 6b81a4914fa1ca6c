"""A third round: what somebody is handed, and how much of a reader's memory a log takes."""

from __future__ import annotations

import gc
import json
import tracemalloc

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import ValidationError

from sedml.errors import FileFormatError, KitError, SedmlError
from sedml.parts.part_manifest import MANIFEST, Sealed, read_manifest
from sedml.service.client import log_reading
from sedml.service.client.witnessing import witness
from sedml.service.kits import ClientKit
from sedml.service.kits.provisioning import load_enrolment
from sedml.service.log.notes import Signer, parse
from sedml.service.messages import LogLine
from sedml.service.server import public_log
from sedml.service.server.storage import log_rows
from support.cli_calls import invoke
from support.log_lies import as_server, teacher

MIB = 1 << 20


def test_a_log_of_large_entries_does_not_fill_the_memory_of_who_reads_it(
    parties, deployed, kits, data_file, monkeypatch
):
    """S1 writes entries of almost a megabyte, each of which S0 cosigns unseen; a reader keeps all that they say."""
    parties.create(data_file)
    deployed._made.greet()
    node, count = deployed.s1.node, 12
    junk = '{"at":1,"kind":"alarm","x":[' + "[]," * 250_000 + "[]]}"
    monkeypatch.setattr(public_log, "entry_text", lambda values: junk)
    with node.store.write() as connection:
        for _ in range(count):
            public_log.write(connection, node, "x", "x", "x", entry={})
    pages = public_log.page

    def one_by_one(real, node, caller, start):
        page = pages(node, caller, start)
        return page.model_copy(update={"entries": page.entries[:1], "more": start + 1 < page.size})

    as_server(monkeypatch, public_log, "page", 1, one_by_one)
    deployed._made.greet()
    gc.collect()
    tracemalloc.start()
    found = teacher(kits).log()
    gc.collect()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    sent = count * len(junk)
    assert found["s1"].checkpoint.size >= count
    assert kept < sent, f"{kept / MIB:.0f} MiB kept of {sent / MIB:.0f} MiB sent, and there may be 2^24 entries"


@pytest.mark.parametrize("name", ["teacher-001", "operator-s1"])
def test_what_a_reading_keeps_has_an_end(parties, deployed, kits, data_file, monkeypatch, name):
    parties.create(data_file)
    with deployed.s1.node.store.write() as connection:
        public_log.write_all(connection, deployed.s1.node, [("x", "x")] * 300, "x", entry={"kind": "alarm"})
    deployed._made.greet()
    assert invoke("log", "--kit", kits / name).exit_code == 0
    monkeypatch.setattr(log_reading, "_MOST_BYTES", 20_000)
    monkeypatch.setattr(log_reading, "_MOST_OF_ITS_OWN", 20_000)
    shown = invoke("log", "--kit", kits / name)
    assert shown.exit_code == 3
    assert "of entries that say something, more than are read at a time" in " ".join(shown.output.split())


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"hello"])
def test_a_note_that_is_no_text_is_refused_in_words(parties, deployed, kits, data_file, tmp_path, content):
    parties.create(data_file)
    deployed._made.greet()
    path = tmp_path / "s0.witnessed"
    path.write_bytes(content)
    shown = invoke("log", "--kit", kits / "teacher-001", "--witnessed", path, "--witness-key", "x+00000000+AAAA")
    assert shown.exception is None or isinstance(shown.exception, SedmlError | SystemExit), repr(shown.exception)


def test_the_name_of_a_witness_does_not_steer_a_terminal(parties, deployed, kits, data_file, tmp_path):
    """Somebody hands a person a note and a key, the name of which is more than a name."""
    parties.create(data_file)
    deployed._made.greet()
    with deployed.s0.node.store.read() as connection:
        note = log_rows.kept(connection, "own")[0]
    name = "\x1b[2K\x1b[GS0\u00a0and\u00a0S1:\u00a0all\u00a0in\u00a0order.\u00a0watcher"
    signer = Signer(name, Ed25519PrivateKey.generate())
    checkpoint = parse(note)[0]
    path = tmp_path / "s0.witnessed"
    path.write_text(note + signer.verifier.line(signer.cosign(checkpoint, 2_000_000_000), 2_000_000_000))
    key = signer.verifier.vkey
    shown = invoke("log", "--kit", kits / "teacher-001", "--witnessed", path, "--witness-key", key)
    assert "\x1b[2K" not in shown.output


def test_a_note_that_windows_has_edited_is_still_one(parties, deployed, kits, data_file, tmp_path):
    parties.create(data_file)
    deployed._made.greet()
    [note, _] = anyio.run(witness, ClientKit.load(kits / "teacher-004"))
    path = tmp_path / "s0.witnessed"
    path.write_bytes(note.note.replace("\n", "\r\n").encode())
    shown = invoke("log", "--kit", kits / "teacher-001", "--witnessed", path, "--witness-key", note.vkey)
    assert shown.exit_code == 0
    assert f"saw the first {note.checkpoint.size} of these" in " ".join(shown.output.split())


def test_an_enrolment_does_not_steer_a_terminal(tmp_path):
    path = tmp_path / "enrolment.json"
    good = {"name": "x", "role": "teacher", "s0": "ab" * 32, "s1": "cd" * 32}
    path.write_text(json.dumps(good | {"\x1b[2K": 1}))
    with pytest.raises(KitError) as refused:
        load_enrolment(path)
    assert "\x1b" not in str(refused.value)
    assert " [2K: extra inputs" in str(refused.value)


@pytest.mark.parametrize("at", [1e300, float("inf"), -1.0])
def test_a_line_is_of_a_time_that_a_calendar_has(at):
    with pytest.raises(ValidationError):
        LogLine(at=at, actor="x", action="x", subject="x", outcome="x", salt="")


def test_a_manifest_of_lists_in_lists_is_refused_in_words(tmp_path):
    (tmp_path / MANIFEST).write_text("[" * 200_000)
    with pytest.raises(FileFormatError, match="is damaged"):
        read_manifest(tmp_path, Sealed)
