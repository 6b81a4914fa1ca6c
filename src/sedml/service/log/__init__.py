"""A log that anybody can check: a Merkle tree of entries, and signed notes of its size and root.

In the order they depend on each other: `merkle` (RFC 6962: hashes, proofs), `notes` (C2SP's signed notes, checkpoints
and cosignatures) and `entries` (what a leaf is made of).
"""
