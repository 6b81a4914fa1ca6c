"""A fourth round: what cures of the log do to servers that are honest."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import pytest

from sedml.errors import ConflictError, LogError, NotFoundError
from sedml.mpc.certificates import Authority
from sedml.service.client import Operator
from sedml.service.kits.log_key import LOG_CERTIFICATE, new_log_key, read_log_key
from sedml.service.log.notes import Checkpoint
from sedml.service.server import public_log
from support.deployment import conflict_of
from support.log_lies import accept_restored, as_server, put_back_one, size
from support.snapshots import keep


def grow(made, node, count=3):
    for _ in range(count):
        public_log.record(node, "x", "y", "z", "w")
    made.greet()


@contextmanager
def another_key(node, kits, folder):
    """This server has a key for its log that the authority has certified, and is not the one that others know."""
    authority = Authority(*((kits / "authority" / name).read_bytes() for name in ("ca.pem", "ca.key")))
    folder.mkdir()
    for name, content in new_log_key(authority, node.kit.name).items():
        (folder / name).write_bytes(content)
    signer, _ = read_log_key(folder, authority.certificate, node.kit.name)
    own = node.kit
    object.__setattr__(
        node, "kit", replace(own, log_signer=signer, log_certificate=(folder / LOG_CERTIFICATE).read_bytes())
    )
    yield
    object.__setattr__(node, "kit", own)


@pytest.mark.parametrize("more", [0, 2])
def test_who_puts_the_key_of_the_log_back_goes_on(parties, deployed, kits, data_file, tmp_path, more):
    """S1 was put back, first with another key; its operator does what it is told, and shows it with the old one."""
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    keep(made, tmp_path / "kept")
    kept = size(node)
    grow(made, node)
    put_back_one(made, 1, tmp_path / "kept", tmp_path)
    with another_key(node, kits, tmp_path / "key"), pytest.raises(LogError):
        made.greet()
    with pytest.raises(ConflictError, match="another key"):
        accept_restored(kits, honest)
    for _ in range(more):
        public_log.record(node, "x", "y", "z", "w")
    with pytest.raises(LogError):
        made.greet()
    accept_restored(kits, honest)
    made.greet()
    assert conflict_of(honest).size == 0, "there is none"
    assert size(node) >= kept


def test_nothing_is_called_accepted_that_is_not_on_record(parties, deployed, kits, data_file, monkeypatch):
    """S1 shows what it had before, and all of its log again by the time that the operator of S0 accepts the former."""
    made, honest, node = deployed._made, deployed.s0.node, deployed.s1.node
    parties.create(data_file)
    made.greet()
    kept = size(node)
    grow(made, node)

    def old(real, node, connection):
        return Checkpoint(real(node, connection).origin, kept, public_log.tree_of(node, connection).root(kept))

    with monkeypatch.context() as patch:
        as_server(patch, public_log, "checkpoint_of", 1, old)
        with pytest.raises(LogError):
            made.greet()
    wanted = conflict_of(honest)
    made.greet()
    with pytest.raises(NotFoundError, match="extends what it has shown before"):
        Operator(kits / "operator-s0").accept_restored(wanted.size, wanted.root)
