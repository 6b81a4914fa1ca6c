"""Rényi divergences of what is really released, an argmax, computed on the exact discrete law.

Every figure is an upper bound at its order, whatever the votes, the number of classes and of teachers; the proof is in
docs/explanation/privacy.md. They hold for whoever learns the label or that there is none, and nothing more about the
noisy counts. Beyond what the tables reach, zCDP's bound stands in.
"""

from sedml.privacy.exact.argmax import argmax_divergence
from sedml.privacy.exact.check import check_divergence
from sedml.privacy.exact.folded import folded_divergence
from sedml.privacy.exact.several import several_votes

__all__ = ["argmax_divergence", "check_divergence", "folded_divergence", "several_votes"]
