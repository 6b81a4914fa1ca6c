"""Room for public data and ballots: what one requester may have here, and what is left of the disk for what else.

A job counts as soon as it is on record, with all that its terms announce, and until its data is deleted. So neither
uploads at the same time nor replicas get past the limit. A file gets all of its room on the disk before its first byte
is taken, which whoever else looks at the disk then sees, in whichever process. Of the reserve, votes leave a part to
what makes room again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from threading import Lock

import sqlalchemy as sa

from sedml.errors import NoRoomError, NoRoomForVotesError, counted
from sedml.service.server.node import Node
from sedml.service.server.settings import file_of
from sedml.service.server.storage.tables import accounts, jobs
from sedml.service.states import ENDED_WITHOUT_RESULT
from sedml.service.terms import Terms

_RECORD = 4096
"""What a job leaves behind for good, besides its terms: its row, its lines of the log."""
_LEAST = 32 << 20
"""What is left to deletes at least: SQLite writes twice what they overwrite, and the longest page has 16 MB."""
_UNABLE = (errno.EINVAL, errno.EOPNOTSUPP)

_turn = Lock()


def check_requester(node: Node, connection: sa.Connection, terms: Terms) -> None:
    """Raise if public data or ballots of a new job are more than its requester may have here besides its others."""
    others = jobs.c.owner == terms.requester, jobs.c.id != terms.id
    kept = sa.select(jobs.c.terms).where(*others, ~jobs.c.deleted, jobs.c.state.not_in(ENDED_WITHOUT_RESULT))
    records = sa.select(sa.func.count(), sa.func.sum(sa.func.length(jobs.c.terms))).where(*others)
    number, length = connection.execute(records).one()
    held = sum(json.loads(text)["data_bytes"] for text in connection.execute(kept).scalars())
    held += _RECORD * number + (length or 0)
    most = node.settings.max_data_bytes_per_requester
    if held + terms.data_bytes > most:
        raise NoRoomError(
            f"Your jobs take up {held:,} bytes here; with the {terms.data_bytes:,} of this one it would be more than "
            f"the {most:,} that a requester may have.",
            "Delete jobs that you no longer need (`sedml job delete`), or ask the operators of both servers for more "
            "(`max_data_bytes_per_requester`).",
        )
    voters = min(teachers(connection), node.settings.max_teachers)
    voted = connection.execute(sa.select(jobs.c.terms).where(*others, ~jobs.c.inputs_deleted)).scalars()
    of_each = sum(one.ballot.sizes[node.role] for one in (terms, *map(Terms.model_validate_json, voted)))
    if voters * of_each > node.settings.max_ballot_bytes_per_requester:
        raise NoRoomError(
            f"With this job, your jobs could get ballots of {voters * of_each:,} bytes here from "
            f"{counted(voters, 'teacher')}, more than the {node.settings.max_ballot_bytes_per_requester:,} that a "
            "requester may have.",
            "Ask about fewer samples, run or delete jobs that still take votes, or ask the operators of both servers "
            "for more (`max_ballot_bytes_per_requester`).",
        )


def teachers(connection: sa.Connection) -> int:
    """How many are enrolled."""
    enrolled = accounts.c.role == "teacher", accounts.c.revoked_at.is_(None)
    return connection.execute(sa.select(sa.func.count()).select_from(accounts).where(*enrolled)).scalar_one()


def check_disk(node: Node, size: int) -> None:
    """Raise if so much more public data would leave less room on the disk than is kept for votes."""
    if shutil.disk_usage(node.settings.data_dir).free - size < node.settings.disk_reserve:
        raise NoRoomError(
            f"The disk of this server has no room for {size:,} more bytes of public data; what is left is for votes.",
            "Delete jobs that you no longer need (`sedml job delete`), or ask its operator to make room.",
        )


def takes_uploads(node: Node) -> bool:
    """Whether there is room for any public data."""
    return shutil.disk_usage(node.settings.data_dir).free > node.settings.disk_reserve


def takes_votes(node: Node, size: int = 0) -> bool:
    """Whether ballots of so many bytes leave room to deletes and revocations, where databases are files here."""
    kept = max(_LEAST, node.settings.disk_reserve // 8)
    files = filter(None, map(file_of, (node.settings.database, node.settings.ledger)))
    # What is written lies in the log of the database too for a while.
    return all(shutil.disk_usage(file.parent).free - 2 * size > kept for file in files)


def check_votes(node: Node, size: int) -> None:
    """Raise if ballots of so many bytes are too many for the disk as it is."""
    if not takes_votes(node, size):
        raise NoRoomForVotesError(
            "The disk of this server has no room for more votes; nothing of yours was taken.",
            "Vote again later: its operator has to make room.",
        )


def allocate(node: Node, file: int, size: int) -> None:
    """Give a new file all the room it will need; raises if that would be too much."""
    with _turn:
        check_disk(node, size)
        try:
            os.posix_fallocate(file, 0, size)
        except AttributeError:  # not every system has it
            return
        except OSError as error:
            if error.errno not in _UNABLE:
                raise
    check_disk(node, 0)  # another replica may have done the same
