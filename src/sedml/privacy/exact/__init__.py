"""Rényi divergences of what is really released, a bit and an argmax, computed on the exact discrete law.

Every figure is an upper bound at its order, whatever the votes, the number of classes and of teachers; the proof is
in docs/privacy.md. They hold for whoever learns the label and nothing more about the noisy counts: the refresh of the
label shares (`sedml.lab.semi_honest.gadgets.refresh`) is part of that. Beyond what the tables reach, zCDP's bound stands in.
"""

from sedml.privacy.exact.argmax import argmax_divergence
from sedml.privacy.exact.check import check_divergence
from sedml.privacy.exact.costs import SampleCost, label_costs, ledger_costs

__all__ = ["SampleCost", "argmax_divergence", "check_divergence", "label_costs", "ledger_costs"]
