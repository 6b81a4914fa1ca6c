"""The link between S0 and S1: one `exchange` a round, in one process or over TLS, counting rounds and bytes.

In the order they depend on each other: `frame` is the wire format, `sharing_a_link` what the lanes of a link have in
common, `base` the interface, `memory` and `tls` the two transports, `lanes` runs several blocks at once, `connect`
joins them.
"""

from sedml.mpc.certificates import (
    Authority,
    Credentials,
    client_context,
    issue_certificate,
    make_authority,
    server_context,
    throwaway_credentials,
)
from sedml.mpc.channel.base import Channel, PhaseCost, Traffic
from sedml.mpc.channel.connect import accept, admit, connect, dial, listen, receive, secure, take_over
from sedml.mpc.channel.lanes import run_in_lanes
from sedml.mpc.channel.memory import MemoryChannel, memory_pair
from sedml.mpc.channel.tls import TlsChannel

__all__ = [
    "Authority",
    "Channel",
    "Credentials",
    "MemoryChannel",
    "PhaseCost",
    "TlsChannel",
    "Traffic",
    "accept",
    "admit",
    "client_context",
    "connect",
    "dial",
    "issue_certificate",
    "listen",
    "make_authority",
    "memory_pair",
    "receive",
    "run_in_lanes",
    "secure",
    "server_context",
    "take_over",
    "throwaway_credentials",
]
