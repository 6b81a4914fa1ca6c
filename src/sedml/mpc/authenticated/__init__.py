"""Two-party computation against a party that deviates: authenticated garbling with half-gates.

After Katz, Ranellucci, Rosulek and Wang (CRYPTO 2018, ePrint 2018/578, "KRRW") and Wang, Ranellucci and Katz (CCS
2017). Server i has a secret Delta_i of 128 bits. An *authenticated bit* [b] is shared three times: b itself, b Delta_0
and b Delta_1, each as an XOR of one part at either server. XOR is local. Whoever opens its part of b shows, by its part
of b Delta_j, that it did not change it.

In the order they depend on each other: `authenticated_bits` (authenticated bits, from correlated transfers, and how
opened ones are checked), `leaky` (ANDs of which a cheat may know a bit), `buckets` (several of those for one that
nobody knows anything of), `masks` (the masks of a circuit's wires and their products), `gates` (tables and their
evaluation), `outputs` (results for a third party).
"""
