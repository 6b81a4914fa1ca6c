"""The proof of a page once more, in plain integers and as slow as it likes, over any field F[x] / (x^d - a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

Element: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Extension:
    """Elements are d coefficients of F, lowest first."""

    p: int
    degree: int
    a: int

    def number(self, value: int) -> Element:
        return (value % self.p, *[0] * (self.degree - 1))

    def add(self, *terms: Element) -> Element:
        return tuple(sum(column) % self.p for column in zip(*terms, strict=True))

    def times(self, one: Element, other: Element) -> Element:
        out = [0] * self.degree
        for i, x in enumerate(one):
            for j, y in enumerate(other):
                wraps, at = divmod(i + j, self.degree)
                out[at] += x * y * (self.a if wraps else 1)
        return tuple(value % self.p for value in out)

    def product(self, *factors: Element) -> Element:
        return reduce(self.times, factors, self.number(1))

    def less(self, one: Element, value: int) -> Element:
        return self.add(one, self.number(-value))

    def through(self, points: Sequence[int], values: Sequence[Element], at: Element) -> Element:
        """The value at a point of the polynomial of least degree with these values."""
        terms = []
        for k, value in zip(points, values, strict=True):
            others = [j for j in points if j != k]
            scale = pow(reduce(lambda x, j: x * (k - j) % self.p, others, 1), -1, self.p)
            terms.append(self.product(value, self.number(scale), *(self.less(at, j) for j in others)))
        return self.add(*terms)


@dataclass(frozen=True)
class Layout:
    """L wires of M values; `masks` random ones come before them."""

    wires: int
    values: int
    votes: int
    masks: int

    @property
    def points(self) -> range:
        return range(self.masks + self.values)

    @property
    def quotient_points(self) -> range:
        """Where H is given: one more than its degree."""
        degree = (self.votes + 1) * (self.masks + self.values - 1) - self.values
        return range(len(self.points), len(self.points) + degree + 1)


def checked(rows: Sequence[Sequence[int]]) -> list[int]:
    """What must be one of 0 ... m: all entries, then the sums of the rows."""
    return [entry for row in rows for entry in row] + [sum(row) for row in rows]


def wires_of(layout: Layout, numbers: Sequence[int], masks: Sequence[Sequence[int]]) -> list[list[int]]:
    """The values of every wire; masks[i][l] is the i-th of wire l."""
    padded = [*numbers, *[0] * (layout.wires * layout.values - len(numbers))]
    return [
        [row[wire] for row in masks] + [padded[k * layout.wires + wire] for k in range(layout.values)]
        for wire in range(layout.wires)
    ]


def gate(field: Extension, value: Element, votes: int) -> Element:
    return field.product(*(field.less(value, vote) for vote in range(votes + 1)))


def vanishing(field: Extension, layout: Layout, at: Element) -> Element:
    return field.product(*(field.less(at, k) for k in layout.points[layout.masks :]))


def told(field: Extension, layout: Layout, wires: Sequence[Sequence[int]], z: Element) -> list[Element]:
    return [field.through(layout.points, [field.number(v) for v in wire], z) for wire in wires]


def expected(field: Extension, layout: Layout, values: Sequence[Element], rho: Sequence[Element]) -> Element:
    return field.add(*(field.times(r, gate(field, v, layout.votes)) for r, v in zip(rho, values, strict=True)))


def prove(field: Extension, layout: Layout, wires: Sequence[Sequence[int]], rho: Sequence[Element]) -> list[Element]:
    """The values of H."""
    out = []
    for t in layout.quotient_points:
        whole = expected(field, layout, told(field, layout, wires, field.number(t)), rho)
        scale = pow(vanishing(field, layout, field.number(t))[0], -1, field.p)
        out.append(field.times(whole, field.number(scale)))
    return out


def quotient_at(field: Extension, layout: Layout, quotient: Sequence[Element], z: Element) -> Element:
    """V(z) H(z)."""
    return field.times(vanishing(field, layout, z), field.through(layout.quotient_points, quotient, z))
