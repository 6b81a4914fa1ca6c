"""An operator reads the audit log of its server, and hears whether it still is what was written."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass

from sedml.errors import InputError
from sedml.service.client.connection import Connection
from sedml.service.messages import AuditEntry, AuditHead, AuditList

__all__ = ["AuditReading", "parse_head", "read_audit"]

_END = 2**63 - 1


@dataclass(frozen=True)
class AuditReading:
    """What was read of an audit log."""

    entries: tuple[AuditEntry, ...]
    """The newest ones."""
    read: int
    """How many lines were looked at."""
    head: AuditHead | None
    complaint: str | None
    """What does not fit, if anything."""


async def read_audit(server: Connection, *, whole: bool, since: AuditHead | None, last: int) -> AuditReading:
    """The last so many lines; checked is what is read: from the beginning, from a head noted earlier, or only these."""
    complaint = None if since is None else await _missing(server, since)
    head = (await _page(server, _END)).head
    newest = 0 if head is None else head.number
    after = 0 if whole else max(0, newest - last) if since is None else since.number
    kept: deque[AuditEntry] = deque(maxlen=last)
    read = 0
    while True:
        page = await _page(server, after)
        read += len(page.entries)
        kept.extend(page.entries)
        if complaint is None and page.wrong is not None:
            complaint = f"Line {page.wrong} does not fit: it was changed, or a line before it is gone."
        if not page.more:
            return AuditReading(tuple(kept), read, page.head, complaint)
        after = page.entries[-1].number


def parse_head(text: str) -> AuditHead:
    """A head as it was noted: number and digest with a colon between them."""
    found = re.fullmatch(r"([1-9][0-9]{0,17}):([0-9a-f]{64})", text.strip())
    if found is None:
        raise InputError("This is not the head of an audit log.", "Give a number, a colon and 64 hexadecimal digits.")
    return AuditHead(number=int(found[1]), digest=found[2])


async def _missing(server: Connection, noted: AuditHead) -> str | None:
    page = await _page(server, noted.number - 1)
    if not page.entries or page.entries[0].number != noted.number:
        return f"Line {noted.number}, which you noted, is gone: the log was cut off, or put back to an older state."
    if page.entries[0].digest != noted.digest:
        return f"Line {noted.number} is not the one you noted: it or a line before it was written anew."
    return None


async def _page(server: Connection, after: int) -> AuditList:
    return await server.get(f"/v1/audit?after={after}", AuditList)
