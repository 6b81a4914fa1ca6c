"""Classes by name: what a name may be, whoever chose it, and predictions that are names."""

from __future__ import annotations

import csv
import io
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sedml import aggregate
from sedml.errors import PredictionsError, TaskError
from sedml.protocol.class_names import check_names, ids_of, read_classes
from sedml.protocol.votes import as_votes
from sedml.service.terms import Terms

NAMES = ("benign", "malignant", "Crohn's disease (K50.9)", "doença", "良性")

HOSTILE = [
    "\x1b[31mred",
    "bell\x07",
    "new\nline",
    "tab\there",
    "turned\u202eback",
    "isolated\u2066mark",
    "zero\u200bwidth",
    "<b>bold</b>",
    "a&lt;b",
    'quoted"',
    "back`tick",
    "back\\slash",
    "=1+1",
    "+cmd",
    "-1",
    "@SUM",
    " leading",
    "two  spaces",
    "",
    "a" * 61,
    "7",
    "1e5",
    "nan",
    "N/A",
    "None",
    "\ud800",
    "ﬁne",
    "e" + "\u0301" * 9,
    "\u0301accent",
    "semi;colon",
    "comma,ed",
    "$(reboot)",
]


def terms(*names, classes=None):
    return Terms(
        requester="r",
        classes=len(names) if classes is None else classes,
        class_names=names,
        samples=100,
        threshold="0.6",
        sigma=40.0,
        epsilon=2.0,
        delta=1e-5,
        min_teachers=50,
        deadline=1,
        data_bytes=1,
        data_sha256="0" * 64,
        nonce="0" * 32,
    )


@pytest.mark.parametrize("hostile", HOSTILE)
def test_terms_take_no_name_that_could_hurt_whoever_is_shown_it(hostile):
    with pytest.raises(ValidationError):
        terms("benign", hostile)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=70))
def test_whatever_is_taken_can_be_shown_anywhere(name):
    try:
        check_names(("benign", name))
    except TaskError:
        return
    assert name.isprintable()
    assert not any(unicodedata.category(one)[0] == "C" for one in name)
    assert not set(name) & set('<>&"`\\=@;,|${}\x1b')
    assert unicodedata.category(name[0])[0] in "LN"
    text = io.StringIO()
    csv.writer(text).writerow([name])
    assert text.getvalue() == f"{name}\r\n"


def test_names_are_hashed_and_there_is_one_for_each_class():
    assert terms(*NAMES).class_names == NAMES
    ids = {terms(*NAMES).id, terms(*reversed(NAMES)).id, terms("a", "b").id, terms(classes=2).id}
    assert len(ids) == 4
    for names, classes in (
        (("a", "b"), 3),
        (("a",), 1),
        (("a", "A"), 2),
        (tuple(f"{k:060}x" for k in range(600)), 600),
    ):
        with pytest.raises(ValidationError):
            terms(*names, classes=classes)


def test_classes_are_a_number_or_names():
    assert read_classes(3) == (3, ())
    assert read_classes("3") == (3, ())
    assert read_classes(" benign, malignant ") == (2, ("benign", "malignant"))
    assert read_classes(np.array(["a", "b"])) == (2, ("a", "b"))
    with pytest.raises(TaskError, match="other than names"):
        read_classes([0, 1])
    with pytest.raises(TaskError, match="one class name"):
        read_classes(["benign"])


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(-1, len(NAMES) - 1), min_size=4, max_size=4), min_size=1, max_size=5))
def test_names_stand_for_class_ids_in_every_form(rows):
    words = [[str(number) if number < 0 else NAMES[number] for number in row] for row in rows]
    forms = [words, np.array(words), np.array(words, object), [np.array(row) for row in words]]
    for form in forms:
        assert as_votes(form, len(NAMES), NAMES).tolist() == rows
    assert as_votes(np.char.add(" ", np.array(words)), len(NAMES), NAMES).tolist() == rows


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("bengin", "'benign'"), ("Malignant", "'malignant'"), ("doenca", "'doença'"), ("987654", "The classes are")],
)
def test_a_name_that_is_no_class_is_refused_with_the_nearest_one_and_without_its_place(wrong, meant):
    with pytest.raises(PredictionsError) as caught:
        as_votes([["benign", wrong, "malignant", wrong]], len(NAMES), NAMES)
    assert caught.value.what == "2 predictions are not classes of this job."
    assert meant in caught.value.do
    assert wrong not in str(caught.value)


@pytest.mark.parametrize(
    "odd", [np.array([[b"\xff"]]), np.array([[None, "benign"]], object), np.array([[{1}]], object)]
)
def test_what_is_neither_a_name_nor_a_number_is_refused(odd):
    with pytest.raises(PredictionsError) as caught:
        as_votes(odd, len(NAMES), NAMES)
    assert caught.value.__context__ is None


def test_bytes_are_names_too():
    assert ids_of(np.array([[b"malignant", b"-2"]]), NAMES).tolist() == [[1, -1]]


def test_an_aggregation_by_names():
    found = aggregate([["b", "a"], ["b", "a"], ["b", -1]], classes=["a", "b"], threshold=2, sigma=0.1)
    assert found.labels.tolist() == [1, 0]
    assert found.names == ["b", "a"]
    assert found.class_names == ("a", "b")
    none = aggregate([[0, 1], [1, 1]], classes=2, threshold=2, sigma=0.1)
    assert none.names == [None, "1"]
