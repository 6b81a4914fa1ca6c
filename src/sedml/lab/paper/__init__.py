"""The paper's model, to be measured: a dealer makes all one-use randomness, and knows every mask.

No deployment runs this. It is here so that the paper's tables can be reproduced phase by phase, and so that what a
deployment runs can be compared with it. In the order they depend on each other: `fields` (XOR shares), `correlations`
(what a gadget needs of the dealer), `gadgets`, `lab_task` (terms that no deployment has), `onehot_ballots` and
`lone_noise` (one-hot votes, noise of S0 alone), `dealt_fused` (the algorithm as a deployment runs it, on dealt
randomness) and `three_phases` (as the paper writes it), `lab_block` (one server's side), `dealing` (the dealer's),
`lab_run` (both servers in one process).
"""
