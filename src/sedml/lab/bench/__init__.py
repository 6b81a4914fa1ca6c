"""Measure an aggregation: time, traffic and memory, every label checked against the ideal functionality.

`protocol` measures what two servers of a deployment run, stage by stage, `deployment` all of a deployment, `lab_jobs`
the laboratory's protocols phase by phase, and `counts` what does not depend on the machine.
"""
