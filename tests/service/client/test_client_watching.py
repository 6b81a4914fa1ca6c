"""A teacher that waits for jobs: what it votes on, what it leaves alone and why, and what it lives through."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sedml
from sedml.errors import InputError, KitError, PrivacyError, RevokedError, SedmlWarning, UnreachableError
from sedml.privacy.charging import best_order
from sedml.privacy.conversion import order_epsilon
from sedml.service.client import spending
from sedml.service.client.connection import PATIENCE
from sedml.service.kits import ClientKit
from sedml.service.server.access import Caller
from sedml.service.server.ops import accounts
from sedml.service.terms import Terms, charge_at, job_cost
from support.client_parties import TERMS, VOTES, Model, Parties
from support.deployment import terms_for
from support.wire import Fail

LIMITS = {"max_epsilon": 31, "max_total_epsilon": 100, "interval": 0}


@pytest.fixture(params=["blocking", "async"])
def watch(request, kits, deployed):
    """The next events of teacher-001: so many, from a watch that begins now."""

    def watching(count, model=None, meanwhile=lambda event: None, patience=PATIENCE, **limits):
        asked = LIMITS | limits
        events = []

        def heard(event):
            events.append(event)
            meanwhile(event)
            return len(events) == count

        def blocking():
            for event in sedml.Teacher(kits / "teacher-001", patience=patience).watch(model or Model(), **asked):
                if heard(event):
                    return

        async def asynchronous():
            teacher = sedml.AsyncTeacher(kits / "teacher-001", patience=patience)
            async for event in teacher.watch(model or Model(), **asked):
                if heard(event):
                    return

        blocking() if request.param == "blocking" else anyio.run(asynchronous)
        return events

    return watching


def test_it_votes_on_every_job_that_is_open_once_and_keeps_the_account(watch, parties, deployed, data_file, kits):
    first = parties.create(data_file)
    second = []

    def another(_event):
        if not second:
            second.append(Parties(kits, True).create(data_file))

    events = watch(2, meanwhile=another)
    assert [event.what for event in events] == ["voted", "voted"]
    assert [event.job.id for event in events] == [first.id, second[0].id]
    one = spending.epsilon_of([first.terms], spending.as_limits(31, 100, 1e-5))
    assert one <= alone(first.terms)
    assert [event.epsilon for event in events] == pytest.approx([one, one])
    assert events[0].total == pytest.approx(one)
    assert one < events[1].total < 2 * one
    for job in (first, second[0]):
        assert parties.teacher(1, "receipt", job.id).complete
    assert {path.stem for path in (kits / "teacher-001" / "votes").iterdir()} == {first.id, second[0].id}
    # Begun anew, it votes on neither again.
    third = parties.create(data_file, epsilon=5.0)
    ballots = len(deployed.s1.bodies("PUT .*/ballot"))
    events = watch(3, max_total_epsilon=200)
    assert {(event.job.id, event.what) for event in events} == {
        (first.id, "skipped"),
        (second[0].id, "skipped"),
        (third.id, "voted"),
    }
    assert len(deployed.s1.bodies("PUT .*/ballot")) == ballots + 1


def test_what_one_job_and_what_all_may_cost_is_kept_whatever_the_servers_say(watch, parties, deployed, data_file):
    dear = parties.create(data_file, epsilon=65.0)
    (event,) = watch(1)
    assert (event.what, event.job.id, event.total) == ("skipped", dear.id, 0.0)
    assert "one job may cost 31" in event.reason
    parties.requester("delete", dear.id)
    made = [parties.create(data_file).id for _ in range(3)]
    two, total = [parties.requester("status", job).terms for job in made[:2]], 40.0
    for _ in range(8):  # a limit that two fit into at the order which that limit has
        total = spending.epsilon_of(two, spending.as_limits(31, total, 1e-5))
    events = watch(3, max_total_epsilon=total + 0.1)
    assert [event.what for event in events] == ["voted", "voted", "skipped"]
    assert f"{total + 0.1:g} is the limit" in events[2].reason
    assert events[2].total == events[1].total == pytest.approx(total, abs=0.1)
    # Without a total, all together may cost what one may: all of it is spent.
    assert [event.what for event in watch(3, max_total_epsilon=None)] == ["skipped"] * 3


def test_a_small_epsilon_at_a_large_delta_is_not_taken_for_cheap(watch, parties, deployed, data_file):
    job = parties.create(data_file, epsilon=24.0, delta=0.02)
    (event,) = watch(1)
    assert event.job.id == job.id
    assert "at delta 1e-05" in event.reason


class Digits(Model):
    classes_ = np.arange(10)


class Wide(Model):
    def predict(self, samples):
        return samples @ np.ones(7)


class Beyond(Model):
    def predict(self, samples):
        return samples[:, 0] + 1


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Digits(), "classes are 0 to 2"),
        (type("Words", (Model,), {"classes_": np.array(["cat", "dog"])})(), "classes are 0 to 2"),
        (Wide(), "failed on samples 0 to 49"),
        (Beyond(), "out of range"),
    ],
    ids=["classes", "names", "shape", "range"],
)
def test_a_job_that_does_not_fit_the_model_is_skipped_with_the_reason_and_costs_nothing(
    watch, parties, deployed, data_file, model, text
):
    parties.create(data_file)
    (event,) = watch(1, model)
    assert event.what == "skipped"
    assert text in event.reason
    assert event.total == 0.0
    assert not deployed.s0.bodies("PUT .*/ballot")


def test_a_deadline_that_has_passed_and_a_vote_with_other_predictions_are_reasons(
    watch, parties, deployed, data_file, monkeypatch
):
    job = parties.create(data_file)
    parties.teacher(1, "vote", job, VOTES)
    half = parties.create(data_file)
    deployed.s0.take_ballot(half.id, "teacher-001")
    first, second = watch(2)
    assert {first.job.id, second.job.id} == {job.id, half.id}
    reasons = {event.job.id: event.reason for event in (first, second)}
    assert reasons[job.id] == "You have voted on it."
    assert "Half of an earlier vote" in reasons[half.id]
    parties.requester("delete", job)
    parties.requester("delete", half)
    parties.create(data_file, deadline="1h")
    later = (datetime.now(UTC) + timedelta(hours=2)).timestamp()
    monkeypatch.setattr("sedml.service.client.watching.time.time", lambda: later)
    (event,) = watch(1)
    assert event.reason == "Its deadline has passed."


def test_servers_that_are_away_are_told_of_once_and_waited_for_longer_and_longer(
    watch, parties, deployed, data_file, monkeypatch
):
    parties.create(data_file)
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("sedml.service.client.watching.anyio.sleep", pause)
    deployed.s1.fault("GET /v1/jobs$", Fail.REFUSE, times=5)
    events = watch(3, patience=0, interval=1.0)
    assert [event.what for event in events] == ["away", "voted", "back"]
    assert "S1 at https://s1.example:8441 cannot be reached" in events[0].reason
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0]


def test_a_vote_that_broke_off_is_made_whole_and_counted_once(watch, parties, deployed, data_file, kits):
    job = parties.create(data_file)
    other = parties.create(data_file)
    deployed.s1.fault(f"PUT .*{other.id}/ballot", Fail.LOSE)
    deployed.s0.fault(f"PUT .*{other.id}/ballot", Fail.REFUSE, times=2)
    events = watch(4, patience=0)
    # The other job does not wait for it.
    assert [event.what for event in events] == ["voted", "away", "voted", "back"]
    assert [event.job.id for event in events if event.job] == [job.id, other.id]
    assert parties.teacher(1, "receipt", other).complete
    assert len(set(deployed.s1.bodies(f"PUT .*{other.id}/ballot"))) == 1
    assert len(list((kits / "teacher-001" / "votes").iterdir())) == 2


def test_it_ends_where_waiting_does_not_help(watch, parties, deployed, data_file, kits):
    job = parties.create(data_file)
    watch(1)
    record = kits / "teacher-001" / "votes" / f"{job.id}.json"
    before = record.read_text()
    record.write_text(before.replace('"samples": 50', '"samples": 5'))
    with pytest.raises(KitError, match="is damaged"):
        watch(1)
    record.write_text(before)
    accounts.revoke(deployed.s0.node, Caller("operator-s0", "operator"), "teacher-001")
    with pytest.raises(RevokedError):
        watch(1)


def test_a_job_that_only_one_server_has_opened_is_waited_for(watch, parties, deployed, data_file, kits, monkeypatch):
    deployed.s1.fault("PUT .*/data", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        parties.create(data_file)
    looks = []

    async def pause(_seconds):
        looks.append(1)
        if len(looks) == 2:
            await sedml.AsyncRequester(kits / "requester-1").create(data_file, **TERMS)

    monkeypatch.setattr("sedml.service.client.watching.anyio.sleep", pause)
    (event,) = watch(1)
    assert (event.what, len(looks)) == ("voted", 2)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"max_epsilon": "cheap"}, "max_epsilon"),
        ({"max_epsilon": 0}, "max_epsilon"),
        ({"max_total_epsilon": -1}, "max_total_epsilon"),
        ({"delta": 0}, "delta"),
        ({"interval": -1}, "interval"),
        ({"model": None}, "a model, or models"),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused_at_once(kits, changes, text):
    asked = {"model": Model(), "max_epsilon": 1} | changes
    for kind in (sedml.Teacher, sedml.AsyncTeacher):
        with pytest.raises(InputError, match=text):
            kind(kits / "teacher-001").watch(**asked)


def alone(terms: Terms) -> float:
    """What a job costs by itself."""
    return job_cost(terms).epsilon


# ---- The account -----------------------------------------------------------------------------------------------


def test_a_vote_that_was_asked_for_is_on_the_account_too(both_ways, deployed, data_file, kits):
    job = both_ways.create(data_file)
    both_ways.teacher(1, "vote", job, VOTES)
    path = kits / "teacher-001" / "votes" / f"{job.id}.json"
    assert json.loads(path.read_text())["samples"] == 50
    assert path.parent.stat().st_mode & 0o077 == path.stat().st_mode & 0o077 == 0
    kit = ClientKit.load(kits / "teacher-001")
    assert 0 < spending.spent(kit, spending.as_limits(31, None, 1e-5)) <= alone(job.terms)


def test_a_kit_that_cannot_be_written_is_no_reason_not_to_vote_but_to_be_warned(parties, deployed, data_file, kits):
    job = parties.create(data_file)
    (kits / "teacher-001" / "votes").touch()
    with pytest.warns(SedmlWarning, match="not on the kit's account"):
        assert parties.teacher(1, "vote", job, VOTES).complete
    (kits / "teacher-002" / "votes").touch()

    async def watching():
        async for event in sedml.AsyncTeacher(kits / "teacher-002").watch(Model(), **LIMITS):
            raise AssertionError(event)

    with pytest.raises(KitError, match="votes cannot be created"):
        anyio.run(watching)


def test_a_reservation_that_would_pass_a_limit_is_refused_also_if_the_account_grew_since(tmp_path, provisioned):
    kit = ClientKit.load(shutil.copytree(provisioned / "teacher-001", tmp_path / "kit"))
    one, two = terms_for(10), terms_for(10)
    limits = spending.as_limits(20, alone(one), 1e-5)
    spending.reserve(kit, limits, one)
    spending.reserve(kit, limits, one)
    with pytest.raises(PrivacyError, match="together"):
        spending.reserve(kit, limits, two)
    assert list(spending._noted(kit)) == [one.id]


def test_a_limit_that_is_hardly_one_lets_many_jobs_through():
    limits = spending.as_limits(5, 1000, 1e-5)
    assert spending.epsilon_of([terms_for(8) for _ in range(50)], limits) < 30


@settings(deadline=None, max_examples=20)
@given(
    samples=st.lists(st.integers(1, 500), min_size=2, max_size=5),
    sigma=st.sampled_from([5.0, 20.0, 60.0]),
    total=st.sampled_from([1.0, 8.0, 31.0]),
)
def test_many_jobs_cost_together_what_one_with_all_their_samples_costs_at_the_order_of_the_limit(samples, sigma, total):
    noise, limits = {"sigma": sigma}, spending.as_limits(total, total, 1e-5)
    together = spending.epsilon_of([terms_for(count, **noise) for count in samples], limits)
    all_in_one = terms_for(sum(samples), **noise)
    order = best_order(min(total, 20.0), 1e-5)
    expected = order_epsilon(order, order * charge_at(all_in_one, order).rho, 1e-5)
    # The samplers take their part of delta, and more of it the larger epsilon is.
    assert together == pytest.approx(expected, rel=1e-3) if expected < 15 else together > expected * 0.999
    assert spending.epsilon_of([all_in_one], limits) <= together * (1 + 1e-9)
    assert spending.epsilon_of([], limits) == 0.0


def test_a_vote_on_the_account_of_an_older_release_is_not_left_out_in_silence(tmp_path, provisioned):
    kit = ClientKit.load(shutil.copytree(provisioned / "teacher-001", tmp_path / "kit"))
    spending.note(kit, terms_for(10))
    (path,) = (kit.folder / "votes").glob("*.json")
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"format": 2}))
    with pytest.raises(KitError, match="older release, which counted otherwise"):
        spending.spent(kit, spending.as_limits(20, None, 1e-5))
    path.write_text(json.dumps(document | {"samples": 11}))
    with pytest.raises(KitError, match="is damaged"):
        spending.spent(kit, spending.as_limits(20, None, 1e-5))
