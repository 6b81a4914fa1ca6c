"""The tables of a server. Columns named `sealed_*` are encrypted (`vault`); times are seconds since 1970."""

from __future__ import annotations

import sqlalchemy as sa

from sedml.database import Schema
from sedml.errors import StoreError

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

# Tokens that an account had before the one it has: they are good for nobody, ever again.
spent_tokens = sa.Table(
    "sedml_store_spent_tokens",
    _TABLES,
    sa.Column("token_hash", sa.String(64), primary_key=True),
    sa.Column("account", sa.ForeignKey(accounts.c.name), nullable=False, index=True),
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
    # Where in the log it was put on record, and its newest entry that must be cosigned before it goes on.
    sa.Column("entry", sa.BigInteger, nullable=False),
    sa.Column("due", sa.BigInteger, nullable=False),
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

# The leaves of the log, in their order. A line is for the operator; `entry` is what everybody may know, or empty.
log = sa.Table(
    "sedml_store_log",
    _TABLES,
    sa.Column("number", _Number, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("actor", sa.String(80), nullable=False),
    sa.Column("action", sa.String(40), nullable=False, index=True),
    sa.Column("subject", sa.String(80), nullable=False),
    sa.Column("outcome", sa.String(80), nullable=False),
    sa.Column("entry", sa.Text, nullable=False),
    sa.Column("salt", sa.LargeBinary, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False),
)

# "own": the newest checkpoint of this log that the other server has cosigned; "lost" and "claim": that this log was put
# back, and what else the other server said of it (`link.cosigning`); of the other log, see `peer_log`; "storage": under
# which key the store is.
notes = sa.Table(
    "sedml_store_notes",
    _TABLES,
    sa.Column("name", sa.String(16), primary_key=True),
    sa.Column("text", sa.Text, nullable=False),
    # Of the key that signs the other server's log.
    sa.Column("certificate", sa.Text),
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
    version=8,
    error=StoreError,
    again="Then send the request again: the same bytes are taken once.",
    older="Finish its jobs with the release of sedml that wrote it, then begin a new store and keep the ledger: "
    "docs/how-to/operate/upgrade.md says how.",
    restore="Stop the server and restore the newest backup; docs/how-to/operate/backups.md says what that means for "
    "running jobs.",
)
