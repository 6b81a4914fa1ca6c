"""The link to the other server: who comes in, who calls, and whether the two are in touch.

In the order they depend on each other: `unidentified` (connections of nobody knows whom), `worker_connections`,
`handshakes` (who comes in), `ports` (why a server cannot listen), `peer_contact`, `link_quality`, `greeting`, `calls`
(S1 calls, S0 answers).
"""
