"""An independent dealer: the servers get from it what they would have got from the requester, who then never deals."""

import re

import anyio
import pytest

from sedml.errors import (
    ConflictError,
    ForbiddenError,
    KitError,
    NotFoundError,
    ServerError,
    TermsMismatchError,
    TooFewTeachersError,
    UnreachableError,
)
from sedml.service.client import AsyncDealer, AsyncRequester, Dealer
from sedml.service.client.dealer import seeds_for
from sedml.service.kits import ClientKit
from sedml.service.states import JobState
from support.client_parties import Job
from support.wire import Fail, altered


@pytest.fixture
def job(parties, deployed, data_file):
    return deployed.prepared("voted, with a dealer", lambda: Job(parties, data_file, dealer="dealer-1"))


def givers(server, kits, pattern="PUT .*/(seed|corrections)"):
    """Who sent randomness to a server, by the token."""
    names = {}
    for folder in kits.iterdir():
        if folder.name.startswith(("dealer", "requester")):
            kit = ClientKit.load(folder)
            names[f"Bearer {kit.servers[server.name].token}"] = kit.name
    return {names[seen.headers["Authorization"]] for seen in server.seen if re.search(pattern, str(seen))}


def test_a_dealer_deals_and_the_requester_waits_for_it_and_gets_the_labels(kits, deployed, job, small_blocks):
    """Both run at once, as they would; the requester begins, and sees whom it waits for."""
    told, dealt = [], []

    async def run():
        waiting = anyio.Event()

        def tell(what, done, total):
            told.append((what, done, total))
            if what.startswith("waiting for the dealer"):
                waiting.set()

        async def deal():
            await waiting.wait()
            dealt.append(await AsyncDealer(kits / "dealer-1").deal(job.id))

        async with anyio.create_task_group() as group:
            group.start_soon(deal)
            return await AsyncRequester(kits / "requester-1").run(job.id, tell)

    result = anyio.run(run)
    assert result.labels.tolist() == deployed.expected(job.id, job.votes).tolist()
    assert ("waiting for the dealer dealer-1", 0, 4) in told
    assert not [what for what, *_ in told if what == "dealing"]
    assert dealt[0].state in (JobState.DEALT, JobState.DONE)
    for server in deployed.servers:
        assert givers(server, kits) == {"dealer-1"}


def test_what_is_dealt_follows_from_the_kit_and_may_be_sent_again(both_ways, deployed, kits, data_file, small_blocks):
    job = Job(both_ways, data_file, dealer="dealer-1")
    deployed.close(job.id)
    told = []
    deployed.s1.fault("PUT .*/corrections/2", Fail.REFUSE, times=4)
    with pytest.raises(UnreachableError):
        both_ways.dealer("deal", job.id)
    view = both_ways.dealer("deal", job.id, progress=lambda *step: told.append(step))
    assert view.terms.dealer == "dealer-1"
    assert ("dealing", 50, 50) in told
    assert len(set(deployed.s1.bodies("PUT .*/corrections"))) == 4
    seeds = seeds_for(ClientKit.load(kits / "dealer-1").secret, deployed.task(job.id))
    assert set(deployed.s0.bodies("PUT .*/seed")) == {seeds.s0.key}
    assert set(deployed.s1.bodies("PUT .*/seed")) == {seeds.s1.key}
    sent = len(deployed.s0.bodies("PUT") + deployed.s1.bodies("PUT"))
    assert both_ways.dealer("deal", job.id).done
    assert len(deployed.s0.bodies("PUT") + deployed.s1.bodies("PUT")) == sent
    assert both_ways.requester("run", job.id).labels.tolist() == deployed.expected(job.id, job.votes).tolist()


def test_a_dealer_waits_for_the_end_of_the_vote(kits, deployed, job):
    looks = []

    def look_again(response):
        looks.append(response)
        if len(looks) == 3:
            deployed.close(job.id)
        return response

    deployed.s0.fault("GET /v1/jobs/[0-9a-f]+$", look_again, times=99)
    assert Dealer(kits / "dealer-1").deal(job.id).done
    assert len(looks) > 3


def test_a_dealer_sees_the_jobs_that_name_it(parties, deployed, job, data_file):
    other = parties.create(data_file).id
    assert [view.id for view in parties.dealer("jobs")] == [job.id]
    assert parties.dealer("jobs", number=2) == []
    view = parties.dealer("status", job.id)
    assert (view.phase, view.dealable) == ("voting", False)
    deployed.close(job.id)
    view = parties.dealer("status", job.id)
    assert (view.phase, view.dealable) == ("waiting for dealer-1's randomness", True)
    for number, id_ in ((1, other), (2, job.id)):
        with pytest.raises(NotFoundError):
            parties.dealer("deal", id_, number=number)
    parties.dealer("deal", job.id)
    assert not parties.dealer("status", job.id).dealable


def test_nothing_is_dealt_where_the_servers_do_not_agree(parties, deployed, job):
    deployed.close(job.id)

    for lie, error in ((altered(roster={"teachers": 3}), ServerError), (altered(task="0" * 32), TermsMismatchError)):
        deployed.s1.fault("GET /v1/jobs/[0-9a-f]+$", lie)
        with pytest.raises(error):
            parties.dealer("deal", job.id)
    for server in deployed.servers:
        assert not server.bodies("PUT .*/seed")


@pytest.mark.parametrize("server", ["s0", "s1"])
def test_a_seed_of_somebody_else_is_noticed_before_the_servers_run(parties, deployed, job, server):
    """Whoever had the token: labels made with seeds that do not belong together would be nonsense."""
    deployed.close(job.id)
    getattr(deployed, server).take_seed(job.id, bytes(32))
    with pytest.raises(ConflictError):
        parties.dealer("deal", job.id)
    assert deployed.runs == 0


def test_a_job_that_is_refused_is_not_waited_for(parties, deployed, data_file):
    job = Job(parties, data_file, teachers=2, dealer="dealer-1")
    deployed.close(job.id)
    with pytest.raises(TooFewTeachersError, match="2 teachers took part"):
        parties.dealer("deal", job.id)


def test_a_kit_of_another_role_is_none_and_a_requester_may_not_deal(kits, parties, deployed, job):
    with pytest.raises(KitError, match="kit of a requester"):
        Dealer(kits / "requester-1")
    deployed.close(job.id)
    with pytest.raises(ForbiddenError):
        Dealer(ClientKit.load(kits / "requester-1")).deal(job.id)
    assert repr(Dealer(kits / "dealer-1")) == "Dealer('dealer-1')"
