"""The laboratory: everything that measures, compares or draws. No product code imports it.

`bench` measures and checks its own answers; `audit` attacks the privacy claim, with the bounds of `binomial_bounds`;
`homomorphic` and `peers` are what we compare with; `report` draws; `reproduce` measures the paper's tables and figures
again.
"""
