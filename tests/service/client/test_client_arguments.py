"""What people pass to the clients: every natural form works, and anything else is an error of ours that names it."""

import shutil
from collections import deque
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import anyio
import httpx2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sedml
from sedml.errors import InputError, SedmlError
from sedml.service.client.arguments import number, whole_number
from support.client_parties import TERMS, VOTES, Model, Parties

torch = pytest.importorskip("torch")


class Frame:
    """As pandas has them: columns of any type, rows by slices, an array on request."""

    def __init__(self, rows) -> None:
        self._rows = np.asarray(rows)
        self.shape = self._rows.shape

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key):
        return Frame(self._rows[key])

    def __array__(self, dtype=None, copy=None):
        return self._rows.astype(dtype or self._rows.dtype)


# ---- What works ------------------------------------------------------------------------------------------------

SAMPLES = np.column_stack([VOTES, np.zeros(50)]).astype(np.float32)


@pytest.mark.parametrize(
    "made",
    [list, lambda x: x.tolist(), Frame, torch.from_numpy, lambda x: tuple(map(tuple, x)), lambda x: x],
    ids=["rows", "lists", "frame", "tensor", "tuples", "array"],
)
def test_samples_are_taken_in_every_form(parties, deployed, made):
    job = parties.create(made(SAMPLES)).id
    parties.teacher(1, "vote", job, model=Model())
    parties.teacher(2, "vote", job, model=Model(), data=SAMPLES)
    assert len(deployed.s1.bodies("PUT .*/ballot")) == 2


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({"deadline": 600}, 600),
        ({"deadline": 600.5}, 600),
        ({"deadline": np.int64(600)}, 600),
        ({"deadline": timedelta(minutes=10)}, 600),
        ({"deadline": "10m"}, 600),
        ({"classes": "3", "epsilon": "30", "delta": "1e-5", "min_teachers": "3", "threshold": "0.5"}, 7 * 86_400),
        ({"classes": 3.0, "epsilon": np.float32(30), "min_teachers": np.int8(3)}, 7 * 86_400),
        ({"sigma": Fraction(41), "epsilon": Decimal(30)}, 7 * 86_400),
    ],
    ids=str,
)
def test_numbers_and_times_are_taken_in_every_form(parties, deployed, data_file, changes, seconds):
    terms = parties.create(str(data_file), **changes).terms
    assert (terms.classes, terms.epsilon, terms.delta, terms.min_teachers) == (3, 30.0, 1e-5, 3)
    assert abs(terms.deadline - datetime.now(UTC).timestamp() - seconds) < 60


def test_a_job_is_given_by_its_id_or_as_it_was_returned(both_ways, deployed, data_file):
    job = both_ways.create(data_file)
    for number_ in (1, 2, 3):
        assert both_ways.teacher(number_, "vote", job, VOTES, max_epsilon="30").complete
    assert both_ways.teacher(1, "receipt", job).complete
    assert both_ways.teacher(1, "fetch", job) == data_file.read_bytes()
    result = both_ways.requester("run", both_ways.requester("status", job))
    assert both_ways.requester("labels", job).tolist() == result.labels.tolist()
    assert both_ways.requester("resume", job).done
    assert both_ways.requester("delete", job).s0.deleted


def test_data_for_a_model_stay_as_they_are(parties, deployed, data_file):
    """A model that was trained on frames wants frames; what only NumPy understands becomes an array."""
    shown = []

    class Watching(Model):
        def predict(self, samples):
            shown.append(type(samples))
            return np.asarray(samples)[:, 0]

    job = parties.create(data_file).id
    for number_, data in enumerate([Frame(SAMPLES), torch.from_numpy(SAMPLES), SAMPLES.tolist()], 1):
        parties.teacher(number_, "vote", job, model=Watching(), data=data)
    assert shown == [Frame, torch.Tensor, np.ndarray]


# ---- What does not ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [None, True, "two", "", "1_000x", [2], {}, float("nan"), float("inf"), 2j, b"2", np.timedelta64(3, "D")]
)
def test_what_is_no_number_is_named(wrong):
    for check in (number, whole_number):
        with pytest.raises(InputError, match="how_many"):
            check("how_many", wrong)


def test_a_fraction_is_no_whole_number():
    assert number("x", "2.5") == 2.5
    with pytest.raises(InputError, match=r"x is 2\.5"):
        whole_number("x", 2.5)


ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=40),
    st.binary(max_size=8),
    st.decimals(),
    st.fractions(),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(),
    st.dates(),
    st.lists(st.one_of(st.none(), st.integers(-3, 9), st.floats(), st.text(max_size=3)), max_size=4),
    st.lists(st.lists(st.integers(-1, 3), max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(
        [
            *("2", "0.6", "60%", "7d", "600", "1e999999999", "NaN", "Infinity", ".", "/", "~", "0" * 32, "a.npy"),
            *(Path("nowhere.npz"), Path(), object(), int, len, iter([1]), range(3), {1, 2}, deque([1]), b""),
            *(np.int64(5), np.float32(0.5), np.array(3), np.array([1, 2]), np.zeros((2, 0)), np.array(["a"])),
            *(np.datetime64("2030-01-01"), np.timedelta64(3, "D"), np.ma.array([1, 2], mask=[0, 1]), np.bool_(True)),
            *(np.array([None]), np.array([1 + 2j]), Frame([[1, 2]]), Frame(np.array([[1, "a"]], object))),
            *(torch.ones(2, 2), torch.ones(2, requires_grad=True), torch.tensor(3), torch.nn.Linear(1, 1)),
            *(datetime.min, datetime.max, timedelta.max, date.max, Decimal("sNaN"), Decimal("1e999999"), 10**400),
        ]
    ),
)

KITS = {"teacher": "teacher-001", "requester": "requester-1"}
_CREATE = [*TERMS, "sigma", "title", "cohort", "progress", "data"]
_CALLS = {
    "teacher": {
        "status": ["job_id"],
        "fetch": ["job_id", "to", "progress"],
        "vote": ["job_id", "predictions", "model", "data", "max_epsilon", "progress"],
        "receipt": ["job_id"],
    },
    "requester": {
        "status": ["job_id"],
        "create": _CREATE,
        "resume": ["job_id", "progress"],
        "run": ["job_id", "progress"],
        "labels": ["job_id", "progress"],
        "delete": ["job_id"],
    },
}


@pytest.fixture(scope="module")
def nobody(provisioned, tmp_path_factory):
    """Clients whose servers never answer: only what is checked before a call can be found out."""
    folder = tmp_path_factory.mktemp("alone")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)

        def refuse(_request):
            raise httpx2.ConnectError("nobody listens")

        patch.setattr("sedml.service.client.connection.https", lambda *_: httpx2.MockTransport(refuse))
        yield {role: shutil.copytree(provisioned / kit, folder / role) for role, kit in KITS.items()}


def call(kits, role, method, arguments):
    kinds = {"teacher": sedml.AsyncTeacher, "requester": sedml.AsyncRequester}

    async def run():
        await getattr(kinds[role](kits[role], patience=0), method)(**arguments)

    anyio.run(run)


@pytest.mark.parametrize(("role", "method"), [(role, method) for role, all_ in _CALLS.items() for method in all_])
def test_whatever_is_passed_a_call_works_or_raises_an_error_of_ours(nobody, role, method):
    names = _CALLS[role][method]

    @given(data=st.data())
    @settings(max_examples=60)
    def fuzzed(data):
        good = {"job_id": "0" * 32} if "job_id" in names else TERMS | {"data": [[1, 2]] * 5}
        if method == "vote":
            good["predictions"] = [1, 2]
        for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
            good[name] = data.draw(ODD, label=name)
        with pytest.raises(SedmlError):  # nobody listens
            call(nobody, role, method, good)

    fuzzed()


@given(kit=ODD, patience=ODD)
def test_whatever_is_passed_for_a_kit_is_one_or_an_error_of_ours(provisioned, kit, patience):
    for kind in (sedml.Teacher, sedml.Requester, sedml.AsyncTeacher, sedml.AsyncRequester):
        with pytest.raises(SedmlError):
            kind(kit)
        good = provisioned / ("teacher-001" if "Teacher" in kind.__name__ else "requester-1")
        try:
            kind(good, patience=patience)
        except InputError as error:
            assert "patience" in str(error)  # noqa: PT017 - most are wrong, some are right


@given(name=st.sampled_from(["model", "max_epsilon", "max_total_epsilon", "delta", "interval"]), value=ODD)
def test_whatever_is_passed_to_a_watch_is_taken_or_an_error_of_ours(provisioned, name, value):
    with suppress(SedmlError):
        sedml.AsyncTeacher(provisioned / "teacher-001").watch(**{"model": Model(), "max_epsilon": 1} | {name: value})


def test_a_kit_of_another_role_is_refused_when_it_is_loaded_already(provisioned):
    from sedml.service.kits import ClientKit

    with pytest.raises(InputError, match="kit of a teacher"):
        sedml.Requester(ClientKit.load(provisioned / "teacher-001"))


def test_a_wrong_argument_is_found_before_a_server_is_called(kits, deployed, data_file):
    parties = Parties(kits, True)
    for changes in (
        {"classes": "many"},
        {"epsilon": None},
        {"min_teachers": 2.5},
        {"deadline": date(2030, 1, 1)},
        {"title": 7},
        {"progress": "bar"},
        {"progress": int},
        {"delta": 0.5},
        {"delta": 1e-300},
    ):
        with pytest.raises(InputError, match=next(iter(changes)).replace("_", ".")):
            parties.create(data_file, **changes)
    with pytest.raises(InputError, match="max_epsilon"):
        parties.teacher(1, "vote", "0" * 32, VOTES, max_epsilon="cheap")
    assert not deployed.s0.seen
