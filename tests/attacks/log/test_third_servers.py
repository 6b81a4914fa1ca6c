"""A third round: what a lying server does to the other one's memory of its log."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import pytest
import sqlalchemy as sa
import structlog
from cryptography import x509

from sedml.errors import LogError, SedmlError
from sedml.mpc.channel import MemoryChannel
from sedml.service.client import Operator
from sedml.service.client.log_summary import complaints
from sedml.service.log.merkle import EMPTY, check_consistency
from sedml.service.log.notes import Checkpoint, parse
from sedml.service.server import public_log
from sedml.service.server.link import cosigning, greeting
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import log
from support.cli_calls import invoke
from support.deployment import conflict_of
from support.log_lies import accept_restored, alarms, as_server, put_back_one, size, teacher
from support.snapshots import keep


def grow(made, node, count=3):
    for _ in range(count):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()


def shown(made, patch, root=None, entries=None):
    """S1 shows another checkpoint once."""

    def lie(real, node, connection):
        true = real(node, connection)
        if root is None:
            return Checkpoint(true.origin, entries, public_log.tree_of(node, connection).root(entries))
        return Checkpoint(true.origin, true.size if entries is None else entries, root)

    with patch.context() as here:
        as_server(here, public_log, "checkpoint_of", 1, lie)
        with pytest.raises(LogError):
            made.greet()


def test_the_one_fork_there_was_is_not_pushed_out_by_checkpoints_that_do_fit(
    parties, deployed, kits, data_file, monkeypatch
):
    """S1 shows its own earlier checkpoints, which do fit, before the fork and after it: the evidence is gone."""
    made, honest = deployed._made, deployed.s0.node
    parties.create(data_file)
    grow(made, deployed.s1.node, 12)
    for entries in range(1, 5):
        shown(made, monkeypatch, entries=entries)
        made.greet()
    shown(made, monkeypatch, root=bytes([9]) * 32)
    made.greet()
    for entries in range(5, 9):
        shown(made, monkeypatch, entries=entries)
        made.greet()
    assert bytes([9]) * 32 in {parse(one)[0].root for one in public_log.head(honest, 0).forks}
    told = complaints(teacher(kits).log(), made.clock())
    assert any("S1 has signed two logs that do not fit together" in one for one in told)


def test_nothing_has_grown_from_a_root_of_no_entries_that_is_none():
    with pytest.raises(LogError):
        check_consistency((0, bytes(32)), (5, bytes([1]) * 32), [])
    check_consistency((0, EMPTY), (5, bytes([1]) * 32), [])


def test_each_fork_raises_an_alarm_whatever_was_refused_before(parties, deployed, data_file, monkeypatch):
    """S1 first shows a checkpoint of no entries with a root of its own, of which everything is a continuation."""
    made, honest = deployed._made, deployed.s0.node
    parties.create(data_file)
    grow(made, deployed.s1.node)
    roots, told = [(0, bytes([7]) * 32), *((None, bytes([one]) * 32) for one in (8, 9, 10))], []
    for entries, root in roots:
        with monkeypatch.context() as patch, structlog.testing.capture_logs() as said:
            proves_nothing(patch)
            shown(made, patch, root=root, entries=entries)
        lines = [one for one in said if one["event"] == "log.alarm" and not one["what"].startswith("This server")]
        told += [one["shown"] for one in lines]  # at S0
    assert told == [f"{size(deployed.s1.node) if entries is None else 0}:{root.hex()}" for entries, root in roots]
    assert conflict_of(honest).root == roots[-1][1].hex()


def sending(patch, step, change):
    """S1 sends something else in a step of the link."""
    real_exchange, real_cosign = MemoryChannel.exchange, greeting.cosign

    def exchange(channel, block, name, arrays):
        lies = name == step and getattr(channel, "of_s1", False)
        return real_exchange(channel, block, name, change(arrays) if lies else arrays)

    def cosign(node, channel):
        channel.of_s1 = node.role == 1
        return real_cosign(node, channel)

    patch.setattr(greeting, "cosign", cosign)
    patch.setattr(MemoryChannel, "exchange", exchange)


def proves_nothing(patch):
    """S1 proves nothing about what S0 knows (its base is nothing), and says that all extends what S0 has refused."""
    nothing, grown = cosigning._path(255, []), cosigning._path(1, [])
    sending(patch, "log/shown", lambda arrays: [arrays[0], nothing, grown])


def test_a_doubted_clock_that_runs_ahead_takes_no_cosignature_from_next_year(
    parties, deployed, kits, data_file, monkeypatch
):
    """log.md: while the clock is doubted, one that is ahead of the last one by more than the time since is refused."""
    made, node = deployed._made, deployed.s0.node
    parties.create(data_file)
    made.greet()
    true = made.clock().timestamp()

    def late(real, node, known, there):
        verdict, _, _ = real(node, known, there)
        time = int(true + 400 * 86_400)
        return verdict, time, node.kit.log_signer.cosign(there.checkpoint, time)

    public_log.record(node, "x", "y", "z", "w")
    with monkeypatch.context() as patch:
        as_server(patch, cosigning, "_examine", 1, late)
        as_server(patch, greeting, "now", 1, lambda real, node: true)
        made.clock.jump(days=400)  # of S0; S1 says what time it is, so S0 doubts its clock
        assert deployed.s0.node.time.doubt() is not None
        with suppress(LogError):
            made.greet()
    made.clock.reset()
    with node.store.read() as connection:
        note = log_rows.kept(connection, "own")[0]
    at = deployed.s1.node.kit.log_signer.verifier.cosigned_at(note)
    assert at <= true + 86_400 + 60


def with_version(der, version):
    """The same certificate, which says that it is of a version that there is none of."""
    place = der.index(b"\xa0\x03\x02\x01\x02")
    return der[: place + 4] + bytes([version]) + der[place + 5 :]


def test_a_certificate_of_no_version_is_refused_like_any_other(parties, deployed, data_file, monkeypatch):
    """It is a lie like others: S0 refuses, with an alarm, and does not break off with a fault of its own."""
    made = deployed._made
    parties.create(data_file)
    made.greet()

    def other(arrays):
        raw = arrays[3].tobytes()
        der = with_version(raw[2 : 2 + int.from_bytes(raw[:2])], 9)
        return [*arrays[:3], cosigning._bytes(len(der).to_bytes(2) + der, 2048)]

    sending(monkeypatch, "log/known", other)
    with pytest.raises(SedmlError):
        made.greet()


def test_a_certificate_of_no_version_does_not_crash_a_client(parties, deployed, kits, data_file, monkeypatch):
    """The first time that a kit looks at a log, S1 shows it that."""
    parties.create(data_file)
    deployed._made.greet()

    def lie(real, node, seen):
        head = real(node, seen)
        pem = head.certificates["s1"].encode()
        der = with_version(x509.load_pem_x509_certificate(pem).public_bytes(cosigning.Encoding.DER), 9)
        text = "-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der).decode() + "-----END CERTIFICATE-----\n"
        return head.model_copy(update={"certificates": dict.fromkeys(("s0", "s1"), text)})

    as_server(monkeypatch, public_log, "head", 1, lie)
    for name in ("s0.pem", "s1.pem"):
        (kits / "teacher-003" / "log" / name).unlink(missing_ok=True)
    with pytest.raises(SedmlError):
        teacher(kits, 3).log()


def test_the_figure_that_is_accepted_is_the_one_that_was_said(parties, deployed, kits, data_file, monkeypatch):
    """S1 proves all that is left until the operator of S0 has looked, and then nothing, of the same checkpoint."""
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    kept = size(node)
    grow(made, node, 5)
    shown(made, monkeypatch, entries=kept)
    said = " ".join(invoke("log", "--kit", kits / "operator-s0").output.split())
    assert f"The first {kept} are proven to be what they were" in said
    with monkeypatch.context() as patch:
        proves_nothing(patch)
        shown(made, patch, entries=kept)
    accept_restored(kits, honest)
    [entry] = [json.loads(one) for one in entries_of(honest) if '"kind":"restored"' in one]
    assert entry["kept"]["size"] == kept, entry


def entries_of(node):
    with node.store.read() as connection:
        return connection.execute(sa.select(log.c.entry).order_by(log.c.number)).scalars().all()


@pytest.mark.filterwarnings("ignore:.*was put back")
def test_a_restore_is_not_told_again_for_ever(parties, deployed, kits, data_file, tmp_path, monkeypatch):
    """S1 repeats, one after the other, what S0 had signed before it was put back, long after that was accepted."""
    made, honest = deployed._made, deployed.s0.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "kept")
    lost = []
    for _ in range(12):
        grow(made, honest, 1)
        with deployed.s1.node.store.read() as connection:
            note = log_rows.kept(connection, "peer")[0]
        own = honest.kit.log_signer.verifier
        lost.append(cosigning._head(parse(note)[0].head) + own.signature(note))
    put_back_one(made, 0, tmp_path / "kept", tmp_path)
    with pytest.raises(LogError):
        made.greet()
    accept_restored(kits, deployed.s1.node)
    made.greet()
    made.greet()
    before, count = len(alarms(honest)), 0
    for turn in range(24):
        old = lost[turn % 12]

        def repeated(arrays, old=old):
            heads = cosigning._bytes(old[:40] + arrays[0].tobytes()[: 40 * 63], 40 * 64)
            return [heads, cosigning._bytes(old[40:], 64), *arrays[2:]]

        with monkeypatch.context() as patch, structlog.testing.capture_logs() as said:
            sending(patch, "log/known", repeated)
            with suppress(LogError):
                made.greet()
        count += sum(one["event"] == "log.alarm" and "it was put back" in one["what"] for one in said)
    assert count == 7, "eight in all"
    assert len(alarms(honest)) - before <= 3


def test_an_acceptance_whose_answer_was_lost_can_be_sent_again(parties, deployed, kits, data_file, monkeypatch):
    """Clients repeat every call whose answer does not come; the operator hears that there was nothing to accept."""
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    kept = size(node)
    grow(made, node, 5)
    shown(made, monkeypatch, entries=kept)
    wanted = conflict_of(honest)
    for _ in range(2):
        Operator(kits / "operator-s0").accept_restored(wanted.size, wanted.root)
    assert sum('"kind":"restored"' in one for one in entries_of(honest)) == 1
