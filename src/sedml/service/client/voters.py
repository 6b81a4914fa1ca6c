"""What a teacher votes with: predictions that it has, a model, or a model for each part of its data."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sedml import Progress, silent
from sedml.errors import InputError, PrivacyError, warn
from sedml.files.natural_tables import SampleIds
from sedml.privacy.unit import ORGANISATION
from sedml.protocol.votes import Votes
from sedml.service.client.arguments import is_path, path_of
from sedml.service.client.model_files import load_model
from sedml.service.client.predicting import as_model, predict, read_predictions, vote_rows
from sedml.service.client.samples import Samples
from sedml.service.terms import Terms

if TYPE_CHECKING:
    from sedml.parts.part_models import PartModels


@dataclass(frozen=True)
class Voter:
    """One of the three."""

    predictions: object = field(default=None, repr=False)
    key: str | None = None
    model: object = None
    models: PartModels | None = None
    balance: bool = False
    abstain_below: float | None = None

    @property
    def predicts(self) -> bool:
        """Whether it has to be shown the samples."""
        return self.model is not None or self.models is not None

    def parts(self, job: str) -> str | None:
        """What the parts of the data that it votes with are called on this job, if it knows."""
        return None if self.models is None or self.models.parts is None else self.models.parts.tag(job)

    def why_not(self, terms: Terms) -> str | None:
        """Why those whom a job protects would not be protected by this vote, as far as is known."""
        if self.models is None or terms.unit == ORGANISATION:
            return None
        parts = self.models.parts
        if parts is None:
            return f"Nothing says in how many of the parts of these models the data of one {terms.unit} is."
        if parts.unit != terms.unit:
            return f"Your parts are split by {parts.unit} ({parts.by}), and the job protects each {terms.unit}."
        if parts.spread > terms.spread:
            return f"One {terms.unit} may be in {parts.spread} of your parts, and the job counts on {terms.spread}."
        return None

    def votes(
        self, samples: Samples | None, terms: Terms, progress: Progress = silent, ids: SampleIds | None = None
    ) -> Votes:
        """Votes int[m, Q] on the samples of a job."""
        if self.models is not None and samples is not None:
            from sedml.parts.part_votes import part_votes

            _check_protected(self, terms)
            found = part_votes(
                self.models,
                samples,
                terms.classes,
                terms.class_names,
                balance=self.balance,
                abstain_below=self.abstain_below,
                ask=lambda model, shown: predict(model, shown, silent),
                progress=progress,
            )
            return vote_rows(found, terms)
        if self.model is not None and samples is not None:
            # One model is one vote, whatever its scores look like.
            one = terms.model_copy(update={"votes": 1, "spread": 1})
            return vote_rows(vote_rows(predict(self.model, samples, progress), one), terms)
        given = self.predictions
        if isinstance(given, Path):
            return vote_rows(read_predictions(given, self.key, terms, ids), terms)
        _check_order(given, ids)
        return vote_rows(given, terms)


def as_voter(
    predictions: object, key: str | None, model: object, models: object, balance: bool, abstain_below: float | None
) -> Voter:
    """From what a caller passed, of which one is not None."""
    if key is not None and not is_path(predictions):
        raise InputError("A key names an array of an .npz file, and no file was given.", "Leave it out.")
    if models is None and (balance or abstain_below is not None):
        raise InputError("balance and abstain_below are for models of parts.", "Pass models, or leave them out.")
    if model is not None:
        return Voter(model=as_model(model))
    if models is not None:
        from sedml.parts.part_models import load_models

        loaded = load_models(path_of("models", models), load_model) if is_path(models) else _part_models(models)
        return Voter(models=loaded, balance=balance, abstain_below=abstain_below)
    return Voter(path_of("predictions", predictions) if is_path(predictions) else predictions, key)


def _part_models(models: object) -> PartModels:
    from sedml.parts.part_models import PartModels

    if isinstance(models, PartModels):
        return models
    raise InputError(
        f"models is of type {type(models).__name__}.", "Pass a folder that `sedml train` made, or a PartModels."
    )


def _check_order(given: object, known: SampleIds | None) -> None:
    """Raise if a frame or a series has the samples by their ids, in another order than the job: only places count."""
    for axis in (getattr(given, "index", None), getattr(given, "columns", None)):
        names = [] if axis is None or callable(axis) else [str(name) for name in axis]
        if known is None or not names or names == [str(number) for number in range(len(names))]:
            continue
        ids = list(known() or ())
        if names != ids and not set(ids).isdisjoint(names):
            raise InputError(
                "The predictions name the job's samples, but not all of them in their order.",
                "Sort them by Teacher.sample_ids, as in frame.loc[teacher.sample_ids(job)], or pass a file.",
            )


def _check_protected(voter: Voter, terms: Terms) -> None:
    """Raise if the parts are others than the terms count on; where nothing is known of them, say so."""
    reason = voter.why_not(terms)
    if reason is None:
        return
    if voter.models is not None and voter.models.parts is None:
        warn(reason, "That is yours to keep: `sedml shard --check` looks, and models from `sedml train` know.")
        return
    raise PrivacyError(
        reason,
        f"Nothing was sent. Split your data anew, with `sedml shard --unit {terms.unit}`, or ask for another job.",
    )
