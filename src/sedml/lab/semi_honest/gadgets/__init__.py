"""Two-party gadgets on shares, one to a file; each docstring numbers the protocol steps, rounds and bits.

In the order they depend on each other: `bit_and` (an AND), `millionaires` (the sign of a number), `choose` (the larger
of two, and its index), `tournament` (the highest of many, by any such duel), `none_of` (whether all bits are set,
opened), `refresh` (new shares of the same value). A gadget is a function of a `Party`; next
to it stands the recipe of the one-use randomness it needs (`sedml.lab.semi_honest.recipe`).
"""
