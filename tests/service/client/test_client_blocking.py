"""The blocking classes are the asynchronous ones: same methods, same words, and they work where a loop runs already."""

import inspect

import anyio
import pytest

import sedml
from sedml.errors import ServerError
from sedml.service.client import AsyncRequester, AsyncTeacher, Requester, Teacher
from support.wire import altered


def public(kind):
    return {name: method for name, method in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


@pytest.mark.parametrize(("blocking", "asynchronous"), [(Teacher, AsyncTeacher), (Requester, AsyncRequester)])
def test_every_method_has_its_twin_with_the_same_signature_and_docstring(blocking, asynchronous):
    assert set(public(blocking)) == set(public(asynchronous))
    for name, method in public(blocking).items():
        twin = public(asynchronous)[name]
        assert not inspect.iscoroutinefunction(method)
        assert inspect.signature(method) == inspect.signature(twin)
        assert method.__doc__ == twin.__doc__
    assert inspect.signature(blocking) == inspect.signature(asynchronous)


def test_they_work_inside_a_running_event_loop(deployed, kits, data_file):
    async def notebook():
        job = Requester(kits / "requester-1").create(
            data_file, classes=3, threshold=0.5, epsilon=30.0, delta=1e-5, min_teachers=1, deadline="1h"
        )
        return Teacher(kits / "teacher-001").vote(job.id, [0] * 50)

    assert anyio.run(notebook).complete


def test_what_a_callback_raises_comes_out_as_it_is(parties, deployed, data_file):
    def stop(what, done, total):
        if what == "uploading":
            raise LookupError(what)

    with pytest.raises(LookupError, match="uploading"):
        parties.create(data_file, progress=stop)


def test_they_are_what_the_package_shows(kits):
    assert sedml.Teacher is Teacher
    assert sedml.Requester is Requester
    assert sedml.AsyncTeacher is AsyncTeacher
    assert sedml.AsyncRequester is AsyncRequester


@pytest.mark.parametrize(
    ("asked", "request_"), [("s0", "GET /v1/jobs/"), ("s1", "PUT .*/ballot"), ("s0", "PUT .*/ballot")]
)
def test_an_answer_in_the_name_of_the_other_server_is_none(parties, deployed, data_file, asked, request_):
    """Each server speaks for itself: a proxy that mixes them up is noticed."""
    job = parties.create(data_file).id
    getattr(deployed, asked).fault(request_, altered(server="s1" if asked == "s0" else "s0"))
    with pytest.raises(ServerError, match=rf"{asked.upper()} .* answer"):
        parties.teacher(1, "vote", job, [0] * 50)
