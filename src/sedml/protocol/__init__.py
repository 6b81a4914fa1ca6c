"""Algorithm 1 of the paper with one noise, from a teacher's votes to label shares.

In the order they depend on each other: `class_names`, `votes` (predictions, checked), `thresholds` (fractions and
counts of votes), `ballots` (a teacher's votes in two halves, which each server examines and adds up), `label_circuit`
(what is computed for a sample), `task` (the terms of one aggregation), `drawn_noise`, `ideal` (what a trusted third
party would answer: the oracle of every test), `labels` (label shares, and how the requester opens them),
`server_session` (what two servers set up), `block_shape`, `inputs` and `preparation` (all of a block that needs no
vote), `block` (what is done with the votes). The algorithm as the paper writes it, with two noises and a dealer, is in
`sedml.lab.paper`.
"""
