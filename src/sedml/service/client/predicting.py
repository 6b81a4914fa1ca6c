"""From a model, or a model for each part of a teacher's data, and the job's samples to votes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from sedml import Progress
from sedml.errors import PredictionsError, counted
from sedml.files import load_one_teacher, load_predictions
from sedml.files.natural_tables import SampleIds
from sedml.protocol.votes import ABSTAIN, Votes, as_votes
from sedml.service.client.arguments import is_path, path_of, rows_of
from sedml.service.client.model_files import load_model
from sedml.service.client.samples import Samples
from sedml.service.terms import Terms

_BATCH = 1024


def as_samples(data: object) -> Samples:
    """Samples for a model: what has a shape stays as it is, so that a model trained on frames is shown frames."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape and hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return cast(Samples, data)
    return rows_of("data", data)


def as_model(model: object) -> object:
    """A model from a file if it is named; raises unless it can predict."""
    found = load_model(path_of("model", model)) if is_path(model) else model
    _caller(found)
    return found


def predict(model: object, samples: Samples, progress: Progress) -> Samples:
    """What `model.predict`, or else `model.predict_proba` or the model itself, says of every sample, batch by batch.

    The columns of `predict_proba` belong to `model.classes_` where it has them, as in scikit-learn. A PyTorch network
    is shown tensors, on its own device, and is not trained by it.
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
                f"The model answered {counted(len(batch), 'sample')} with an array of shape {found.shape}.",
                "It must give one prediction, or one row of scores, for each sample.",
            )
        parts.append(found)
        progress("predicting", start + len(batch), len(samples))
    if len({found.shape[1:] for found in parts}) > 1:
        raise PredictionsError(
            "The model answered some samples with another number of scores than others.",
            "It must give one prediction, or one row of scores, for each sample.",
        )
    return np.concatenate(parts)


def read_predictions(path: Path, key: str | None, terms: Terms, ids: SampleIds | None = None) -> object:
    """Predictions in a file: a row for each vote where there may be several, as a sample may have scores where not."""
    load = load_one_teacher if terms.votes == 1 else load_predictions
    return load(path, key, names=terms.class_names, ids=ids)


def vote_rows(predictions: object, terms: Terms) -> Votes:
    """One teacher's predictions as votes int[m, Q]; those that it does not cast abstain.

    With several votes: ids (Q,), a row for each vote (up to m, Q), or scores (up to m, Q, N).
    """
    if terms.votes == 1:
        return _one_row(predictions, terms)[np.newaxis]
    votes = as_votes([predictions] if len(_shape(predictions)) == 1 else predictions, terms.classes, terms.class_names)
    cast_here, samples = votes.shape
    if samples != terms.samples:
        raise PredictionsError(
            f"The predictions are {counted(cast_here, 'row')} for {counted(samples, 'sample')}.",
            f"Give a row for each of your votes, with all samples of the job ({terms.samples:,}) in their order.",
        )
    if cast_here > terms.votes:
        raise PredictionsError(
            f"The predictions have {cast_here} rows, and this job's terms allow {terms.votes} votes a sample.",
            f"Split your data into {terms.votes} parts at most, and vote with a model of each.",
        )
    rows: Votes = np.full((terms.votes, samples), ABSTAIN, votes.dtype)
    rows[:cast_here] = votes
    return rows


def _one_row(predictions: object, terms: Terms) -> Votes:
    """One vote a sample, int[Q]: ids (Q,), (1, Q) or a column (Q, 1), or scores (Q, N) or (1, Q, N)."""
    shape = _shape(predictions)
    if len(shape) == 2 and shape == (terms.samples, 1):
        cells = np.asarray(predictions, np.str_) if terms.class_names else predictions
        predictions = rows_of("predictions", cells)[:, 0]
        shape = shape[:1]
    alone = len(shape) == 1 or (len(shape) == 2 and shape[0] == terms.samples and shape != (1, 1))
    votes = as_votes([predictions] if alone else predictions, terms.classes, terms.class_names)
    if votes.shape != (1, terms.samples):
        raise PredictionsError(
            f"The predictions are those of {counted(len(votes), 'teacher')} for {counted(votes.shape[1], 'sample')}.",
            f"Give one teacher's predictions for all samples of the job ({terms.samples:,}), in their order.",
        )
    row: Votes = votes[0]
    return row


def _shape(predictions: Any) -> tuple[int, ...]:  # noqa: ANN401 - whatever a caller has
    shape = getattr(predictions, "shape", None)
    if isinstance(shape, tuple):
        return shape
    try:
        return np.shape(predictions)
    except Exception:  # rows of different lengths, a foreign __array__: `as_votes` explains
        return ()


def _caller(model: object) -> Callable[[Samples], Any]:
    direct: Callable[[Samples], Any] | None = getattr(model, "predict", None)
    if callable(direct):
        return direct
    scores: Callable[[Samples], Any] | None = getattr(model, "predict_proba", None)
    if not callable(scores):
        if _is_network(model):
            return lambda batch: _ask_network(model, batch)
        if callable(model):
            return model
        raise PredictionsError(
            f"A model of type {type(model).__name__} has neither predict nor predict_proba, and cannot be called.",
            "Give an object with predict(X) or predict_proba(X), a function, a PyTorch network, or the predictions.",
        )
    classes = getattr(model, "classes_", None)
    if classes is None:
        return scores
    return lambda batch: np.asarray(classes)[np.argmax(scores(batch), axis=-1)]


def _is_network(model: object) -> bool:
    # Whoever has a network has imported PyTorch; nobody else is made to.
    return "torch" in sys.modules and isinstance(model, sys.modules["torch"].nn.Module)


def _ask_network(model: Any, batch: Samples) -> Samples:  # noqa: ANN401 - a torch.nn.Module
    torch = sys.modules["torch"]
    weight = next((one for one in model.parameters() if one.is_floating_point()), torch.zeros(()))
    training = model.training
    with contextlib.suppress(NotImplementedError):  # an exported network has one mode only
        model.eval()
    try:
        with torch.inference_mode():
            answer = model(torch.as_tensor(np.asarray(batch)).to(weight))
        return np.asarray(answer.float().cpu() if answer.is_floating_point() else answer.cpu())
    finally:
        with contextlib.suppress(NotImplementedError):
            model.train(training)
