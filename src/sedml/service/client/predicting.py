"""From a model and the job's samples to one vote a sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sedml import Progress
from sedml.errors import PredictionsError
from sedml.protocol.votes import Votes, as_votes
from sedml.service.client.samples import Samples
from sedml.service.terms import Terms

__all__ = ["one_row", "predict"]

_BATCH = 1024


def predict(model: object, samples: Samples, progress: Progress) -> Samples:
    """What `model.predict`, or else `model.predict_proba`, says of every sample, batch by batch.

    The columns of `predict_proba` belong to `model.classes_` where it has them, as in scikit-learn.
    """
    call = _caller(model)
    parts = []
    for start in range(0, len(samples), _BATCH):
        batch = samples[start : start + _BATCH]
        try:
            found = np.asarray(call(batch))
        except Exception as error:
            raise PredictionsError(
                f"The model failed on samples {start} to {start + len(batch) - 1} ({type(error).__name__}).",
                "Try it on the job's data: `sedml.Teacher(kit).fetch(job)` downloads it.",
            ) from error
        if found.ndim == 0 or len(found) != len(batch):
            raise PredictionsError(
                f"The model answered {len(batch)} samples with an array of shape {found.shape}.",
                "It must give one prediction, or one row of scores, for each sample.",
            )
        parts.append(found)
        progress("predicting", start + len(batch), len(samples))
    return np.concatenate(parts)


def one_row(predictions: object, terms: Terms) -> Votes:
    """One teacher's predictions as votes int[Q]: ids (Q,) or (1, Q), or scores (Q, N) or (1, Q, N)."""
    shape = _shape(predictions)
    alone = len(shape) == 1 or (len(shape) == 2 and shape[0] == terms.samples and shape != (1, 1))
    votes = as_votes([predictions] if alone else predictions, terms.classes)
    if votes.shape != (1, terms.samples):
        raise PredictionsError(
            f"The predictions are for {votes.shape[0]} teachers and {votes.shape[1]} samples.",
            f"Give one teacher's predictions for the job's {terms.samples} samples, in the order of its data.",
        )
    row: Votes = votes[0]
    return row


def _shape(predictions: Any) -> tuple[int, ...]:  # noqa: ANN401 - whatever a caller has
    if hasattr(predictions, "shape"):
        return tuple(predictions.shape)
    try:
        return np.shape(predictions)
    except ValueError:  # rows of different lengths, which `as_votes` explains
        return ()


def _caller(model: object) -> Callable[[Samples], Any]:
    direct: Callable[[Samples], Any] | None = getattr(model, "predict", None)
    if callable(direct):
        return direct
    scores: Callable[[Samples], Any] | None = getattr(model, "predict_proba", None)
    if not callable(scores):
        raise PredictionsError(
            f"A model of type {type(model).__name__} has neither predict nor predict_proba.",
            "Give an object with predict(X) or predict_proba(X), or the predictions.",
        )
    classes = getattr(model, "classes_", None)
    if classes is None:
        return scores
    return lambda batch: np.asarray(classes)[np.argmax(scores(batch), axis=-1)]
