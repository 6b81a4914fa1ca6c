"""Running a job: what the two servers do together, from the roster to the label shares.

In the order they depend on each other: `transcript` (every word on record), `roster` (who is counted), `stages` (where
both have the job), `block_work` and `blocks` (one block, and what came of it), `worker_messages`, `worker_pool`,
`run_state` and `blocks_on_workers` (blocks on other machines),
`meeting` (the two servers at work), `block_worker` (what a worker runs), `ray_process` and `ray_workers` (workers on a
Ray cluster), and `runner` (the threads that drive all jobs).
"""
