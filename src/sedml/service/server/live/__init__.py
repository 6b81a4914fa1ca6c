"""What changes while a server runs and is not kept: each piece has one owner, and is used from any thread.

`believed_time` (whether the clock can be trusted), `peer_contact` (when the other server was last heard of, and what it
said), `link_delay`, `link_traffic`, `label_fetches` (which labels were handed out), `worker_connections` (which workers
are expected), `log_tree` (the hashes of its log), and `written_jobs` (for lists of them).
"""
