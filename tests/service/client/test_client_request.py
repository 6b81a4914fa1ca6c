"""From what a requester asks for to the terms of a job: deadlines as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from sedml.errors import TaskError
from sedml.service.client.request import moment_of

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
