"""Running a job: what the two servers do together, from the roster to the label shares.

In the order they depend on each other: `repetition` (which attempt at a block counts), `roster` (who is counted),
`stages` (where both have the job), `block_counts`, `block_work` and `blocks` (what goes into an attempt, the attempt,
and its row on disk), `pacing` (how many at once), `worker_messages`, `worker_pool`, `run_state` and `blocks_on_workers`
(attempts on other processes and machines), `meeting` (the two servers at work), `block_worker` (what a worker runs),
`relay`, `ray_process` and `ray_workers` (workers on a Ray cluster), and `runner` (the threads that drive all jobs).
"""
