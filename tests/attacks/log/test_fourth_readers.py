"""A fourth round: what readers of two logs are not told, and what they keep."""

from __future__ import annotations

import anyio
import pytest

from sedml.errors import LogError
from sedml.service.client import log_reading
from sedml.service.client.log_differences import LoggedJob
from sedml.service.client.log_reading import read_log
from sedml.service.client.log_summary import complaints
from sedml.service.client.pair import paired
from sedml.service.kits import ClientKit
from sedml.service.server import public_log
from support.log_lies import teacher


def told(deployed, *entries):
    """S1 puts these into its log."""
    for entry in entries:
        with deployed.s1.node.store.write() as connection:
            public_log.write(connection, deployed.s1.node, "x", "x", "x", "x", entry)
    deployed._made.greet()


def charged(number, at):
    entry = {"kind": "charge", "job": f"{number:032x}", "cohort": "x", "at": at}
    return entry | {"kind": "job"}, entry | {"unit": "organisation", "epsilon": 1.0, "delta": 1e-5, "rho": 0.1}


def test_what_is_new_is_not_buried_under_what_was_told_before(parties, deployed, kits, data_file):
    """After S0 was put back, its log has twenty jobs less for good; now it leaves out one more."""
    parties.create(data_file)
    for number in range(24):
        told(deployed, *charged(number, 1000 + number))
    told(deployed, *charged(99, 2000))
    found = complaints(teacher(kits).log(), deployed._made.clock())
    for number in (0, 99):
        assert any(f"S1 says that job {number:032x} was run; S0 has it nowhere" in one for one in found), number
    assert any("There are 5 more of this kind" in one for one in found)


def test_who_reads_on_keeps_no_more_than_who_reads_once(parties, deployed, kits, data_file, monkeypatch):
    """S1 shows as much as is read of a log, and as much again while S0's is read."""
    parties.create(data_file)
    kit = ClientKit.load(kits / "teacher-004")
    monkeypatch.setattr(log_reading, "_MOST_BYTES", 128 << 10)
    nonsense = [{"kind": "nonsense", "text": "x" * 10_000}] * 9

    async def twice():
        async with paired(kit, 60) as pair:
            first = await read_log(kit, pair, pair.s1)
            await anyio.to_thread.run_sync(told, deployed, *nonsense)
            with pytest.raises(LogError, match="more than are read at a time"):
                await read_log(kit, pair, pair.s1, onto=first)

    told(deployed, *nonsense)
    anyio.run(twice)


def test_what_has_given_labels_was_not_given_back():
    """S0 says that labels were released, and later that nothing came of the job."""
    cost = {"unit": "organisation", "epsilon": 1.0, "delta": 1e-5, "rho": 0.1, "at": 1}
    end = {"s0": {"state": "failed", "charged": False, "at": 3}}
    job = LoggedJob("0" * 32, found={"charge": {"s0": cost, "s1": cost}, "labels": {"s0": {"at": 2}}, "end": end})
    assert job.charged == ["s0", "s1"]
    del job.found["labels"]
    assert job.charged == ["s1"]
