"""A few of the random histories that `make faults` plays by the thousand, from fixed seeds."""

from __future__ import annotations

import os

import pytest

from histories.theatre import theatre
from support.server_process import WITHIN
from support.tiers import thorough

SEEDS = [18, 28, 33]
MORE_SEEDS = [41, 54, 62]  # the last with several processes
ON_POSTGRESQL = [56, 72]  # likewise
ALONE = os.environ.get("SEDML_HISTORY_SEED")


# A client that is cancelled while it connects leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("database", "seeds"),
    [
        pytest.param("sqlite", SEEDS, marks=thorough),
        pytest.param("sqlite", MORE_SEEDS, marks=thorough),
        pytest.param("postgresql", ON_POSTGRESQL, marks=thorough),
    ],
)
def test_whatever_strikes_the_servers_what_must_be_true_is_true(request, database, seeds):
    with theatre(request.getfixturevalue("postgres") if database == "postgresql" else None) as made:
        for seed in [int(ALONE)] if ALONE else seeds:
            outcome = made.play(seed, within=WITHIN)
            assert not outcome.violations, f"repeat with SEDML_HISTORY_SEED={seed}: {outcome.violations}"
            assert outcome.counts["jobs"]
