"""A student: a classifier trained on the labels of a job, where a label of -1 is a sample without consensus.

Labels cost privacy, samples do not: `SelfTrainedStudent` learns from the samples without a label, too. It wraps any
scikit-learn classifier and is one itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import InputError, explain_missing

with explain_missing():
    from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
    from sklearn.semi_supervised import LabelSpreading
    from sklearn.utils import get_tags
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["SelfTrainedStudent"]

_Array: TypeAlias = npt.NDArray[Any]

_UNLABELLED = -1
_ALPHA = 0.2  # how much of a label comes from the neighbours; scikit-learn's own choice
_LEAST = 1e-9  # samples that no label reaches have probability 0


def _wrapped_has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(getattr(self, "estimator_", self.estimator), method)


class SelfTrainedStudent(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A student that first gives labels of its own to the samples without consensus, where it is confident.

    Labels are carried along to near samples (label spreading on the graph of nearest neighbours), for which a few
    labels suffice.

    Parameters
    ----------
    estimator : the classifier that is trained in the end, on the labels it got and those it gave itself; a copy of it
        is, as `estimator_`.
    confidence : the least probability of a label that a sample is given.
    neighbours : how many samples are near.

    Samples labelled -1 have no label. Those with more than two dimensions, such as images, are taken as rows of
    features. After fit, `labels_` has the label every sample was used with, and `used_` says which samples were.
    """

    def __init__(self, estimator: Any, *, confidence: float = 0.75, neighbours: int = 7) -> None:  # noqa: ANN401
        self.estimator = estimator
        self.confidence = confidence
        self.neighbours = neighbours

    def fit(self, X: Any, y: Any) -> Self:  # noqa: ANN401
        """Give labels to samples without one, then train on all that have one."""
        X, y = self._checked(X, y)
        labelled = np.ones(len(y), np.bool_) if y.dtype.kind in "US" else y != _UNLABELLED
        if not labelled.any():
            raise InputError("No sample has a label.", "Lower the threshold or the noise, or ask for more samples.")
        check_classification_targets(y[labelled])
        self.labels_, self.used_ = y, labelled
        if not labelled.all():
            classes, codes = np.unique(y[labelled], return_inverse=True)
            known = np.full(len(y), -1)
            known[labelled] = codes
            neighbours = min(self.neighbours, len(known))
            model = LabelSpreading(kernel="knn", n_neighbors=neighbours, alpha=_ALPHA, max_iter=1000).fit(X, known)
            given = ~labelled & (model.label_distributions_.max(axis=1) >= max(self.confidence, _LEAST))
            self.used_ = labelled | given
            self.labels_ = y.copy()
            self.labels_[given] = classes[model.transduction_[given]]
        self.estimator_ = clone(self.estimator).fit(X[self.used_], self.labels_[self.used_])
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> _Array:  # noqa: ANN401
        """The class of every sample."""
        return self._ask("predict", X)

    @available_if(_wrapped_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> _Array:  # noqa: ANN401
        """The probability of every class, in the order of `classes_`."""
        return self._ask("predict_proba", X)

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn has no types
        tags = super().__sklearn_tags__()
        wrapped = get_tags(self.estimator)
        tags.input_tags = replace(wrapped.input_tags, pairwise=False)
        if wrapped.classifier_tags is not None:
            tags.classifier_tags.multi_class = wrapped.classifier_tags.multi_class
            tags.classifier_tags.poor_score = wrapped.classifier_tags.poor_score
        tags.non_deterministic = wrapped.non_deterministic
        return tags

    def _checked(self, X: Any, y: Any) -> tuple[Any, _Array]:  # noqa: ANN401
        if not 0 <= self.confidence <= 1:
            raise InputError(f"A confidence of {self.confidence} was given.", "Use a number from 0 to 1.")
        if self.neighbours < 1:
            raise InputError(f"{self.neighbours} neighbours cannot be used.", "Give at least 1.")
        methods = (getattr(self.estimator, name, None) for name in ("fit", "predict"))
        if isinstance(self.estimator, type) or not all(map(callable, methods)):
            name = getattr(self.estimator, "__name__", type(self.estimator).__name__)
            raise InputError(f"{name} is not a model with fit and predict.", "Give one, such as LogisticRegression().")
        if y is None:
            raise InputError("This student requires y to be passed, but the target y is None.", "Pass the labels.")
        checked: tuple[Any, _Array] = validate_data(
            self, _rows(X), y, accept_sparse="csr", ensure_all_finite=False, dtype=None
        )
        return checked

    def _ask(self, method: str, X: Any) -> _Array:  # noqa: ANN401
        check_is_fitted(self)
        X = validate_data(self, _rows(X), reset=False, accept_sparse="csr", ensure_all_finite=False, dtype=None)
        answer: _Array = getattr(self.estimator_, method)(X)
        return answer


def _rows(X: Any) -> Any:  # noqa: ANN401
    return X.reshape(len(X), -1) if isinstance(X, np.ndarray) and X.ndim > 2 and len(X) else X
