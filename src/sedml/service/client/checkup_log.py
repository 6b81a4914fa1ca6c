"""Whether a server's log is in order: its newest checkpoint, checked and remembered as before a vote."""

from __future__ import annotations

from datetime import UTC, datetime

from sedml.errors import NotCosignedError, SedmlError
from sedml.service.client.connection import Connection
from sedml.service.client.log_reading import LogReading, newest_head
from sedml.service.client.log_summary import complaints
from sedml.service.client.pair import Pair
from sedml.service.kits import ClientKit
from sedml.service.kits.inspection import Check
from sedml.service.log.merkle import Tree

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_TELL = "Tell both operators: no new job runs until they have looked into it (docs/how-to/operate/log.md)."
_CLOCK = "Set this machine's clock by NTP; if it is right, tell both operators: ten minutes is the most it should be."


async def check_log(kit: ClientKit, pair: Pair, server: Connection) -> Check:
    """How many entries it has, how old the other server's cosignature is, and what somebody should look into."""
    what = f"{server.name.upper()} log"
    try:
        # An operator's kit reaches one server, so it has no other log to ask.
        apart = pair.s0 is not pair.s1
        head, checkpoint, time, restored = await newest_head(kit, pair, server, excused=apart)
    except NotCosignedError as error:
        return Check(what, "WARN", error.what, f"{error.do} If it stays so, tell both operators.")
    except SedmlError as error:
        return Check(what, "FAIL", error.what, error.do)
    now = datetime.now(UTC)
    reading = LogReading(server.name, head.checkpoint, checkpoint, time, (), 0, head, Tree())
    wrong = complaints({server.name: reading}, now)
    do = ""
    if wrong:
        do = _CLOCK if head.conflict is None else _TELL
    if restored:
        wrong.append("It was put back to an older state, and the other operator knows it.")
        do = do or "`sedml log` shows when, and how many entries are proven to be what they were."
    other = "S1" if server.name == "s0" else "S0"
    found = f"{checkpoint.size:,} entries, cosigned by {other} {_when(now.timestamp() - time)}"
    return Check(what, "WARN" if wrong else "PASS", " ".join([f"{found}.", *wrong]) if wrong else found, do)


def _when(age: float) -> str:
    size, unit = next(one for one in _UNITS if abs(age) >= one[0] or one[0] == 1)
    return f"{age / size:.0f} {unit} ago" if age > -1 else f"at a time that is {-age / size:.0f} {unit} from now"
