"""From what a requester asks for to the terms of a job: thresholds and deadlines as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from sedml.errors import TaskError
from sedml.service.client.request import moment_of, threshold_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.6, "0.6"),
        ("0.6", "0.6"),
        (".6", "0.6"),
        (1.0, "1.0"),
        ("1.0", "1.0"),
        (1, "1"),
        ("1", "1"),
        (150, "150"),
        (150.0, "150"),
        ("150", "150"),
        (1e-05, "0.00001"),
        (0.5500, "0.55"),
    ],
)
def test_a_threshold_is_written_as_a_fraction_or_a_count(value, text):
    assert threshold_text(value) == text


NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("deadline", "moment"),
    [
        ("90s", NOW + timedelta(seconds=90)),
        ("45m", NOW + timedelta(minutes=45)),
        ("1.5h", NOW + timedelta(minutes=90)),
        ("7d", NOW + timedelta(days=7)),
        ("2w", NOW + timedelta(days=14)),
        (timedelta(hours=1), NOW + timedelta(hours=1)),
        ("2030-02-01T00:00+00:00", datetime(2030, 2, 1, tzinfo=UTC)),
        (datetime(2030, 2, 1, tzinfo=UTC), datetime(2030, 2, 1, tzinfo=UTC)),
    ],
)
def test_a_deadline_is_a_moment_or_a_time_from_now(deadline, moment):
    assert moment_of(deadline, NOW) == moment


@pytest.mark.parametrize("deadline", ["", "7", "d", "7 days", "-1d", "999999w", NOW, NOW - timedelta(seconds=1)])
def test_a_deadline_that_makes_no_sense_is_refused(deadline):
    with pytest.raises(TaskError):
        moment_of(deadline, NOW)
