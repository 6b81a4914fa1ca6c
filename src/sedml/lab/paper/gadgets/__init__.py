"""Two-party gadgets on dealt randomness, one to a file; each docstring numbers the protocol steps, rounds and bits.

In the order they depend on each other: and_, and_tree, leaf_and, carry, scmp, sign, select, multiply, convert, onehot,
count. A gadget is a function of a `Party`; next to it stands the plan of the one-use randomness it needs, from which
the dealer deals.
"""
