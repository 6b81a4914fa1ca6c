"""The page of an evidence document: nothing in it ends what it is in, hashes stay whole, and times have a zone.

There is a page whatever a server has put into its log.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from html import unescape
from types import SimpleNamespace
from unittest.mock import patch

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.service.client.budgets import Budgets
from sedml.service.client.evidence_document import Evidence, Section, evidence
from sedml.service.client.evidence_page import page
from sedml.service.client.log_entries import ODD, said
from sedml.service.client.log_reading import Entry, LogReading
from sedml.service.log.entries import entry_text
from sedml.service.log.merkle import EMPTY, Tree, leaf_hash
from sedml.service.log.notes import Checkpoint
from sedml.service.messages import LogHead
from sedml.service.states import JobState
from support.deployment import terms_for

HASH = "0123456789abcdef" * 4


def made(title="Job", rows=(), note=""):
    moment = datetime(2026, 11, 18, 20, 38, tzinfo=UTC)
    return page(Evidence(title, moment, "teacher-001", (Section("Section", tuple(rows), note),), {"title": title}))


def text(html):
    return unescape(re.sub(r"<style>.*?</style>|<[^>]+>", "", html, flags=re.DOTALL))


def test_what_a_title_says_ends_neither_the_style_nor_its_string():
    html = made('a"; } </style><script>alert(1)</script> \\')
    assert html.count("</style>") == 1
    assert "<script" not in html
    style = html[html.index("<style>") : html.index("</style>")]
    assert style.count('"') == 4, "the title and the words between the page's number and their number"
    assert "alert(1)" in text(html)


def test_a_hash_is_one_word_that_breaks_in_its_middle():
    html = made(rows=[(HASH[:32], f"the root {HASH}, which S1 cosigned"), ("Odd", HASH + "0")])
    assert f"<code>{HASH[:32]}<wbr>{HASH[32:]},</code> which" in html
    assert f"<code>{HASH[:16]}<wbr>{HASH[16:32]}</code></th>" in html
    assert f"<td>{HASH}0</td>" in html
    assert f"the root {HASH}, which" in text(html)


def test_times_have_a_zone_and_do_not_break():
    html = made(rows=[("Terms", "S0: entry 1,234, 2026-11-18 20:38 UTC; S1: entry 9, 2026-11-18 20:39 UTC")])
    assert '<span class="whole">S0: entry 1,234, 2026-11-18 20:38 UTC</span>; ' in html
    assert re.findall(r"\d\d:\d\d(?! UTC)", text(html)) == []


def test_the_page_stands_alone():
    html = made(note="A note.")
    assert not re.search(r"https?:|url\(|@import|src=|href=", html)


TERMS = terms_for(50)
JOBS = st.sampled_from([TERMS.id, "f" * 32])
AMOUNTS = st.one_of(
    st.floats(0, allow_infinity=False, allow_nan=False),
    st.sampled_from([0.0, 5e-324, 1e-4, 1e-3, 0.5, 86_400.0, 1e308]),
)
TIMES = st.one_of(st.integers(0, 2**36 - 1), st.sampled_from([0, 1, 2**36 - 1]))
COUNTS = st.one_of(st.integers(0, 9), st.sampled_from([2**62 - 1, 2**53 + 1]))
TEXTS = st.text(st.sampled_from("aZ09 .+:-_\u0661"), max_size=20)
HEADS = st.fixed_dictionaries({"size": COUNTS, "root": st.sampled_from([EMPTY.hex(), "ab" * 32])})
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**30), 10**30), AMOUNTS, st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)),
    max_leaves=6,
)
PROMISES = st.fixed_dictionaries({"epsilon": AMOUNTS, "delta": AMOUNTS, "unit": st.just("organisation")})
FIELDS = {
    "at": TIMES,
    "job": JOBS,
    "cohort": st.sampled_from([TERMS.cohort, "x", "0" * 63]),
    "teachers": COUNTS,
    "unit": st.sampled_from(["organisation", "a", "a b-c"]),
    "epsilon": AMOUNTS,
    "delta": AMOUNTS,
    "rho": AMOUNTS,
    "state": st.sampled_from([state.value for state in JobState]),
    "charged": st.booleans(),
    "role": st.sampled_from(["teacher", "requester", "operator"]),
    "change": TEXTS,
    "version": TEXTS,
    "release": TEXTS,
    "kernel": st.none() | TEXTS,
    "keep_labels": AMOUNTS,
    "keep_inputs": AMOUNTS,
    "log": st.sampled_from(["s0", "s1"]),
    "was": HEADS,
    "kept": HEADS,
    "now": HEADS,
    "budgets": st.dictionaries(st.sampled_from([TERMS.cohort, "x"]), PROMISES),
    "number": JSON,
    "<b>{": JSON,
}
NEEDED = {
    "job": {"job", "cohort"},
    "roster": {"job", "teachers"},
    "charge": {"job", "cohort", "unit", "epsilon", "delta", "rho"},
    "labels": {"job"},
    "end": {"job", "state", "charged"},
    "deleted": {"job"},
    "account": {"role", "change"},
    "software": {"version", "release", "kernel"},
    "settings": {"keep_labels", "keep_inputs"},
    "alarm": set(),
    "restored": {"log", "was", "kept", "now"},
}


@st.composite
def entries(draw):
    """Any entry that makes sense, with whatever else it may have, as it stands in a log."""
    kind = draw(st.sampled_from(sorted(NEEDED)))
    more = draw(st.sets(st.sampled_from(sorted(FIELDS)), max_size=3))
    return entry_text({"kind": kind} | {name: draw(FIELDS[name]) for name in sorted({"at", *NEEDED[kind], *more})})


def reading(name, texts, cosigned_at):
    tree = Tree(leaf_hash(text.encode()) for text in texts)
    checkpoint = Checkpoint(name, tree.size, tree.root(tree.size))
    head = LogHead(server=name, checkpoint="", consistency=[], certificates={})
    found = tuple(Entry(number, said(text), None) for number, text in enumerate(texts))
    return LogReading(name, "", checkpoint, cosigned_at, found, len(texts) % 2, head, tree)


def pages(first, second, cosigned_at=1_800_000_000):
    """Those of the job and of its cohort, with these entries in the two logs."""

    async def log():
        return {"s0": reading("s0", first, cosigned_at), "s1": reading("s1", second, cosigned_at)}

    async def status(job):
        return SimpleNamespace(id=job, terms=TERMS, phase="open")

    async def budgets(kit, patience):
        return Budgets(())

    client = SimpleNamespace(
        kit=SimpleNamespace(name="requester-1", role="requester"), patience=0, log=log, status=status
    )
    with patch("sedml.service.client.evidence_document.read_budgets", budgets):
        for job in (TERMS.id, None):
            found = anyio.run(evidence, client, job, TERMS.cohort)
            json.dumps(found.document(), allow_nan=False)
            yield page(found)


@given(st.lists(entries(), max_size=4), st.lists(entries(), max_size=4), TIMES)
def test_any_entries_that_make_sense_give_a_page(first, second, cosigned_at):
    assert [said(text) for text in first + second if said(text)["kind"] == ODD] == []
    for html in pages(first, second, cosigned_at):
        assert html.count("<main>") == 1
        assert "<b>" not in html


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.0, "as soon as"), (1e-4, "0.1 milliseconds after"), (5e-324, "milliseconds after"), (86_400.0, "1 day after")],
)
def test_however_long_a_server_says_that_it_keeps_labels_there_is_a_page(seconds, told):
    rules = entry_text({"kind": "settings", "at": 1, "keep_labels": seconds, "keep_inputs": 0.0})
    assert all(told in text(html) for html in pages([rules], []))
