"""Algorithm 1 of the paper, from a teacher's votes to label shares.

In the order they depend on each other: `votes` (predictions, checked), `ballot_shape`, `task` (the terms of one
aggregation), `ballots` (a teacher's submission in two halves), `drawn_noise`, `ideal` (what a trusted third party would
answer: the oracle of every test), `labels` (label shares, and how the requester opens them), `fused` and `paper` (the
algorithm as we run it, and as the paper writes it), `garbled` (in three rounds), `undealt` (as we run it where nobody
deals), `block` (one server's side of any), `links` (which of them suits a link), `dealing` (the dealer's).
"""
