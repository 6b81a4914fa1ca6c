"""The votes of parts: by probabilities, corrected for a part's own classes, or none below a confidence."""

import numpy as np
import pytest

from sedml.errors import InputError, PredictionsError
from sedml.parts.part_models import Abstaining, PartModels
from sedml.parts.part_votes import part_votes

SAMPLES = np.array([[0.9], [0.6], [0.2]])


class Probable:
    """Says that the first of its classes has the probability that the sample is."""

    def __init__(self, *classes):
        self.classes_ = np.array(classes)

    def predict_proba(self, samples):
        return np.hstack([samples, 1 - samples])


class Plain:
    def predict(self, samples):
        return np.full(len(samples), 2)


def test_votes_are_classes_of_the_job():
    models = PartModels((Probable(0, 2), Probable(1, 0), Abstaining(), Plain()))
    assert part_votes(models, SAMPLES, 3).tolist() == [[0, 0, 2], [1, 1, 0], [-1] * 3, [2] * 3]
    assert part_votes(models, SAMPLES, 3, ask=lambda _, samples: np.eye(3)).tolist()[3] == [0, 1, 2]


def test_a_model_abstains_below_a_confidence():
    models = PartModels((Probable(0, 2), Abstaining()))
    assert part_votes(models, SAMPLES, 3, abstain_below=0.75).tolist() == [[0, -1, 2], [-1] * 3]
    assert part_votes(models, SAMPLES, 3, abstain_below=0.95).tolist()[0] == [-1] * 3


def test_balance_is_by_the_counts_of_the_models_own_part():
    models = PartModels((Probable(0, 1), Probable(0, 1)), None, ({"0": 98, "1": 8}, {"0": 8, "1": 98}))
    # Class 0 is 11 times as frequent in the first part, class 1 in the second.
    assert part_votes(models, SAMPLES, 2, balance=True).tolist() == [[1, 1, 1], [0, 0, 0]]
    [first, _] = part_votes(models, SAMPLES, 2, balance=True, abstain_below=0.6).tolist()
    scores = SAMPLES[:, 0] / 99, (1 - SAMPLES[:, 0]) / 9
    sure = np.maximum(*scores) / sum(scores)
    assert first == [1 if one >= 0.6 else -1 for one in sure]
    other = PartModels(models.models, None, (models.counts[0], {"0": 5, "1": 5}))
    assert part_votes(other, SAMPLES, 2, balance=True)[0].tolist() == [1, 1, 1]


def test_samples_in_batches_are_the_same(monkeypatch):
    models = PartModels((Probable(0, 1),))
    whole = part_votes(models, SAMPLES, 2)
    monkeypatch.setattr("sedml.parts.part_votes._BATCH", 2)
    assert (part_votes(models, SAMPLES, 2) == whole).all()


def test_progress_counts_models():
    told = []
    part_votes(PartModels((Plain(), Plain())), SAMPLES, 3, progress=lambda *one: told.append(one))
    assert told == [("predicting", 0, 2), ("predicting", 1, 2), ("predicting", 2, 2)]


class Broken(Probable):
    def predict_proba(self, samples):
        raise KeyError("SECRET")


class Infinite(Probable):
    def predict_proba(self, samples):
        return np.full((len(samples), 2), np.nan)


@pytest.mark.parametrize(
    ("model", "options", "told"),
    [
        (Plain(), {"abstain_below": 0.5}, "The model of part 1 has no predict_proba. Vote without"),
        (Probable(0, 3), {}, "knows classes that the job does not have. Train"),
        (Broken(0, 1), {}, r"failed on the samples \(KeyError\)"),
        (Infinite(0, 1), {}, "gives no probabilities"),
        (Plain(), {"ask": lambda _, samples: np.full(3, 9)}, "out of range"),
    ],
)
def test_a_model_that_cannot_vote_is_explained(model, options, told):
    with pytest.raises(PredictionsError, match=told) as caught:
        part_votes(PartModels((model,)), SAMPLES, 3, **options)
    assert "SECRET" not in str(caught.value)


def test_options_that_cannot_be_used():
    models = PartModels((Probable(0, 1),))
    with pytest.raises(InputError, match="not known how frequent"):
        part_votes(models, SAMPLES, 2, balance=True)
    for least in (0, -1, 1.5, float("nan")):
        with pytest.raises(InputError, match="cannot abstain below"):
            part_votes(models, SAMPLES, 2, abstain_below=least)
