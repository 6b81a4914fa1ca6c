"""Algorithm 1 of the paper, from a teacher's votes to label shares.

In the order they depend on each other: `votes` (predictions, checked), `ballots` (a teacher's votes in two halves,
which each server examines and adds up), `task` (the terms of one aggregation), `drawn_noise`, `ideal` (what a trusted
third party would answer: the oracle of every test), `labels` (label shares, and how the requester opens them),
`fused` (the algorithm as a tournament) and `garbled` (the same in three rounds), `block` (one server's side of
either), `links` (which of them suits a link). The algorithm as the paper writes it, on randomness from a dealer, is
in `sedml.lab.paper`.
"""
