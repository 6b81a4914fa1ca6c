"""The measured items at a small size: what they show, and that a wrong label is noticed."""

from dataclasses import replace

import pytest

from counted_costs import count_costs
from sedml.lab.reproduce import phases, published, scaling
from sedml.lab.reproduce.measuring import measure, paper_task


def column(table, key):
    place = [column.key for column in table.columns].index(key)
    return [row[place] for row in table.cells]


def test_table1_sets_three_phases_next_to_the_papers_times(settings):
    result = phases.table1(settings)
    assert result.agrees
    [table] = result.tables
    assert column(table, "paper_s") == [None, 23.249, 2.5119, 21.575, 47.3359]
    times = column(table, "three_phases_ms")
    assert all(time > 0 for time in times)
    assert times[-1] == pytest.approx(sum(times[:-1]), rel=0.5)
    assert column(table, "times_faster")[-1] == pytest.approx(47_335.9 / times[-1])
    assert column(table, "three_phases_rounds")[-1] == sum(column(table, "three_phases_rounds")[:-1])


def test_table2_counts_the_bytes_that_a_job_sends(settings):
    result = phases.table2(settings)
    assert result.agrees
    [table] = result.tables
    assert column(table, "paper_kb")[1:] == [29_628, 3_292, 28_201, 61_121]
    three = column(table, "three_phases_kb")
    assert three[0] == 0
    assert three[-1] == pytest.approx(sum(three[:-1]))
    most = count_costs(paper_task(settings.scale))["bytes"]
    assert three[1] * 1000 == most["highest"]
    assert three[2] * 1000 == most["threshold"]
    assert 0 < three[3] * 1000 <= most["label"]


@pytest.mark.parametrize(("module", "item"), [(phases, "table1"), (scaling, "scaling")])
def test_a_protocol_that_labels_wrongly_is_not_passed_over(settings, monkeypatch, module, item):
    monkeypatch.setattr(module, "measure", lambda *job: replace(measure(*job), matches_ideal=False))
    assert getattr(module, item)(settings).agrees is False


def test_scaling_covers_the_grids_and_the_papers_line(settings):
    result = scaling.scaling(settings)
    assert result.agrees
    samples, classes = result.tables
    assert column(samples, "samples") == list(settings.scale.sample_grid)
    assert column(classes, "classes") == list(settings.scale.class_grid)
    assert column(classes, "paper_s") == [None, pytest.approx(published.SECONDS["total"], abs=1e-3)]
    assert all(value > 0 for value in column(samples, "three_phases_ms"))
