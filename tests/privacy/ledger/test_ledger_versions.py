"""A ledger of an older version counted something else, and is refused with what to do."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sedml.errors import LedgerError
from sedml.privacy.ledger import Ledger


@pytest.mark.parametrize("version", [1, 2])
def test_older_books_are_refused_and_left_alone(where, version):
    with Ledger.open(where) as ledger:
        ledger.set_budget("c", 2.0, 1e-5)
        ledger.reserve("c", "j", 0.01)
    engine = sa.create_engine(where.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE sedml_ledger_version SET version = {version}")
    with pytest.raises(LedgerError, match="promise them a new budget in a new ledger"):
        Ledger.open(where)
    with engine.begin() as connection:
        assert connection.exec_driver_sql("SELECT version FROM sedml_ledger_version").scalar() == version
        assert connection.exec_driver_sql("SELECT COUNT(*) FROM sedml_ledger_jobs").scalar() == 1
    engine.dispose()
