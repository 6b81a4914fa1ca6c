"""What a server needs on its machine, looked at without starting it: settings, disk, databases. For `sedml doctor`."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from sedml.database import sound_url
from sedml.errors import SedmlError
from sedml.mpc.kernel import kernel, kernel_in_use
from sedml.service.kits import Address, ServerKit
from sedml.service.kits.inspection import Check, check_space
from sedml.service.server.settings import Settings, file_of, load_settings

_PATIENCE = 5


@dataclass(frozen=True)
class Preflight:
    """What was found, and where the server listens by its settings; no addresses if those cannot be used."""

    checks: tuple[Check, ...]
    listens: Address | None = None
    link: Address | None = None


def inspect(kit: ServerKit) -> Preflight:
    """Look at all of it; nothing is changed or made."""
    try:
        settings = load_settings(kit)
    except SedmlError as error:
        return Preflight((Check("settings", "FAIL", error.what, error.do),))
    checks = (
        Check("settings", "PASS", f"there are budgets for: {', '.join(settings.budgets)}")
        if settings.budgets
        else Check("settings", "WARN", "no cohort has a budget", "Add a table [budgets.NAME] to server.toml."),
        check_space("disk", _free(settings.data_dir)),
        *_databases(settings),
        _kernel(),
    )
    return Preflight(checks, Address(settings.host, settings.port), Address(settings.link_host, settings.link_port))


def _databases(settings: Settings) -> list[Check]:
    places = {"store": settings.database, "ledger": settings.ledger}
    return [_database(what, where) for what, where in places.items()]


def _database(what: str, where: str) -> Check:
    path = file_of(where)
    if path is None:
        return _served(what, where)
    if not path.exists():
        return Check(what, "PASS", "not there yet: the first start makes it")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_PATIENCE)) as database:
            database.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.Error:
        return Check(what, "FAIL", f"{path} cannot be read", "Check who may read it; or restore the newest backup.")
    return Check(what, "PASS", "the database answers")


def _served(what: str, where: str) -> Check:
    """The driver's own words are left out: they may quote the password."""
    try:
        url = sound_url(where)
        options = {"connect_timeout": _PATIENCE} if url.drivername.startswith("postgresql") else {}
        engine = sa.create_engine(url, poolclass=sa.pool.NullPool, connect_args=options)
        with engine.connect() as connection:
            connection.execute(sa.select(sa.literal(1)))
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        return Check(
            what,
            "FAIL",
            f"the database of this address does not answer ({type(error).__name__})",
            "Check that it runs, and `database` and `ledger` in server.toml.",
        )
    return Check(what, "PASS", "the database answers")


def _kernel() -> Check:
    """What the hot loops run on. The bytes are the same with C and with NumPy, which is slower."""
    try:
        kernel()
        return Check("kernel", "PASS", kernel_in_use())
    except SedmlError as error:
        return Check("kernel", "FAIL", error.what, error.do)


def _free(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
