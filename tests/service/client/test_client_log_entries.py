"""What an entry of a log says: that of its one text, or that it is odd."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.service.client.log_entries import ODD, said
from sedml.service.log.entries import entry_text

ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)),
    max_leaves=6,
)


@given(st.one_of(st.text(), ANYTHING.map(json.dumps), st.integers(1, 5).map(lambda size: "[" * 10**size)))
def test_any_text_that_is_no_entry_is_an_odd_one(text):
    assert said(text)["kind"] == ODD


LABELS = '{"at":1,"job":"%s","kind":"labels"%s}'


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (LABELS % ("f" * 32, ""), "labels"),
        (LABELS % ("f" * 32, ',"x":1e+300'), "labels"),
        ('{"job":"%s","at":1,"kind":"labels"}' % ("f" * 32), ODD),
        (LABELS % ("f" * 32, ',"x":1,"x":1'), ODD),
        (LABELS % ("f" * 32, ',"x": 1'), ODD),
        (LABELS % ("f" * 32, ',"x":1.50'), ODD),
        (LABELS % ("f" * 32, ',"x":NaN'), ODD),
        (LABELS % ("f" * 32, ',"x":"\u00e9"'), ODD),
        (LABELS % ("f" * 32, f',"x":1{"0" * 6000}'), ODD),
        ('{"at":2,"at":1,"job":"%s","kind":"labels"}' % ("f" * 32), ODD),
    ],
)
def test_an_entry_that_other_parsers_might_read_otherwise_is_odd(text, kind):
    assert said(text)["kind"] == kind


PROMISE = {"epsilon": 1.0, "delta": 1e-6, "unit": "organisation"}
SETTINGS = {"kind": "settings", "at": 1, "keep_labels": 1.0, "keep_inputs": 0.0}


def test_only_what_is_known_is_kept():
    rules = {"budgets": {"teachers": PROMISE}, "min_teachers": 3, "max_teachers": 9, "min_sigma": 0.01, "grace": 60.0}
    assert said(entry_text(SETTINGS | rules)) == SETTINGS | rules
    more = {"x": [[], []], "budgets": {"teachers": PROMISE | {"x": [[]]}}}
    assert said(entry_text(SETTINGS | more)) == SETTINGS | {"budgets": {"teachers": PROMISE}}
    assert said(entry_text(SETTINGS | {"budgets": [[], []]}))["kind"] == ODD


def test_an_entry_is_as_long_as_the_budgets_of_a_server_and_no_longer():
    most = {"budgets": {f"{number:03}": PROMISE for number in range(700)}}
    assert said(entry_text(SETTINGS | most))["kind"] == "settings"
    assert said(entry_text(SETTINGS | {"x": "x" * (1 << 16)}))["kind"] == ODD
