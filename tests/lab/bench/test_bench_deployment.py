"""The benchmark of a deployment, on a small one: two real servers, and what it reports of them."""

from __future__ import annotations

import pytest

from sedml.lab.bench.deployment import bench_deployment


@pytest.mark.parametrize("prepared", [True, False])
def test_a_small_deployment(prepared):
    report = bench_deployment(6, 20, 3, prepared=prepared)
    assert report.plausible
    assert report.prepared == prepared
    assert 0 < report.protocol_seconds < report.run_seconds
    assert min(report.vote_cpu_ms) >= 0
    assert (report.receipt_ms is not None) == prepared
