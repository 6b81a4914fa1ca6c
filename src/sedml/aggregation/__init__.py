"""The whole product in one process and one call: `sedml.aggregate`.

`both_servers` runs S0 and S1 as two threads, `budget` says what a job costs and refuses what would cost too much,
`one_call` goes from predictions to labels.
"""

from sedml.aggregation.both_servers import Stats
from sedml.aggregation.budget import CohortBudget
from sedml.aggregation.one_call import Result, aggregate

__all__ = ["CohortBudget", "Result", "Stats", "aggregate"]
