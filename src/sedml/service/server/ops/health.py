"""How the server is: for load balancers, for its operator's metrics, for `sedml doctor`."""

from __future__ import annotations

import shutil

import sqlalchemy as sa
from cryptography import x509

import sedml
from sedml.errors import SedmlError
from sedml.release import kernel_hash, release_hash
from sedml.service.kits import revoked_in
from sedml.service.kits.inspection import expiries
from sedml.service.server import data_room, public_log
from sedml.service.server.access import Caller
from sedml.service.server.node import Node
from sedml.service.server.storage import log_rows
from sedml.service.server.storage.tables import ballots, blocks, jobs
from sedml.service.server_messages import API_VERSION, About, Health, Readiness, ServerInfo
from sedml.service.states import JobState

_DISK_STEPS = (0, 64 << 20, 2 << 30)  # where `sedml doctor` begins to fail, to warn, and to be content


def life(node: Node) -> Health:
    """What anybody may know: that the process answers."""
    return Health(server=node.kit.name, version=sedml.__version__, time=node.clock())


def about(node: Node) -> About:
    """What anybody may compare: which code this is."""
    return About(server=node.kit.name, version=sedml.__version__, release=release_hash(), kernel=kernel_hash())


def readiness(node: Node) -> Readiness:
    """Whether votes are taken: databases answer, and can be written. Besides, whether there is room for uploads, and
    whether the other server is there: without either, votes are taken all the same, and nobody else could take them.
    """
    checks = {}
    try:
        with node.store.read() as connection:
            connection.execute(sa.select(sa.literal(1)))
        checks["store"] = "ok"
    except SedmlError as error:
        checks["store"] = type(error).__name__
    try:
        for cohort in node.settings.budgets:
            node.ledger.status(cohort)
        checks["ledger"] = "ok"
    except SedmlError as error:
        checks["ledger"] = type(error).__name__
    checks["disk"] = "ok" if data_room.takes_votes(node) else "full"
    ready = all(value == "ok" for value in checks.values())
    uploads = "ok" if data_room.takes_uploads(node) else "refused, since the disk is almost full"
    return Readiness(ready=ready, checks=checks | {"uploads": uploads, "peer": node.peer.verdict()})


def info(node: Node, caller: Caller) -> ServerInfo:
    """Who the server is, and who it takes the caller for."""
    certificate = x509.load_pem_x509_certificate(node.credentials.certificate)
    revoked = revoked_in(node.credentials.authority)
    delay = node.link_delay.seconds
    free = shutil.disk_usage(node.settings.data_dir).free
    if caller.role != "operator":
        # To the byte, it would tell how many labels were stored.
        free = max(step for step in _DISK_STEPS if step <= free)
    return ServerInfo(
        server=node.kit.name,
        version=sedml.__version__,
        api=API_VERSION,
        time=node.clock(),
        account=caller.name,
        role=caller.role,
        certificate_expires=certificate.not_valid_after_utc,
        max_data_bytes=node.settings.max_data_bytes,
        disk_free_bytes=free,
        peer_seen=node.peer.last_heard(),
        link_delay_ms=None if delay is None else 1e3 * delay,
        teachers=None if caller.role == "teacher" else _teachers(node),
        revoked=None if revoked is None else revoked.decode("ascii"),
    )


def _teachers(node: Node) -> int:
    with node.store.read() as connection:
        return data_room.teachers(connection)


def figures(node: Node) -> dict[str, float]:
    """Gauges for metrics: totals that say nothing of any one job."""
    with node.store.read() as connection:
        counted = sa.select(jobs.c.state, sa.func.count()).group_by(jobs.c.state)
        states: dict[str, int] = {row[0]: row[1] for row in connection.execute(counted)}
        count = connection.execute(sa.select(sa.func.count()).select_from(ballots)).scalar_one()
        done = sa.select(sa.func.count(), sa.func.sum(blocks.c.seconds)).where(blocks.c.state == "final")
        finished, seconds = connection.execute(done).one()
        begun = connection.execute(sa.select(sa.func.sum(blocks.c.attempt))).scalar_one()
        alarms = public_log.alarms(connection)
        last, _ = log_rows.newest(connection) or (-1, b"")
    ends = expiries(node.credentials)
    values = {f"certificate_expires_seconds_{which}": end.timestamp() for which, end in ends.items()}
    delay = node.link_delay.seconds
    if delay is not None:
        values["link_delay_seconds"] = delay
    for cohort in node.settings.budgets:
        rho = node.ledger.status(cohort).rho
        values[f"budget_used_ratio_{cohort}"] = (rho.spent + rho.reserved) / rho.budget
    values |= {f"jobs_{state.value}": float(states.get(state.value, 0)) for state in JobState}
    return values | {
        "alarms_total": float(alarms),
        "log_entries_total": float(last + 1),
        "ballots_total": float(count),
        "attempts_total": float(begun or 0),
        "blocks_total": float(finished),
        "protocol_seconds_total": float(seconds or 0.0),
        "link_rounds_total": float(node.traffic.rounds),
        "link_bytes_total": float(node.traffic.bytes),
        "disk_free_bytes": float(shutil.disk_usage(node.settings.data_dir).free),
        "leads": float(node.leads.is_set()),
        "clock_doubted": float(node.time.doubt() is not None),
        "peer_seen_seconds": node.peer.silent_seconds(),
    }
