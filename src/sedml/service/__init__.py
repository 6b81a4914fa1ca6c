"""A deployment: two servers run by two operators, and the clients that call them.

In the order they depend on each other: `quantities` (numbers with a unit), `log` (Merkle trees and signed notes),
`states` (the life of a job), `terms` (what a job's parties agreed on), `messages` and `server_messages` (documents of
the interface), `problems` (errors on their way over HTTP), `kits` (each party's credentials); then `server` and
`client`, which know nothing of each other.
"""
