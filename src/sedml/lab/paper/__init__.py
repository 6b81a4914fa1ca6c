"""The paper's model, to be measured: a dealer makes all one-use randomness, and knows every mask.

No deployment runs this. It is here so that the paper's tables can be reproduced phase by phase, with its two noises. In
the order they depend on each other: `fields` (XOR shares), `correlations` (what a gadget needs of the dealer),
`gadgets`, `lab_task` (the terms), `onehot_ballots` and `lone_noise` (one-hot votes, noise of S0 alone), `dealt_fused`
(`semi_honest.fused` on dealt randomness) and `three_phases` (as the paper writes it), `lab_block` (one server's side),
`dealing` (the dealer's), `lab_run` (both servers in one process).
"""
