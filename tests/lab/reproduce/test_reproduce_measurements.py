"""The measured items at a small size: what they show, and that a wrong label is noticed."""

from dataclasses import replace

import pytest

from sedml.lab.bench.counts import count_costs
from sedml.lab.homomorphic import BaselineReport
from sedml.lab.peers import PeerResult
from sedml.lab.reproduce import growth, homomorphic, peers, phases, published, scaling
from sedml.lab.reproduce.measuring import measure, paper_tasks


def column(table, key):
    place = [column.key for column in table.columns].index(key)
    return [row[place] for row in table.cells]


def texts(result):
    return " ".join([result.ours, *result.measured, *result.modelled])


def test_table1_sets_three_phases_next_to_the_papers_times(settings):
    result = phases.table1(settings)
    assert result.agrees
    [table] = result.tables
    assert column(table, "paper_s") == [None, 23.249, 2.5119, 21.575, 47.3359]
    times = column(table, "three_phases_ms")
    assert all(time > 0 for time in times)
    assert times[-1] == pytest.approx(sum(times[:-1]), rel=0.5)
    assert column(table, "times_faster")[-1] == pytest.approx(47_335.9 / times[-1])
    assert column(table, "fused_ms")[1] is None
    assert column(table, "three_phases_rounds")[-1] == sum(column(table, "three_phases_rounds")[:-1])


def test_table2_counts_the_bytes_that_a_job_sends(settings):
    result = phases.table2(settings)
    assert result.agrees
    [table] = result.tables
    assert column(table, "paper_kb")[1:] == [29_628, 3_292, 28_201, 61_121]
    three = column(table, "three_phases_kb")
    assert three[0] == 0
    assert three[-1] == pytest.approx(sum(three[:-1]))
    most = count_costs(paper_tasks(settings.scale)[0])["bytes"]
    assert three[1] * 1000 == most["highest"]
    assert three[2] * 1000 == most["threshold"]
    assert 0 < three[3] * 1000 <= most["label"]


@pytest.mark.parametrize(
    ("module", "item", "protocol"),
    [(phases, "table1", "fused"), (scaling, "scaling", "paper"), (growth, "growth", "fused")],
)
def test_a_protocol_that_labels_wrongly_is_not_passed_over(settings, monkeypatch, module, item, protocol):
    def liar(scale, task, **more):
        report = measure(scale, task, **more)
        return replace(report, matches_ideal=task.dealt != protocol)

    monkeypatch.setattr(module, "measure", liar)
    assert getattr(module, item)(settings).agrees is False


def test_scaling_covers_the_grids_and_the_papers_line(settings):
    result = scaling.scaling(settings)
    assert result.agrees
    samples, classes = result.tables
    assert column(samples, "samples") == list(settings.scale.sample_grid)
    assert column(classes, "classes") == list(settings.scale.class_grid)
    assert column(classes, "paper_s") == [None, pytest.approx(published.SECONDS["total"], abs=1e-3)]
    assert all(value > 0 for value in column(samples, "fused_ms"))


def test_growth_fits_every_axis_and_projects_to_a_million_teachers(settings):
    result = growth.growth(settings)
    assert result.agrees
    assert "The rounds are as the protocol's formula says" in result.ours
    points, laws, projections = result.tables
    assert len(points.cells) == 8
    assert column(laws, "quantity").count("time") == 4
    assert max(column(projections, "teachers")) == 1_000_000
    assert set(column(projections, "range")) <= {"within", "beyond"}
    assert column(projections, "range")[-1] == "beyond"
    times = [row for row in projections.cells if row[0] == 1_000_000]
    assert [row[8] for row in times] == sorted(row[8] for row in times)


def test_growth_counts_delays_and_votes_from_the_times(settings, monkeypatch):
    def timed(scale, task, *, latency_ms=0.0):
        votes = task.teachers * task.samples if task.votes == "onehot" else 0
        total = 0.004 + 17 * latency_ms / 1e3 + 1e-6 * task.samples * task.classes + 1e-7 * votes
        report = measure(scale, task)
        return replace(report, seconds=report.seconds | {"total": total})

    monkeypatch.setattr(growth, "measure", timed)
    result = growth.growth(settings)
    assert "distance costs 17.0 one-way delays, for 17 rounds" in result.ours
    laws = result.tables[1]
    each = {
        axis: value
        for what, axis, value in zip(*(column(laws, key) for key in ("quantity", "axis", "each")), strict=True)
        if what == "time"
    }
    assert each == pytest.approx({"samples": 1e-5, "classes": 24e-6, "teachers": 24e-7, "latency": 17.0})


BASELINE = BaselineReport(
    key_bits=512,
    samples=10,
    classes=10,
    teachers=12,
    seconds={"teachers": 20.0, "count": 1.0, "highest": 2.0, "threshold": 0.5, "label": 3.0, "total": 6.5},
    server_bytes={"teachers": 0, "count": 0, "highest": 1000, "threshold": 200, "label": 900, "total": 2100},
    teacher_bytes=10,
    rounds=21,
    answered=6,
    matches_ideal=True,
    arithmetic="Python integers",
)


def test_the_baseline_runs_on_some_of_the_votes_and_says_what_was_scaled(settings):
    result = homomorphic.homomorphic(settings)
    assert result.agrees
    table, ratios = result.tables
    assert column(ratios, "time")[0] == 43
    assert len(ratios.cells) == 3
    assert column(table, "samples_run") == [2, 24, 24]
    assert column(table, "basis") == ["scaled from 2 samples", "measured", "measured"]
    assert "scaled from 2" in texts(result)
    assert [chart.name for chart in result.charts] == ["homomorphic"]


def engine(name, seconds, *, variant="v", skipped=None, measured="here", right=True):
    traffic = None if seconds is None else 5000
    checked = right if seconds is not None and measured == "here" else None
    figures = {"seconds": seconds, "bytes": traffic, "matches_ideal": checked, "skipped": skipped, "version": "1.0"}
    return PeerResult(name, variant, 24, 10, "trust", measured, **figures)


@pytest.fixture
def engines(monkeypatch):
    asked = []

    def set_to(*results):
        def run_peers(counts, threshold, g, g_i, *, repeat, progress):
            asked.append((counts.shape, threshold, g.shape, g_i.shape, repeat))
            progress("spu v", 0, 1)
            return list(results)

        monkeypatch.setattr(peers, "run_peers", run_peers)
        return asked

    return set_to


def test_peers_get_the_same_counts_and_are_ranked(settings, engines):
    asked = engines(
        engine("spu", 5.0),
        engine("spu", 7.0, variant="ABY3-FM32"),
        engine("mpyc", None, variant="M3", skipped="it is not installed"),
        engine("mp-spdz", 4.0, variant="dealer-ring", measured="elsewhere"),
        engine("mp-spdz", 8.0, variant="semi2k", measured="elsewhere"),
        replace(engine("emp", 3.0, variant="ag2pc", measured="elsewhere"), ands=1000),
    )
    result = peers.peers(settings)
    assert asked == [((10, 24), 8, (24,), (10, 24), 1)]
    assert result.agrees
    table, trust = result.tables
    names = column(table, "engine")
    assert names[:3] == ["SEDML, dealt", "MP-SPDZ dealer-ring", "SPU v"]
    assert sorted(names[3:5]) == ["SEDML, fused", "SEDML, garbled"]
    assert names[5:] == ["MP-SPDZ semi2k", "SPU ABY3-FM32", "MPyC M3", "SEDML", "EMP ag2pc"]
    groups = ["dealer"] * 3 + ["semi-honest"] * 3 + ["honest majority"] * 2 + ["malicious"] * 2
    assert column(table, "trust") == groups
    for name, online, in_all in zip(names, column(table, "online_ms"), column(table, "ms"), strict=True):
        assert (online is not None and 0 < online < in_all) if name.startswith("SEDML") else online is None
    assert column(table, "online_rounds")[0] == 17
    assert 3 in column(table, "online_rounds")[3:5]
    assert column(table, "online_rounds")[8] == 4
    assert (column(table, "and_ns")[9], column(table, "and_bytes")[9]) == (3e6, 5.0)
    assert "fastest peer, SPU v" in result.ours
    assert result.skipped == "MPyC: it is not installed."
    assert "MP-SPDZ is quoted" in texts(result)
    assert len(trust.cells) == 10
    drawn = [f"peers_{trust}_24" for trust in ("dealer", "semi_honest", "honest_majority", "malicious")]
    assert [chart.name for chart in result.charts] == drawn


def test_a_peer_or_a_baseline_that_labels_wrongly_is_not_passed_over(settings, engines, monkeypatch):
    monkeypatch.setattr(homomorphic, "run_baseline", lambda *_, **__: replace(BASELINE, matches_ideal=False))
    assert homomorphic.homomorphic(settings).agrees is False
    engines(engine("spu", 5.0, right=False))
    assert peers.peers(settings).agrees is False
