"""Two-party computation, knowing nothing of votes: the link, transfers, circuits, MACs.

In the order they depend on each other: `kernel` (the hot loops in C), `malloc`, `permutation`; `ring`, `prg` (numbers,
randomness from seeds); `certificates` (who the servers are), `revocation` (who is one no more), `channel` (the link
between S0 and S1), `steps` (a party's part of a protocol, without the link); `ot` (transfers that the two make
themselves), `garbling` (circuits); `authenticated` (bits, ANDs and circuits under MACs).
"""
