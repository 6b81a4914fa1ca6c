"""Gadgets on dealt randomness, one a module; each docstring numbers the steps of its protocol.

In the order they depend on each other: leaf_and, tournament, carry, scmp, multiply.
"""
