"""The page of an evidence document: nothing in it ends what it is in, hashes stay whole, and times have a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html import unescape

from sedml.service.client.evidence_document import Evidence, Section
from sedml.service.client.evidence_page import page

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
