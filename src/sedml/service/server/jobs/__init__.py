"""Jobs as their parties see them: on record, voted on, paid for, and deleted when their time is over.

In the order they depend on each other: `charges` (what jobs cost, on the ledger), `records`, `retention` (what is
deleted, and when), `remaining_time`, `lifecycle` (what requesters do with jobs), `listing`, `public_data` (what the
votes are about), `ballot_rows` (who has voted), `voting` (what teachers do).
"""
