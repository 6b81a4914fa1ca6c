"""A teacher's receipts, in `receipts/` of its kit: what both servers acknowledged, and that the job is in both logs.

All of it can be checked without asking anybody: each server has signed its acknowledgement with the key of its log, and
the proofs are under checkpoints that it has signed and the other has cosigned.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict

from sedml.errors import LogError
from sedml.service.client.log_reading import check_proof, keys_of
from sedml.service.client.views import VoteReceipt
from sedml.service.kits import ClientKit
from sedml.service.kits.folder import inner_folder, read_bytes, replace_private
from sedml.service.messages import JobProof, Receipt, ServerName
from sedml.service.terms import Terms


class KeptReceipt(BaseModel):
    """One vote, as the kit keeps it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    terms: Terms
    voted_at: AwareDatetime
    """By the clock of this machine: signed by nobody."""
    receipts: dict[ServerName, Receipt]
    proofs: dict[ServerName, JobProof]
    sent_bytes: int
    """What left the organisation for this vote, to both servers together."""

    @property
    def taken(self) -> dict[ServerName, datetime]:
        """When each server took the ballot, as it has signed."""
        return {name: one.received_at for name, one in sorted(self.receipts.items())}


def keep(kit: ClientKit, terms: Terms, found: VoteReceipt, proofs: Mapping[ServerName, JobProof]) -> None:
    """Put the receipt of a vote into the kit; of a vote that is repeated, the first one stays."""
    path = _folder(kit) / f"{terms.id}.json"
    if path.exists() or found.s0 is None or found.s1 is None:
        return
    document = KeptReceipt(
        terms=terms,
        voted_at=datetime.now(UTC),
        receipts={"s0": found.s0, "s1": found.s1},
        proofs=dict(proofs),
        sent_bytes=sum(terms.ballot.sizes),
    )
    replace_private(path, document.model_dump_json(indent=1))


def kept(kit: ClientKit) -> tuple[list[KeptReceipt], list[Path]]:
    """All of them, the one first that a server took first; and the files that are damaged."""
    found, damaged = [], []
    for path in sorted(_folder(kit).glob("*.json")):
        try:
            receipt = KeptReceipt.model_validate_json(read_bytes(path))
            found.append((min(receipt.taken.values()), receipt))
        except ValueError:
            damaged.append(path)
    return [receipt for _, receipt in sorted(found, key=lambda one: one[0])], damaged


def verify(kit: ClientKit, receipt: KeptReceipt) -> str | None:
    """What is wrong with a receipt, if anything; nobody is asked."""
    job, keys = receipt.terms.id, keys_of(kit)
    if not keys:
        return "The kit does not have the keys of the logs."
    if len({one.ballot for one in receipt.receipts.values()}) != 1:
        return "The servers acknowledged two different ballots."
    for name in keys:
        acknowledged, proof = receipt.receipts.get(name), receipt.proofs.get(name)
        of = None if acknowledged is None else (acknowledged.server, acknowledged.job, acknowledged.teacher)
        if acknowledged is None or of != (name, job, kit.name):
            return f"{name.upper()} acknowledged something else."
        if proof is None:
            return f"There is no proof that the job is in the log of {name.upper()}."
        try:
            keys[name].check_receipt(acknowledged.text, acknowledged.signature)
            check_proof(keys, name, receipt.terms, proof)
        except LogError as error:
            return f"{name.upper()}: {error.what}"
    return None


def _folder(kit: ClientKit) -> Path:
    return inner_folder(kit.folder, "receipts")
