"""From a model, or predictions in any form, to the votes of one teacher."""

import numpy as np
import pytest

from sedml.errors import FileFormatError, PredictionsError
from sedml.service.client.predicting import vote_rows
from support.client_parties import VOTES, Model
from support.deployment import terms_for


def test_a_model_is_shown_the_samples_of_the_job_in_batches(both_ways, deployed, data_file, monkeypatch):
    monkeypatch.setattr("sedml.service.client.predicting._BATCH", 20)
    job = both_ways.create(data_file).id
    model, told = Model(), []
    both_ways.teacher(1, "vote", job, model=model, progress=lambda *step: told.append(step))
    assert model.batches == [20, 20, 10]
    assert ("predicting", 40, 50) in told
    assert told[-1] == ("predicting", 50, 50)
    both_ways.teacher(1, "vote", job, VOTES)
    by_model, by_hand = deployed.s1.bodies("PUT .*/ballot")
    assert by_model == by_hand


def test_data_at_hand_are_not_downloaded_but_checked(parties, deployed, data_file, tmp_path):
    job = parties.create(data_file).id
    parties.teacher(1, "vote", job, model=Model(), data=data_file)
    parties.teacher(2, "vote", job, model=Model(), data=np.column_stack([VOTES, VOTES]))
    assert not any(server.bodies("GET .*/data") for server in deployed.servers)
    other = tmp_path / "other.npy"
    np.save(other, np.zeros((50, 2)))
    with pytest.raises(FileFormatError, match="not the data of this job"):
        parties.teacher(3, "vote", job, model=Model(), data=other)
    with pytest.raises(PredictionsError, match="49 samples"):
        parties.teacher(3, "vote", job, model=Model(), data=np.zeros((49, 2)))


def test_a_model_with_probabilities_only_votes_for_its_own_classes(parties, deployed, data_file):
    class Scores:
        classes_ = np.array([0, 2])

        def predict_proba(self, samples):
            return np.column_stack([samples[:, 0] != 2, samples[:, 0] == 2])

    job = parties.create(data_file).id
    parties.teacher(1, "vote", job, model=Scores())
    parties.teacher(1, "vote", job, np.where(VOTES == 2, 2, 0))
    by_model, by_hand = deployed.s1.bodies("PUT .*/ballot")
    assert by_model == by_hand


class Broken:
    def predict(self, samples):
        raise RuntimeError("secret 17")


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Broken(), "samples 0 to 49"),
        (type("Short", (), {"predict": lambda _, x: x[1:, 0]})(), "shape"),
        (object(), "predict"),
        (type("Far", (), {"predict": lambda _, x: x[:, 1]})(), "out of range"),
    ],
    ids=["fails", "too few", "no model", "out of range"],
)
def test_a_model_that_does_not_fit_is_explained(parties, deployed, data_file, model, text):
    job = parties.create(data_file).id
    with pytest.raises(PredictionsError, match=text) as caught:
        parties.teacher(1, "vote", job, model=model)
    assert "17" not in str(caught.value)
    assert not any(server.bodies("PUT .*/ballot") for server in deployed.servers)


TERMS = terms_for(2)


@pytest.mark.parametrize(
    ("predictions", "samples"),
    [
        ([2, 0], 2),
        ([[2, 0]], 2),
        (np.array([2.0, 0.0]), 2),
        ([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]], 2),
        ([[[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]], 2),
        ([2], 1),
        ([[2]], 1),
        ([[0, 0, 1]], 1),
        ([[[0, 0, 1]]], 1),
    ],
)
def test_predictions_of_one_teacher_in_any_form(predictions, samples):
    terms = TERMS.model_copy(update={"samples": samples})
    assert vote_rows(predictions, terms)[0].tolist() == [2, 0][:samples]


@pytest.mark.parametrize(
    "predictions",
    [
        [0],
        [0, 1, 2],
        [[0, 1], [0, 1], [0, 1]],
        [[0, 1], [1]],
        [[[0, 1, 0], [1, 0, 0]], [[0, 1, 0], [1, 0, 0]]],
        3,
        "ab",
        np.ma.array([1, 2], mask=[0, 1]),
        [7, 0],
    ],
)
def test_predictions_that_do_not_fit_are_refused_without_being_quoted(predictions):
    with pytest.raises(PredictionsError) as caught:
        vote_rows(predictions, TERMS)
    assert "7" not in str(caught.value)
