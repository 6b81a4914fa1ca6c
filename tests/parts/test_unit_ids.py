"""One unit, one spelling, one part."""

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sedml.errors import FileFormatError, InputError
from sedml.parts.unit_ids import Units, part_of, read_key, refuse_missing, unit_of

KEY = bytes(range(32))


@pytest.mark.parametrize(
    "spellings",
    [
        [7, 7.0, "7", " 7 ", "007", "7.0", "7.", "+7", "7.00", np.int64(7), np.float32(7), np.str_("7"), b"7", "７"],
        [
            "P7",
            "p7 ",
            "p07",
            "P 7",
            "P\u00a07",
            "\ufeffP7",
            "P\u200b7",
            "P-7",
            "P\u20137",
            "P\u22127",
            "P\u0667",
            '="P7"',
        ],
        ["P7", "P\ufe0f7", "P\u034f7", "P\u28007", "'P7", "{P7}"],
        ["0f8fad5b-d9cb-469f-a165-70867728950e", "{0F8FAD5BD9CB469FA16570867728950E}"],
        ["1234567", "1,234,567", "1.234.567", "1 234 567"],
        ["100000", "1e5", "1E5", "1e05", 100_000, 1e5, Decimal("1e5")],
        ["Müller", "Mu\u0308ller", "MÜLLER"],
        ["P7", "P\x007", "P7\t"],
        ["0", 0, -0.0, "000", False],
        ["0.5", 0.5, "0.50"],
    ],
)
def test_spellings_of_one_id_are_one_unit(spellings):
    assert len({unit_of(one) for one in spellings}) == 1


@pytest.mark.parametrize(
    "value",
    [None, math.nan, math.inf, np.nan, "", "  ", "NaN", "None", "null", "NA", "n/a", "<NA>", "NaT", 2.0**53, -1e300],
)
def test_what_is_no_id(value):
    assert unit_of(value) is None


ROUNDED = ["1.23457E+12", "1e+05", "1.2345678901234568e+18", "1.2e18", "1234567890123456789.0"]


@pytest.mark.parametrize("value", [*ROUNDED, "7.000", "12,000"])
def test_what_spreadsheets_have_rounded_is_no_id(value):
    """What was lost cannot be known: it could be anybody's."""
    assert unit_of(value) is None


def test_other_ids_are_other_units():
    ids = ["7", "70", "P7", "P70", "P7a", "9007199254740993", "9007199254740992", "1e999", "null1"]
    assert len({unit_of(one) for one in ids}) == len(ids)


@given(st.text())
def test_the_one_spelling_is_its_own_spelling(text):
    unit = unit_of(text)
    assert unit is None or unit_of(unit) == unit
    assert unit_of(f" {text}\t") == unit


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(0, 9))
def test_a_whole_number_has_one_spelling(number, zeros):
    text = f"{'-' if number < 0 else ''}{'0' * zeros}{abs(number)}"
    assert unit_of(number) == unit_of(text) == unit_of(f"{text}.0")


def test_an_id_may_be_longer_than_python_reads_numbers():
    assert unit_of("0" + "9" * 5000) == "9" * 5000


def test_parts_are_even_and_depend_on_the_key():
    counts = np.bincount([part_of(str(k), KEY, 31) for k in range(31_000)], minlength=31)
    assert abs(counts - 1000).max() < 6 * math.sqrt(1000)
    moved = sum(part_of(str(k), KEY, 31) != part_of(str(k), bytes(32), 31) for k in range(1000))
    assert moved > 900


def test_the_part_of_an_id_never_changes():
    """A release that hashes in another way would move every patient to another part."""
    assert [part_of(unit, KEY, 31) for unit in ("7", "p7", "müller")] == [8, 4, 25]


def test_equal_values_of_other_kinds_are_not_mixed_up():
    units = Units(KEY, 31)
    places = units.places([True, 1, 1.0, "1", float(2**60), 2**60, math.nan])
    assert len(set(places[:4].tolist())) == 1
    assert (places[4], places[6]) == (-1, -1)
    assert places[5] >= 0
    assert len(units.respelt) == 1
    assert units.per_part().sum() == 2


def test_records_without_an_id_are_counted_and_numbered():
    places = np.array([0, -1, 2, *[-1] * 9])
    with pytest.raises(
        InputError,
        match=r"^Records of x\.csv without an id in 'pid': 10 of 12 \(number 2, 4, 5, 6, 7, \.\.\., from 1\)",
    ):
        refuse_missing(places, "pid", "x.csv")
    refuse_missing(np.array([0]), "pid", "x.csv")


@pytest.mark.parametrize("content", ["", "zz" * 32, "ab" * 31, "\xff"])
def test_a_damaged_key_is_refused_and_not_shown(tmp_path, content):
    (tmp_path / "key").write_text(content, encoding="latin-1")
    with pytest.raises(FileFormatError) as caught:
        read_key(tmp_path / "key")
    assert not content or content not in str(caught.value)
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_key(tmp_path / "none")
