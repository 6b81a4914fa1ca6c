"""Tables of points and of students: every figure that a point has, its heading, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import astuple, fields
from typing import TypeAlias

from sedml.lab.reproduce.item_result import Cell, Column, Table
from sedml.lab.reproduce.points import Point
from sedml.lab.reproduce.students import StudentRow
from sedml.lab.reproduce.sweep import Sweep

__all__ = ["point_table", "student_table"]

_Value: TypeAlias = Callable[[Point, Sweep], Cell]

_FIGURES: dict[str, tuple[str, str, _Value]] = {
    "dataset": ("data", "", lambda point, _: point.dataset),
    "epsilon_query": ("ε of a query", "g", lambda point, _: point.terms.epsilon),
    "teachers": ("teachers", ",", lambda point, _: point.terms.teachers),
    "threshold": ("threshold", "g", lambda point, _: point.terms.threshold),
    "plain_answered": ("labels, plain", ",", lambda point, _: point.quality("plain").answered),
    "secure_answered": ("labels, secure", ",", lambda point, _: point.quality("secure").answered),
    "plain_accuracy": ("right, plain", ".2%", lambda point, _: point.quality("plain").accuracy),
    "plain_again_accuracy": ("right, plain again", ".2%", lambda point, _: point.quality("again").accuracy),
    "secure_accuracy": ("right, secure", ".2%", lambda point, _: point.quality("secure").accuracy),
    "secure_right_of_all": ("right of all asked, secure", ".2%", lambda point, _: point.quality("secure").right_of_all),
    "student_plain": ("student, plain", ".2%", lambda point, found: found.taught(point, "plain")),
    "student_secure": ("student, secure", ".2%", lambda point, found: found.taught(point, "secure")),
    "same_noise_same_labels": ("same noise, same labels", "", lambda point, _: point.agrees),
    "delta": ("δ", "g", lambda point, _: point.delta),
    "queries": ("queries", ",", lambda point, _: len(point.truth)),
    "sigma": ("sigma1 = sigma2, votes", ".3f", lambda point, _: point.sigma),
    "epsilon_query_paper": ("ε of a query, the paper", ".4g", lambda point, _: point.privacy.query_paper),
    "epsilon_job_paper": ("ε of the job, the paper's formula", ",.1f", lambda point, _: point.privacy.job_paper),
    "epsilon_job_exact": ("ε of the job, proven, exact noise", ",.1f", lambda point, _: point.privacy.job_exact),
    "epsilon_job": ("ε of the job, as drawn", ",.1f", lambda point, _: point.privacy.job),
}
"""By its name in the CSV file: the heading on the page, the form of its numbers there, and where it comes from."""

_FORMS = {"labels": ",", "accuracy": ".4f"}


def point_table(
    name: str, title: str, keys: Sequence[str], points: Sequence[Point], found: Sweep, *, note: str = ""
) -> Table:
    """One row per point, with these figures."""
    chosen = [_FIGURES[key] for key in keys]
    columns = tuple(Column(key, heading, form) for key, (heading, form, _) in zip(keys, chosen, strict=True))
    rows = tuple(tuple(value(point, found) for _, _, value in chosen) for point in points)
    return Table(name, title, columns, rows, note)


def student_table(name: str, rows: Sequence[StudentRow]) -> Table:
    """Every student, for the CSV file."""
    names = [item.name for item in fields(StudentRow)]
    columns = tuple(Column(key, "labels" if key == "file" else key, _FORMS.get(key, "")) for key in names)
    return Table(name, "Every student", columns, tuple(astuple(row) for row in rows), page=False)
