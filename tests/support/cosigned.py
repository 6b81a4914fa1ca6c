"""The other server's part in the log of a server that stands alone in a test: cosignatures, with the key of its kit."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sedml.service.kits import ServerKit
from sedml.service.log.merkle import EMPTY
from sedml.service.log.notes import Checkpoint
from sedml.service.server import public_log
from sedml.service.server.link import cosigning
from sedml.service.server.node import Node, now
from sedml.service.server.storage import log_rows


def cosign_for(node: Node) -> None:
    """As a greeting would, in which the other server shows nothing new."""
    peer = _kit(node.kit.folder.parent / node.kit.peer)
    with node.store.write() as connection:
        if log_rows.kept(connection, "peer") is None:
            nothing = Checkpoint(peer.log_signer.name, 0, EMPTY)
            note = f"{nothing.text}\n{peer.log_signer.verifier.line(peer.log_signer.sign(nothing))}"
            log_rows.keep(connection, "peer", note, peer.log_certificate.decode())
    with node.store.read() as connection:
        checkpoint = public_log.checkpoint_of(node, connection)
    time = int(now(node))
    cosigning._take(node, checkpoint, time, peer.log_signer.cosign(checkpoint, time))


@lru_cache(maxsize=16)
def _kit(folder: Path) -> ServerKit:
    return ServerKit.load(folder)
