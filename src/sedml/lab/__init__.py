"""The laboratory: everything that measures, compares or draws. No product code imports it.

`bench` measures and checks its own answers; `audit` attacks the privacy claim, with the votes of `worst_votes` and the
bounds of `binomial_bounds`; `report` draws; `reproduce` measures the paper's tables and figures again, on the model of
`paper`, whose servers share arrays as `sharing` says. `saving` writes what all of them leave behind.
"""
