"""Oblivious transfer: the randomness that two servers make between themselves, so that nobody needs to deal it.

`base_ot` makes 128 transfers each way by public-key cryptography; `trees` makes 32 trees of 16 seeds of them, of which
the other side knows all but one each; `transpose` and `hashing` are tools of `extension` (SoftSpokenOT: as many
transfers as wanted from these trees, and a check that nobody cheated), which `branches` shares between the lanes of a
link; `recipe` says what a gadget needs of them and
makes all of it for a block; `lookup` and `bit_times` are what most gadgets are made of.

Everything works both ways at once: each server is the sender of one half of the transfers and the receiver of the
other, so load and traffic balance and every round is one exchange of equal sizes.
"""
