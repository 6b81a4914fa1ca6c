"""Two-party computation, knowing nothing of votes: shares, the link, transfers, circuits, MACs.

In the order they depend on each other: `ring`, `bits`, `prg`, `sharing` (numbers, bit planes, randomness from seeds,
shares); `channel` (the link between S0 and S1), `steps` (a party's part of a protocol, without the link); `ot`
(transfers that the two make themselves), `garbling` (circuits); `authenticated` (bits, ANDs and circuits under MACs).
"""
