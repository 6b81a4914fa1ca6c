"""Untrained classifiers: by import path ("sklearn.svm.SVC"), by a short name, or as an estimator to copy."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from sedml.errors import InputError
from sedml.extras import explain_missing

with explain_missing():
    from sklearn.base import clone, is_regressor

_NEEDS = "Use a classifier with fit and predict, such as sklearn.linear_model.LogisticRegression."
_SHORT: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": ("sklearn.linear_model.LogisticRegression", {"max_iter": 1000}),
    "forest": ("sklearn.ensemble.RandomForestClassifier", {}),
    "boosting": ("sklearn.ensemble.HistGradientBoostingClassifier", {}),
}


def make_estimator(estimator: object, params: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401 - any estimator
    """An untrained classifier: by short name or import path with `params`, or a copy of an object with `params` set."""
    name = estimator if isinstance(estimator, str) else type(estimator).__name__
    try:
        if isinstance(estimator, str):
            path, usual = _SHORT.get(estimator, (estimator, {}))
            made = _from_path(path)(**usual | dict(params or {}))
        else:
            made = clone(estimator, safe=False)
            if params:
                made.set_params(**params)
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{name} does not take these parameters: {error}", "Check their names and values.") from error
    for method in ("fit", "predict"):
        if not callable(getattr(made, method, None)):
            raise InputError(f"{name} has no {method}.", _NEEDS)
    if hasattr(made, "get_params") and is_regressor(made):
        raise InputError(f"{name} is a regressor: it predicts numbers, not classes.", _NEEDS)
    return made


def seeded(model: Any, seed: int) -> Any:  # noqa: ANN401 - any estimator
    """The same estimator with every `random_state` set that is not."""
    if hasattr(model, "get_params"):
        unset = [
            name
            for name, value in model.get_params(deep=True).items()
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        ]
        model.set_params(**dict.fromkeys(sorted(unset), seed))
    return model


def _from_path(path: str) -> type:
    module, _, name = path.rpartition(".")
    if not module:
        raise InputError(
            f"{path!r} is not an import path.",
            f"Give one such as sklearn.linear_model.LogisticRegression, or {', '.join(_SHORT)}.",
        )
    try:
        found = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise InputError(f"{module} cannot be imported: {error}.", "Check the spelling, or install it.") from error
    except AttributeError as error:
        raise InputError(f"{module} has no {name}.", "Check the spelling.") from error
    if not isinstance(found, type):
        raise InputError(f"{path} is not a class.", _NEEDS)
    return found
