"""Models of every kind that can vote: networks, functions, files."""

import numpy as np
import pytest

from sedml import silent
from sedml.errors import FileFormatError, PredictionsError
from sedml.service.client.predicting import as_model, predict, vote_rows
from sedml.service.terms import Terms

SAMPLES = np.random.default_rng(0).random((30, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
VOTES = (SAMPLES @ WEIGHTS).argmax(axis=1)


def votes(model, samples=SAMPLES):
    terms = Terms.model_construct(classes=3, samples=len(samples))
    return vote_rows(predict(as_model(model), samples, silent), terms)[0]


@pytest.fixture
def network():
    torch = pytest.importorskip("torch", reason="needs the optional extra torch")
    linear = torch.nn.Linear(4, 3, bias=False)
    linear.weight = torch.nn.Parameter(torch.as_tensor(WEIGHTS.T.copy()))
    return torch.nn.Sequential(torch.nn.Dropout(0.9), linear)


def test_a_function_can_vote():
    assert np.array_equal(votes(lambda batch: batch @ WEIGHTS), VOTES)


@pytest.mark.parametrize("training", [True, False])
def test_a_network_votes_without_dropout_and_is_left_as_it_was(network, training):
    network.train(training)
    assert np.array_equal(votes(network), VOTES)
    assert network.training is training
    assert all(weight.grad is None for weight in network.parameters())


def test_a_network_gets_samples_of_its_own_kind(network):
    assert np.array_equal(votes(network.double(), SAMPLES.astype(np.float32)), VOTES)


def test_an_exported_network_votes_from_its_file(network, tmp_path):
    torch = pytest.importorskip("torch", reason="needs the optional extra torch")
    rows = torch.export.Dim("rows", min=1, max=4096)
    whole = torch.export.export(network.eval(), (torch.zeros(8, 4),), dynamic_shapes=({0: rows},))
    torch.export.save(whole, tmp_path / "model.pt2")
    assert np.array_equal(votes(tmp_path / "model.pt2"), VOTES)


def test_an_onnx_model_votes_from_its_file(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the optional extra onnx")
    skl2onnx = pytest.importorskip("skl2onnx", reason="needs skl2onnx to make an ONNX model")
    from sklearn.linear_model import LogisticRegression

    trained = LogisticRegression().fit(SAMPLES, VOTES)
    model = skl2onnx.to_onnx(trained, SAMPLES[:1], options={"zipmap": False})
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    assert np.array_equal(votes(str(tmp_path / "model.onnx"), SAMPLES.astype(np.float64)), trained.predict(SAMPLES))


def test_a_joblib_model_votes_from_its_file(tmp_path):
    joblib = pytest.importorskip("joblib", reason="needs the optional extra learn")
    from sklearn.neighbors import KNeighborsClassifier

    joblib.dump(KNeighborsClassifier(1).fit(SAMPLES, VOTES), tmp_path / "model.joblib")
    assert np.array_equal(votes(tmp_path / "model.joblib"), VOTES)


@pytest.mark.parametrize(
    ("name", "library", "advice"),
    [("m.onnx", "onnxruntime", "ONNX"), ("m.pt2", "torch", "torch.export.save"), ("m.joblib", "joblib", "joblib.dump")],
)
def test_a_damaged_file_is_explained(tmp_path, name, library, advice):
    pytest.importorskip(library)
    (tmp_path / name).write_bytes(b"not a model")
    with pytest.raises(FileFormatError, match=advice):
        as_model(tmp_path / name)
    with pytest.raises(FileFormatError, match="no such file"):
        as_model(tmp_path / f"other-{name}")


@pytest.mark.parametrize("model", [3, ["a", "list"], object()], ids=["number", "list", "object"])
def test_what_cannot_predict_is_refused(model):
    with pytest.raises(PredictionsError, match="cannot be called"):
        as_model(model)
