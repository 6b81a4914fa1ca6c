"""Measure an aggregation: time, traffic and memory, every label checked against the ideal functionality.

`protocol` measures what two servers run, stage by stage: those of a deployment, or the paper's (`server_pair` runs
them). `deployment` measures all of a deployment, also with ballots that are `prepared` beforehand. `workload` makes the
votes, and `resident` tells what a process takes of the machine.
"""
