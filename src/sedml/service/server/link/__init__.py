"""The link to the other server: who comes in, who calls, and what the two tell each other between jobs.

In the order they depend on each other: `unidentified` (connections of nobody knows whom), `handshakes` (who comes in),
`ports` (why a server cannot listen), `cosigning` (each other's logs), `greeting`, `calls` (S1 calls, S0 answers).
"""
