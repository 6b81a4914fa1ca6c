"""Garbled circuits: one server garbles, the other evaluates, in a constant number of rounds."""
