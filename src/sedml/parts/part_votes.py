"""The votes of an organisation with parts: one row a part, each from the model of that part alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import InputError, PredictionsError, SedmlError
from sedml.parts.part_models import Abstaining, PartModels
from sedml.protocol.class_names import shown_names
from sedml.protocol.votes import ABSTAIN, Votes, as_votes

_Array: TypeAlias = npt.NDArray[Any]

_BATCH = 4096
_AS_IT_IS = "Vote without `balance` and `abstain_below`, or use classifiers that have it."


def part_votes(
    models: PartModels,
    samples: Any,  # noqa: ANN401 - an array or a frame
    classes: int,
    names: Sequence[str] = (),
    *,
    balance: bool = False,
    abstain_below: float | None = None,
    ask: Callable[[object, Any], Any] | None = None,
    progress: Progress = silent,
) -> Votes:
    """A class id or -1 (abstains) for each part and sample, (parts, samples). Models may know classes by `names`.

    `balance` corrects each model for how frequent the classes are **in its own part**: probabilities are divided by
    those (smoothed) frequencies. With frequencies of the whole site one unit would move the votes of all parts. It
    helps a site whose classes are more or less frequent than among the job's samples, and costs accuracy where they
    are as frequent. `abstain_below` is the probability below which a model abstains; it must be fixed before anyone
    looks at votes.

    `ask` says how a model without `predict_proba` is asked for classes or scores; by default with `predict`.
    """
    if abstain_below is not None and not 0 < abstain_below <= 1:
        raise InputError(f"A model cannot abstain below {abstain_below}.", "Give a probability from 0 to 1.")
    if balance and models.counts is None:
        raise InputError(
            "It is not known how frequent classes are in the parts of these models.",
            "Vote without `balance`, or train the models with `sedml train`.",
        )
    chosen = balance or abstain_below is not None
    rows = []
    for k, model in enumerate(models.models):
        progress("predicting", k, len(models.models))
        if isinstance(model, Abstaining):
            found: _Array = model.predict(samples)
        elif hasattr(model, "predict_proba") and hasattr(model, "classes_"):
            counts = models.counts[k] if balance and models.counts is not None else None
            found = np.concatenate(
                [_votes(k, model, batch, classes, names, counts, abstain_below or 0.0) for batch in _batches(samples)]
            )
        elif chosen:
            raise PredictionsError(f"The model of part {k + 1} has no predict_proba.", _AS_IT_IS)
        else:
            found = np.asarray(ask(model, samples) if ask is not None else _asked(k, model.predict, samples))  # type: ignore[attr-defined]
        rows.append(as_votes([found], classes, names)[0])
    progress("predicting", len(rows), len(rows))
    return np.stack(rows)


def _votes(
    k: int,
    model: Any,  # noqa: ANN401 - any classifier
    samples: _Array,
    classes: int,
    names: Sequence[str],
    counts: dict[str, int] | None,
    least: float,
) -> _Array:
    labels = np.asarray(model.classes_)
    try:
        ids = as_votes([labels], classes, names)[0]
    except PredictionsError:
        ids = np.array([ABSTAIN])
    if (ids < 0).any():
        known = shown_names(names) if names else f"class ids from 0 to {classes - 1}, as the job numbers them"
        what = f"The model of part {k + 1} knows classes that the job does not have."
        raise PredictionsError(what, f"Train the models on {known}.")
    scores = np.asarray(_asked(k, model.predict_proba, samples), np.float64)
    if scores.shape != (len(samples), len(ids)) or not np.isfinite(scores).all():
        raise PredictionsError(f"The model of part {k + 1} gives no probabilities.", _AS_IT_IS)
    if counts is not None:
        seen = np.array([counts.get(str(label), 0) + 1 for label in labels.tolist()])
        scores = scores * (sum(counts.values()) + classes) / seen
        scores /= np.maximum(scores.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    votes: _Array = np.where(scores.max(axis=1) >= least, ids[scores.argmax(axis=1)], ABSTAIN)
    return votes


def _asked(k: int, ask: Callable[[Any], Any], samples: Any) -> Any:  # noqa: ANN401
    try:
        return ask(samples)
    except SedmlError:
        raise
    except Exception as error:  # whatever a model raises
        what = f"The model of part {k + 1} failed on the samples ({type(error).__name__})."
        raise PredictionsError(
            what, "Check that it was trained on the features that the job's samples have."
        ) from error


def _batches(samples: Any) -> list[Any]:  # noqa: ANN401
    return [samples[start : start + _BATCH] for start in range(0, len(samples), _BATCH)]
