"""From the columns of a part to numbers for a classifier; all that is learnt here is learnt from one part alone."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import PredictionsError
from sedml.extras import explain_missing

with explain_missing():
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

_Array: TypeAlias = npt.NDArray[Any]

_GAPS = frozenset({"", "?", "nan", "na", "n/a", "none", "null", "<na>"})
_MOST_WORDS = 100


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc] # scikit-learn has no types
    """Numbers with gaps filled by the median and scaled, words one-hot; a word that the part does not have is nothing.

    A column is one of numbers if all of its cells in this part are numbers or empty. Samples are arrays with the
    columns in the order of the part, images of any shape, or frames, of which columns are taken by `names`.
    """

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names

    def fit(self, samples: object, _: object = None) -> TableEncoder:
        """Learn medians, scales and words."""
        values = self._values(samples)
        self.width_ = values.shape[1]
        columns = [_numbers(values[:, k]) for k in range(self.width_)]
        self.words_ = [k for k, (_, words) in enumerate(columns) if words]
        self.numbers_ = [k for k, (_, words) in enumerate(columns) if not words]
        if self.numbers_:
            self.scaler_ = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
            self.scaler_.fit(np.column_stack([columns[k][0] for k in self.numbers_]))
        if self.words_:
            self.encoder_ = OneHotEncoder(handle_unknown="ignore", sparse_output=False, max_categories=_MOST_WORDS)
            self.encoder_.fit(_words(values[:, self.words_]))
        return self

    def transform(self, samples: object) -> _Array:
        """Numbers, (samples, encoded features)."""
        values = self._values(samples)
        if values.shape[1] != self.width_:
            raise PredictionsError(
                f"The samples have {values.shape[1]} features each, and the model was trained on {self.width_}.",
                "Give the columns that the parts have without the id and the label, in the same order.",
            )
        blocks = []
        if self.numbers_:
            blocks.append(self.scaler_.transform(np.column_stack([_numbers(values[:, k])[0] for k in self.numbers_])))
        if self.words_:
            blocks.append(self.encoder_.transform(_words(values[:, self.words_])))
        return np.hstack(blocks)

    def _values(self, samples: Any) -> _Array:  # noqa: ANN401 - an array or a frame
        if self.names and hasattr(samples, "columns") and set(self.names) <= set(samples.columns):
            samples = samples[list(self.names)]
        array = np.asarray(samples)
        return array.reshape(len(array), math.prod(array.shape[1:]))


def _numbers(column: _Array) -> tuple[npt.NDArray[np.float64], bool]:
    """A column as numbers, NaN where there is none, and whether any of its cells holds a word."""
    words = False
    if column.dtype.kind in "biuf":
        found = column.astype(np.float64)
    else:
        cells = column.tolist()
        known = {cell: _number(cell) for cell in set(cells)}  # most cells repeat
        words = any(number is None for number in known.values())
        found = np.array([known[cell] for cell in cells], np.float64)
    found[~np.isfinite(found)] = np.nan
    return found, words


def _number(cell: Any) -> float | None:  # noqa: ANN401
    """None for a word."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return math.nan if cell is None or str(cell).strip().lower() in _GAPS else None


def _words(block: _Array) -> _Array:
    columns = []
    for column in block.T.tolist():
        known = {cell: _word(cell) for cell in set(column)}
        columns.append([known[cell] for cell in column])
    return np.array(columns, object).T


def _word(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # so that a code is the same among numbers and among texts
    text = str(cell).strip()
    return "" if text.lower() in _GAPS else text
