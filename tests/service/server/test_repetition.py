"""The rule for repetition, with two servers of which either is killed between any two steps, or one lies at will.

A server is a generator that stops at each step: a write to its disk, a word sent, a word awaited. What was sent
arrives, also from a server that is dead by then.
"""

import contextlib
from collections import deque
from dataclasses import dataclass, field
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import AttemptsError, CheatingError, SedmlError
from sedml.protocol.task import EXTRA_ATTEMPTS
from sedml.service.server.run.repetition import Row, RowState, check_number, following

WAITING, RUNNING, SAVED, FINAL = RowState
WRITE, SEND, RECEIVE = "write", "send", "receive"


@dataclass
class Disk:
    """A block's row and share at one server, and whatever was ever true of them."""

    row: Row = field(default_factory=Row)
    share: int | None = None
    """The attempt that it is of."""
    begun: list[int] = field(default_factory=list)
    handed_out: set[int] = field(default_factory=set)

    def change(self, before: Row, after: Row, share: int | None) -> None:
        assert self.row == before, "compare-and-set"
        assert not self.row.is_final, "what is final never changes"
        self.row, self.share = after, share
        if after.state is RUNNING:
            self.begun.append(after.attempt)
        if after.is_final:
            assert share == after.attempt
            self.handed_out.add(share)


def meeting(disk: Disk):
    """One server's side: as `meeting` has it, for one block."""
    mine = disk.row
    yield SEND, (mine.attempt, mine.state)
    theirs = yield RECEIVE, None
    after = following(mine, Row(theirs[0], RowState(theirs[1])))
    if not after.is_final:
        check_number(after.attempt - 1)
        yield WRITE, lambda: disk.change(mine, after, None)
        yield SEND, ("protocol", after.attempt)
        if (yield RECEIVE, None) != ("protocol", after.attempt):
            raise CheatingError("A check failed.", "")
        saved = Row(after.attempt, SAVED)
        yield WRITE, lambda: disk.change(after, saved, saved.attempt)
        yield SEND, ("saved", saved.attempt)
        if (yield RECEIVE, None) != ("saved", saved.attempt):
            raise CheatingError("It has saved another one.", "")
        yield WRITE, lambda: disk.change(saved, Row(saved.attempt, FINAL), saved.attempt)
    elif not mine.is_final:
        yield WRITE, lambda: disk.change(mine, after, mine.attempt)


def play(sides, schedule) -> list:
    """Both sides in the order that the schedule says, until neither can go on; what became of each.

    An entry of the schedule is a role, or ("kill", role). When it is over both go on in turn.
    """
    words, said, over = [deque(), deque()], [None, None], [None, None]

    def advance(role: int) -> bool:
        if over[role] is not None:
            return False
        kind, what = said[role] or (None, None)
        came = None
        if kind == RECEIVE:
            if not words[role]:
                if over[1 - role] is None:
                    return False
                over[role] = "alone"
                return True
            came = words[role].popleft()
        elif kind == WRITE:
            what()
        try:
            said[role] = sides[role].send(came) if said[role] else next(sides[role])
        except StopIteration:
            over[role] = "done"
        except SedmlError as error:
            over[role] = error
        if said[role][0] == SEND and over[role] is None:
            words[1 - role].append(said[role][1])
        return True

    for entry in schedule:
        if isinstance(entry, int):
            advance(entry)
        elif over[entry[1]] is None:
            over[entry[1]] = "killed"
    while advance(0) or advance(1):
        pass
    return over


roles = st.integers(0, 1)
schedules = st.lists(roles | st.tuples(st.just("kill"), roles), max_size=24)


def check_honest(disk: Disk) -> None:
    assert len(disk.handed_out) <= 1
    assert disk.begun == sorted(set(disk.begun))
    assert len(disk.begun) <= 1 + EXTRA_ATTEMPTS
    assert disk.share == (disk.row.attempt if disk.row.has_share else None)


@given(st.lists(schedules, max_size=20))
def test_two_honest_servers_hand_out_the_shares_of_one_attempt_or_give_up(histories):
    disks = Disk(), Disk()
    for schedule in [*histories, [], []]:
        ends = play([meeting(disk) for disk in disks], schedule)
        assert not [end for end in ends if isinstance(end, CheatingError)], "no crash makes one accuse the other"
        for disk in disks:
            check_honest(disk)
    if all(disk.row.is_final for disk in disks):
        assert disks[0].handed_out == disks[1].handed_out
    else:  # in calm weather they end with it, unless it was broken off too often
        assert all(isinstance(end, AttemptsError) for end in ends)
        assert max(disk.row.attempt for disk in disks) > EXTRA_ATTEMPTS
    # Whoever hands out a share knows that the other one has its own on disk.
    for one, other in (disks, disks[::-1]):
        for attempt in one.handed_out:
            assert other.share == attempt


@given(st.lists(st.lists(st.integers(0, 1), max_size=4), max_size=EXTRA_ATTEMPTS // 2))
def test_few_breaks_never_cost_a_block(kills):
    disks = Disk(), Disk()
    for entries in kills:
        play([meeting(disk) for disk in disks], [*entries, ("kill", len(entries) % 2)])
    assert play([meeting(disk) for disk in disks], []) == ["done", "done"]
    assert disks[0].row == disks[1].row
    assert disks[0].row.is_final


numbers = st.integers(0, 20) | st.sampled_from([2**31, 2**32 - 1])
lies = st.tuples(numbers, st.sampled_from([*RowState]))


def liar(row, honest: Disk, words):
    """Says that it has the block there, then for so many words what fits the honest server's attempt, and hangs up."""
    yield SEND, row
    yield RECEIVE, None
    for word in ["protocol", "saved"][:words]:
        number = max(row[0], honest.row.attempt) if honest.row.state is WAITING else honest.row.attempt
        yield SEND, (word, number)
        yield RECEIVE, None


@given(st.lists(st.tuples(lies, st.integers(0, 2), schedules), max_size=24))
def test_whatever_one_server_says_the_other_hands_out_one_share(histories):
    disk, over = Disk(), False
    for row, words, schedule in histories:
        if over:
            break
        before, told = disk.row, [*disk.begun]
        sides = [meeting(disk), liar((row[0], row[1]), disk, words)]
        end = play(sides, [0, 1, 1, 0, *(entry for entry in schedule if entry != ("kill", 0))])[0]
        over = isinstance(end, SedmlError)  # the job is over: such an error ends it
        check_honest(disk)
        if before.is_final:
            assert (disk.row, disk.begun) == (before, told), "a final server begins nothing"


def test_every_pair_of_rows_has_one_way_on_for_both():
    rows = [Row(), *(Row(attempt, state) for attempt, state in product((1, 2, 3), (RUNNING, SAVED, FINAL)))]
    for mine, theirs in product(rows, rows):
        ways = []
        for one, other in ((mine, theirs), (theirs, mine)):
            with contextlib.suppress(CheatingError):
                ways.append(following(one, other))
        assert len(ways) in (0, 2), "both find it wrong, or neither"
        if ways:
            assert ways[0] == ways[1]
            [way] = set(ways)
            assert way.is_final == (mine.attempt == theirs.attempt and mine.has_share and theirs.has_share)
            assert way.is_final or way.attempt > max(mine.attempt, theirs.attempt)
        else:
            assert mine.is_final or theirs.is_final


def test_there_is_a_limit():
    check_number(EXTRA_ATTEMPTS)
    with pytest.raises(AttemptsError):
        check_number(EXTRA_ATTEMPTS + 1)
