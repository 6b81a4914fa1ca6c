"""From what a requester asks for to the terms of a job: deadlines as people write them."""

from datetime import UTC, datetime, timedelta

import pytest

from sedml.errors import TaskError
from sedml.service.client.request import JobRequest, moment_of, terms_for

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


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"threshold": "1.6"}, "The threshold 1.6 is neither a fraction nor a whole number of votes."),
        ({"threshold": "0.1234567891"}, "The job's threshold cannot be used. Use a fraction"),
        ({"title": "x" * 201}, "The job's title cannot be used. Use up to 200 printable characters."),
        ({"title": "a\x1bb"}, "The job's title cannot be used. Use up to 200 printable characters."),
        ({"cohort": "All Of Us"}, "The job's cohort cannot be used. Use lower-case letters"),
        ({"min_teachers": 0}, "Use a whole number from 1"),
        ({"min_teachers": 10**8}, "The job's min_teachers cannot be used. Use a whole number from 1"),
        ({"classes": 5000, "epsilon": 30.0}, "The job's classes cannot be used. Use from 2 to 4,096 classes."),
        ({"sigma": 1e9}, "The job's sigma cannot be used. Use a number above 0, up to 131,072."),
    ],
)
def test_terms_that_cannot_be_are_refused_in_plain_words(asked, words):
    usual = {"classes": 3, "threshold": "0.6", "epsilon": 2.0, "delta": 1e-5, "min_teachers": 8, "deadline": "7d"}
    request = JobRequest(**usual | asked)
    with pytest.raises(TaskError) as caught:
        terms_for(request, "requester-1", 50, (100, "0" * 64), NOW)
    assert words in str(caught.value)
