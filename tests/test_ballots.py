"""Ballots: two halves give the votes, one gives nothing, and no ballot is more than one vote a sample."""

from __future__ import annotations

import secrets

import numpy as np
import pytest
from harness import counts_loaders, fixed_noises, fixed_seed, join_ring, numbers, run_one_block, zero_parts
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sedml import ballots as ballots_module
from sedml.ballots import ballot_sizes, cast, counts_share, index_shares
from sedml.bits import packed_size
from sedml.errors import ShareError
from sedml.gadgets.count import count, plan_count
from sedml.local import ballot_loaders, run_job
from sedml.prg import SEED_BYTES, Seed
from sedml.ring import Ring
from sedml.task import Block, Task
from sedml.votes import histogram
from sedml_harness_names import run_counts  # noqa: F401
