"""Durable transactions on SQLite, PostgreSQL or another database, and clear errors from them.

In the order they depend on each other: `versioned_tables` is what a database holds, `engines` how each kind is opened
so that nothing is lost, and `transactions` what is done with it.
"""

from sedml.extras import explain_missing

with explain_missing():
    from sedml.database.engines import sound_url
    from sedml.database.transactions import Database
    from sedml.database.versioned_tables import Schema

__all__ = ["Database", "Schema", "sound_url"]
