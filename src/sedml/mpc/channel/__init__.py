"""The link between S0 and S1: one `exchange` a round, in one process or over TLS, counting rounds and bytes.

In the order they depend on each other: `frame` is the wire format, `sharing_a_link` what the lanes of a link have in
common, `base` the interface, `memory` and `tls` the two transports, `lanes` runs several blocks at once, `connect`
joins them.
"""

from sedml.mpc.channel.base import Channel, PhaseCost, Traffic
from sedml.mpc.channel.connect import accept, admit, connect, dial, listen, receive, secure, take_over
from sedml.mpc.channel.lanes import run_in_lanes
from sedml.mpc.channel.memory import MemoryChannel, memory_pair
from sedml.mpc.channel.tls import TlsChannel

__all__ = [
    "Channel",
    "MemoryChannel",
    "PhaseCost",
    "TlsChannel",
    "Traffic",
    "accept",
    "admit",
    "connect",
    "dial",
    "listen",
    "memory_pair",
    "receive",
    "run_in_lanes",
    "secure",
    "take_over",
]
