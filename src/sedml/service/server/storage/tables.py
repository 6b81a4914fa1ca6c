"""The tables of a server. Columns named `sealed_*` are encrypted (`vault`); times are seconds since 1970."""

from __future__ import annotations

import sqlalchemy as sa

from sedml.database import Schema
from sedml.errors import StoreError

__all__ = ["SCHEMA", "accounts", "audit", "ballot_pages", "ballots", "blocks", "jobs", "leases"]

_TABLES = sa.MetaData()
_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite numbers rows by itself only for INTEGER

_versions = sa.Table(
    "sedml_store_version", _TABLES, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
)

accounts = sa.Table(
    "sedml_store_accounts",
    _TABLES,
    sa.Column("name", sa.String(63), primary_key=True),
    # Whose account it is: no organisation has two of teachers at a time.
    sa.Column("organisation", sa.String(63), nullable=False, index=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("revoked_at", sa.Double),
)

jobs = sa.Table(
    "sedml_store_jobs",
    _TABLES,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("owner", sa.String(63), nullable=False),
    sa.Column("terms", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("votes", sa.Integer, nullable=False, default=0),
    sa.Column("closed_at", sa.Double),
    sa.Column("finished_at", sa.Double),
    sa.Column("expires_at", sa.Double, nullable=False),
    # When it last came any further.
    sa.Column("moved_at", sa.Double, nullable=False),
    # By a clock that was doubted then (`believed_time`): these times are set anew as soon as it is believed.
    sa.Column("times_doubted", sa.Boolean, nullable=False, default=False),
    sa.Column("roster_teachers", sa.Integer),
    sa.Column("roster_digest", sa.String(64)),
    # The other server knows that this one has ended the job without a result.
    sa.Column("peer_told", sa.Boolean, nullable=False, default=False),
    sa.Column("problem", sa.Text),
    sa.Column("inputs_deleted", sa.Boolean, nullable=False, default=False),
    sa.Column("deleted", sa.Boolean, nullable=False, default=False),
)

ballots = sa.Table(
    "sedml_store_ballots",
    _TABLES,
    sa.Column("job", sa.ForeignKey(jobs.c.id), primary_key=True),
    sa.Column("teacher", sa.String(63), primary_key=True),
    sa.Column("organisation", sa.String(63), nullable=False),
    # What names the parts of the teacher's data that the votes are of, if it says so.
    sa.Column("parts", sa.String(64)),
    # As this server has computed it from its half; a ballot counts if the other one has the same.
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("received_at", sa.Double, nullable=False),
    # The teacher's place on the roster; without one the ballot is not counted.
    sa.Column("seat", sa.Integer),
    # One ballot an organisation, under whichever accounts, and one of the same parts.
    sa.UniqueConstraint("job", "organisation"),
    sa.UniqueConstraint("job", "parts"),
)

# What is kept of each page of a half (`sedml.protocol.ballots`); a block is counted page by page, over all teachers.
ballot_pages = sa.Table(
    "sedml_store_ballot_pages",
    _TABLES,
    sa.Column("job", sa.ForeignKey(jobs.c.id), primary_key=True),
    sa.Column("page", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("teacher", sa.String(63), primary_key=True),
    sa.Column("sealed", sa.LargeBinary, nullable=False),
)

# Nothing of a row but `sealed_labels`, which has always the same size, depends on votes.
blocks = sa.Table(
    "sedml_store_blocks",
    _TABLES,
    sa.Column("job", sa.ForeignKey(jobs.c.id), primary_key=True),
    sa.Column("block", sa.Integer, primary_key=True),
    sa.Column("samples", sa.Integer, nullable=False),
    # The attempt that was begun last, and how far it is: waiting, running, saved, final (`run.repetition`).
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("state", sa.String(8), nullable=False),
    sa.Column("sealed_labels", sa.LargeBinary),
    sa.Column("seconds", sa.Double),
    sa.Column("rounds", sa.Integer),
    sa.Column("bytes", sa.BigInteger),
)

audit = sa.Table(
    "sedml_store_audit",
    _TABLES,
    sa.Column("number", _Number, primary_key=True),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("actor", sa.String(80), nullable=False),
    sa.Column("action", sa.String(40), nullable=False, index=True),
    sa.Column("subject", sa.String(80), nullable=False),
    sa.Column("outcome", sa.String(80), nullable=False),
    # Of this line and the one before it (`audit_chain`); empty in lines of version 2 until the server is started.
    sa.Column("digest", sa.String(64), nullable=False),
)


# Who of several replicas may do what only one may do, and until when, by the clock of the database (`leadership`).
leases = sa.Table(
    "sedml_store_leases",
    _TABLES,
    sa.Column("name", sa.String(16), primary_key=True),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("until", sa.Double, nullable=False),
    # When the holder last heard of the other server.
    sa.Column("heard_at", sa.Double),
)


SCHEMA = Schema(
    name="store",
    tables=_TABLES,
    version=7,
    error=StoreError,
    again="Then send the request again: the same bytes are taken once.",
    older="Finish its jobs with the release of sedml that wrote it, then begin a new store and keep the ledger: "
    "docs/operations.md says how.",
    restore="Stop the server and restore the newest backup; docs/operations.md says what that means for running jobs.",
)
