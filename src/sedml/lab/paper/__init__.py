"""The paper's model, to be measured: a dealer makes all one-use randomness, and knows every mask.

No deployment runs this: a server that deviates reads votes here. It is for reproducing the paper's tables phase by
phase, with its two noises. In the order they depend on each other: `two_noise_task` (the terms),
`check_and_label_noise`, `two_noise_ideal` (the answers that must come out) and `opened_labels`; `party` (a server) and
`correlations` (what a gadget needs of the dealer), `gadgets`, `three_phases` (as the paper writes it), `onehot_ballots`
(one-hot votes), `two_noises` (what a job costs), `lab_block` (one server's side of a block), `lab_run` (that of a whole
job, and both servers in one process).
"""
