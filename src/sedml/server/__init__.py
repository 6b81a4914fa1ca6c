"""A server: the HTTP interface, the store, the life of a job, and the link to the other server."""
