"""Oblivious transfer: the randomness that two servers make between themselves, so that nobody needs to deal it.

`base_ot` makes 128 transfers each way by public-key cryptography; `trees` makes 32 trees of 16 seeds of them, of which
the other side knows all but one each; `transpose` and `hashing` are tools of `extension` (SoftSpokenOT: as many
transfers as wanted from these trees, and a check that nobody cheated); `fresh_deltas` gives each block its own.

Everything works both ways at once: each server is the sender of one half of the transfers and the receiver of the
other, so load and traffic balance and every round is one exchange of equal sizes.
"""
