"""Room for public data: what one requester may have here, and what is left of the disk for everything else.

A job counts as soon as it is on record, with all that its terms announce, and until its data is deleted. So neither
uploads at the same time nor replicas get past the limit. A file gets all of its room on the disk before its first byte
is taken, which whoever else looks at the disk then sees, in whichever process.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from threading import Lock

import sqlalchemy as sa

from sedml.errors import NoRoomError
from sedml.service.server.node import Node
from sedml.service.server.storage.tables import jobs
from sedml.service.states import ENDED_WITHOUT_RESULT
from sedml.service.terms import Terms

__all__ = ["allocate", "check_disk", "check_requester", "takes_uploads"]

_RECORD = 4096
"""What a job leaves behind for good, besides its terms: its row, its lines of the log."""
_UNABLE = (errno.EINVAL, errno.EOPNOTSUPP)

_turn = Lock()


def check_requester(node: Node, connection: sa.Connection, terms: Terms) -> None:
    """Raise if the public data of a new job is more than its requester may have here besides that of its others."""
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
