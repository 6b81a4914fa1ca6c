"""Measure an aggregation: time, traffic and memory, every label checked against the ideal functionality.

`protocol` measures what two servers run, stage by stage: those of a deployment, or the paper's;
`deployment` measures all of a deployment, and `counts` what does not depend on the machine.
"""
