"""Two-party computation, knowing nothing of votes: shares, one-use randomness, the link, and gadgets.

In the order they depend on each other: `ring`, `bits`, `prg`, `sharing` (numbers, bit planes, randomness from seeds,
shares); `channel` (the link between S0 and S1), `party` (one of them in the
middle of a protocol); `ot` (one-use randomness that the two make themselves); `garbling` (circuits on labels);
`gadgets`, one to a file.
"""
