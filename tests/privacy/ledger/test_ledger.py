"""What each call does and what it refuses, on both databases."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest

from sedml.errors import BudgetExceededError, InputError, LedgerError, PrivacyError
from sedml.privacy.ledger import Ledger, Reservation, State, fingerprint
from support.ledger_children import DELTA, EPSILON
from support.tiers import thorough

# ---- Budgets ----------------------------------------------------------------------------------------


def test_the_same_budget_again_does_nothing(ledger):
    ledger.reserve("c", "j", 0.01)
    before = ledger.status("c")
    assert ledger.set_budget("c", EPSILON, DELTA) == before
    assert before.rho.reserved == pytest.approx(0.01)


@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, DELTA), (EPSILON, 1e-6)])
def test_other_numbers_are_refused(ledger, epsilon, delta):
    before = ledger.status("c")
    with pytest.raises(PrivacyError, match="made once"):
        ledger.set_budget("c", epsilon, delta)
    assert ledger.status("c") == before


def test_a_new_cohort_has_all_of_its_budget_left(ledger):
    shown = ledger.status("c")
    assert (shown.epsilon, shown.delta) == (EPSILON, DELTA)
    assert shown.rho.left == shown.rho.budget == pytest.approx(0.10809, rel=1e-4)
    assert shown.used == 0.0


# ---- The life of a job ------------------------------------------------------------------------------


def test_the_budget_can_be_used_up_to_the_last_unit_and_no_further(ledger):
    left = ledger.status("c").rho.left
    ledger.reserve("c", "all", left)
    assert ledger.status("c").rho.left == 0.0
    ledger.reserve("c", "nothing", 0.0)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("c", "more", 5e-324)


def test_the_samplers_distance_has_a_budget_too(ledger):
    limit = ledger.status("c").distance.budget
    ledger.reserve("c", "j", 0.0, limit * 0.9)
    with pytest.raises(BudgetExceededError, match="samplers that are off"):
        ledger.reserve("c", "k", 0.0, limit * 0.2)


def test_reserving_again_with_the_same_terms_is_charged_once(ledger):
    first = ledger.reserve("c", "j", 0.06, 1e-9, terms=b"hash")
    assert ledger.reserve("c", "j", 0.06, 1e-9, terms=b"hash") == first
    assert ledger.status("c").rho.reserved == pytest.approx(0.06)
    ledger.start("c", "j")
    again = ledger.reserve("c", "j", 0.06, 1e-9, terms=b"hash")
    assert (again.state, again.rho) == (State.STARTED, pytest.approx(0.06))
    shown = ledger.status("c").rho
    assert (shown.spent, shown.reserved) == (pytest.approx(0.06), 0.0)


@pytest.mark.parametrize(("rho", "distance", "terms"), [(0.02, 0.0, b"t"), (0.01, 1e-12, b"t"), (0.01, 0.0, b"u")])
def test_other_terms_under_the_same_name_are_refused(ledger, rho, distance, terms):
    ledger.reserve("c", "j", 0.01, terms=b"t")
    with pytest.raises(LedgerError, match="other terms"):
        ledger.reserve("c", "j", rho, distance, terms=terms)
    assert ledger.status("c").rho.reserved == pytest.approx(0.01)


def test_cancelling_gives_everything_back_once(ledger):
    ledger.reserve("c", "j", 0.1, 1e-9)
    assert ledger.cancel("c", "j") == ledger.cancel("c", "j")
    shown = ledger.status("c")
    assert (shown.rho.left, shown.distance.left) == (shown.rho.budget, shown.distance.budget)
    # Whoever still holds the old reservation must not get in by a new one of the same name.
    with pytest.raises(LedgerError, match="another name"):
        ledger.reserve("c", "j", 0.1, 1e-9)
    with pytest.raises(LedgerError, match="is cancelled"):
        ledger.start("c", "j")


def test_what_was_started_is_spent_for_good(ledger):
    ledger.reserve("c", "j", 0.1, 1e-9)
    ledger.start("c", "j")
    for call in (ledger.start, ledger.cancel):
        with pytest.raises(LedgerError, match="is started"):
            call("c", "j")
    assert ledger.status("c").rho.spent == pytest.approx(0.1)


def test_jobs_are_listed_oldest_first(ledger):
    for name in ("b", "a", "c"):
        ledger.reserve("c", name, 0.001)
    ledger.start("c", "a")
    assert [job.job for job in ledger.jobs("c")] == ["b", "a", "c"]
    assert [job.job for job in ledger.jobs("c", State.STARTED)] == ["a"]


@pytest.mark.parametrize("bad", ["", "x" * 201, "a\x00b", "a\nb", "\ud800", 7, None])
def test_bad_names(ledger, bad):
    for call in (
        lambda: ledger.set_budget(bad, 1.0, 1e-5),
        lambda: ledger.status(bad),
        lambda: ledger.reserve(bad, "j", 0.01),
        lambda: ledger.reserve("c", bad, 0.01),
        lambda: ledger.start("c", bad),
    ):
        with pytest.raises(InputError, match="name"):
            call()


def test_unknown_cohorts_and_jobs(ledger):
    for call in (
        lambda: ledger.status("d"),
        lambda: ledger.jobs("d"),
        lambda: ledger.reserve("d", "j", 0.01),
        lambda: ledger.start("d", "j"),
        lambda: ledger.known("d", [b"x"]),
        lambda: ledger.remember("d", "j", [b"x"], [1]),
    ):
        with pytest.raises(LedgerError, match='no cohort "d"'):
            call()
    for call in (ledger.start, ledger.cancel, ledger.job):
        with pytest.raises(LedgerError, match='no job "x"'):
            call("c", "x")


# ---- Answers ----------------------------------------------------------------------------------------


def running(ledger: Ledger, job: str) -> Reservation:
    ledger.reserve("c", job, 0.001)
    return ledger.start("c", job)


def test_labels_come_back_as_they_were(ledger):
    running(ledger, "j")
    labels = [0, -1, 9, 2**63 - 1, -(2**63), np.int16(7)]
    keys = [f"{number}".encode() for number in range(len(labels))]
    given = ledger.remember("c", "j", keys, labels)
    assert given == labels == ledger.known("c", keys)
    assert {type(label) for label in given} == {int}
    assert ledger.known("c", [b"other", keys[2], keys[2]]) == [None, 9, 9]
    assert ledger.known("c", []) == ledger.remember("c", "j", [], []) == []


def test_more_answers_than_fit_in_one_statement(ledger):
    running(ledger, "j")
    keys = [number.to_bytes(4, "big") for number in range(10_000)]
    ledger.remember("c", "j", keys[::2], list(range(5_000)))
    assert ledger.known("c", keys)[::2] == list(range(5_000))
    assert ledger.known("c", keys)[1::2] == [None] * 5_000


@pytest.mark.parametrize(
    ("keys", "labels"),
    [
        ([b"x"], []),
        ([b""], [1]),
        (["x"], [1]),
        ([b"x" * 65], [1]),
        ([b"w", b"x"], [1, None]),
        ([b"w", b"x"], [1, 2**63]),
        ([b"w", b"x"], [1, 1.0]),
        ([b"w", b"x"], [1, True]),
        ([b"w", b"x"], [1, b"2"]),
    ],
)
def test_bad_answers_leave_nothing_behind(ledger, keys, labels):
    running(ledger, "j")
    with pytest.raises(InputError):
        ledger.remember("c", "j", keys, labels)
    assert ledger.known("c", [b"w", b"x"]) == [None, None]


# ---- Fingerprints -----------------------------------------------------------------------------------


def test_a_fingerprint_is_that_of_type_shape_and_contents():
    image = np.arange(12, dtype=np.int32).reshape(3, 4)
    same = [image.copy(), np.asfortranarray(image), image.astype(">i4"), np.repeat(image, 2, 1)[:, ::2]]
    assert {fingerprint(sample) for sample in same} == {fingerprint(image)}
    others = [
        image.T, image.reshape(4, 3), image.astype(np.int64), image.view(np.float32), image + 1, image[:2],
        image.reshape(1, 3, 4), image.tobytes(), "", 0, np.zeros(0), np.zeros((0, 2)),
    ]  # fmt: skip
    prints = {fingerprint(sample) for sample in [image, *others]} | {fingerprint(image, b"classes")}
    assert len(prints) == len(others) + 2
    assert {len(one) for one in prints} == {32}


def test_the_fingerprint_stays_what_it_is():
    # Ledgers on disk rely on it.
    assert (
        fingerprint(np.array([1, 2], np.int64)).hex()
        == "4a5e39a52fa28da1fe922fec0640f7d9ba329936f22460ec05eb8091af9881e4"
    )


@pytest.mark.parametrize("sample", [[None], [object()], np.zeros(2, "f4,i4"), np.zeros(1, "M8[s]")])
def test_what_has_no_fingerprint(sample):
    with pytest.raises(InputError):
        fingerprint(np.asarray(sample))


# ---- Files ------------------------------------------------------------------------------------------


def test_a_closed_ledger_says_so(ledger):
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="was closed"):
        ledger.status("c")


def test_a_path_is_a_sqlite_file_for_its_owner_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for where in (tmp_path / "one.db", str(tmp_path / "two.db"), "three.db", "sqlite:///four.db"):
        with Ledger.open(where) as ledger:
            ledger.set_budget("c", EPSILON, DELTA)
            files = list(tmp_path.glob(f"{Path(where).name}*"))
            assert len(files) == 3  # with its log and its index
            assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
            assert Path(where).name in repr(ledger)


def test_sqlite_is_set_up_to_keep_what_it_commits(tmp_path):
    with Ledger.open(tmp_path / "l.db") as ledger, ledger._database.read() as connection:
        asked = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        assert [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in asked] == ["wal", 2, 1, 30_000]


@thorough
def test_postgresql_is_set_up_to_keep_what_it_commits(postgres):
    where = postgres.new("durable").replace("options=", "options=-csynchronous_commit%3Doff%20")
    with Ledger.open(where, timeout=2.0) as ledger, ledger._database.read() as connection:
        asked = ("synchronous_commit", "lock_timeout", "transaction_isolation")
        assert [connection.exec_driver_sql(f"SHOW {name}").scalar() for name in asked] == ["on", "2s", "read committed"]
