"""SEDML: organisations that may not share data teach one model together.

    import sedml
    result = sedml.aggregate(predictions, classes=10, threshold=0.6, sigma1=40.0, sigma2=40.0)
    result.labels      # int64, -1 where the teachers had no consensus
    result.stats       # seconds, bytes and rounds of each phase

The modules, in the order they depend on each other: errors, ring, bits, prg, sharing (numbers and shares);
correlations, channel, party (one-use randomness, the link, one server); gadgets (one to a file); privacy.noise;
task (the terms); protocol (Algorithm 1); ballots, votes, ideal; local (both servers in one process); spending,
aggregation (a budget, and the call above).
"""

from importlib.metadata import version

from sedml.aggregation import Result, aggregate
from sedml.errors import SedmlError
from sedml.local import Stats
from sedml.party import PhaseCost
from sedml.spending import CohortBudget
from sedml.task import Task

__all__ = ["CohortBudget", "PhaseCost", "Result", "SedmlError", "Stats", "Task", "__version__", "aggregate"]

__version__ = version("sedml-pate")
