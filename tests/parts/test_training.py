"""One model a part, from that part alone; and models that are shown the samples of a job."""

import json
from pathlib import Path

import joblib
import numpy as np
import pandas
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

import sedml
from sedml import silent
from sedml.errors import FileFormatError, InputError, PartsError, PredictionsError
from sedml.parts.part_models import Abstaining, load_models
from sedml.parts.table_encoder import TableEncoder
from sedml.service.client.model_files import load_model
from sedml.service.client.predicting import predict
from support.parts_data import ids_by_part, patients, write_csv

OLD = np.array([["61.0", "east"], ["38", ""], ["39.5", "south"]])


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    sedml.shard(write_csv(folder / "a.csv", patients()), by="pid", parts=4, out=folder / "parts")
    return folder / "parts"


@pytest.fixture(scope="module")
def models(parts):
    sedml.train_parts(parts, label="y", out=parts.parent / "models")
    return parts.parent / "models"


def test_models_and_what_is_known_of_them(parts, models):
    checked = sedml.check_parts(parts)
    loaded = load_models(models, load_model)
    assert (len(loaded.models), loaded.parts) == (4, checked)
    assert [sum(counts.values()) for counts in loaded.counts] == [part.records for part in checked.files]
    assert {path.stat().st_mode & 0o777 for path in models.iterdir()} == {0o600}
    manifest = (models / "manifest.json").read_text()
    assert not any(one in manifest for ids in ids_by_part(parts) for one in ids)


def test_a_model_predicts_as_a_job_shows_it_samples(models):
    model = load_model(models / "part-01.joblib")
    texts = predict(model, OLD, silent)
    assert texts.tolist() == [1, 0, 0]
    frame = pandas.DataFrame({"ward": OLD[:, 1], "id": 0, "age": pandas.to_numeric(OLD[:, 0])})
    assert model.predict(frame).tolist() == texts.tolist()
    assert model.predict(OLD.astype(object)).tolist() == texts.tolist()
    with pytest.raises(PredictionsError, match="have 3 features each, and the model was trained on 2"):
        model.predict(np.zeros((1, 3)))


def test_a_model_does_not_depend_on_other_parts(tmp_path, parts, models):
    for file in parts.iterdir():
        (tmp_path / "parts").mkdir(exist_ok=True)
        (tmp_path / "parts" / file.name).write_bytes(file.read_bytes())
    data = patients()
    first = {*ids_by_part(parts)[0]}
    kept = np.array([one in first for one in data["pid"]])
    # Everything about the other parts changes: scales, words, labels.
    data["age"] = np.where(kept, data["age"], data["age"] * 1000)
    data["ward"] = np.where(kept, data["ward"], "elsewhere")
    data["y"] = np.where(kept, data["y"], 5 + data["y"])
    sedml.shard(write_csv(tmp_path / "a.csv", data), by="pid", parts=4, out=tmp_path / "parts")
    made = sedml.train_parts(tmp_path / "parts", label="y", out=tmp_path / "models")
    same = [(tmp_path / "models" / f"part-0{k}.joblib").read_bytes() for k in (1, 2)]
    before = [(models / f"part-0{k}.joblib").read_bytes() for k in (1, 2)]
    assert same[0] == before[0]
    assert same[1] != before[1]
    assert set(made.models[0].counts) == {"0", "1"}
    assert set(made.models[1].counts) == {"5", "6"}


@pytest.mark.parametrize("kind", ["forest", "boosting", "sklearn.neighbors.KNeighborsClassifier", GaussianNB()])
def test_other_classifiers(tmp_path, parts, kind):
    made = sedml.train_parts(parts, label="y", out=tmp_path, model=kind)
    assert not any(model.abstains for model in made.models)
    assert load_model(tmp_path / "part-04.joblib").predict(OLD[:2]).tolist() == [1, 0]


def test_images_and_parquet(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    images = rng.random((400, 4, 4)) + y[:, None, None]
    sedml.shard({"x": images, "y": y, "pid": np.arange(400) // 2}, by="pid", parts=3, out=tmp_path / "npz")
    sedml.train_parts(tmp_path / "npz", label="y", out=tmp_path / "m1")
    assert (load_model(tmp_path / "m1" / "part-02.joblib").predict(images[:50]) == y[:50]).mean() > 0.9

    frame = pandas.DataFrame(patients()).assign(ward=lambda one: one["ward"].astype("category"), gap=None)
    frame.to_parquet(tmp_path / "a.parquet", index=True)
    sedml.shard(tmp_path / "a.parquet", by="pid", parts=3, out=tmp_path / "pq")
    sedml.train_parts(tmp_path / "pq", label="y", out=tmp_path / "m2")
    assert load_model(tmp_path / "m2" / "part-02.joblib").predict(frame[["age", "ward", "gap"]].head(9)).size == 9


def of_two_parts(folder: Path, **second) -> Path:
    """Parts of another maker: one to learn from, and another."""
    data = patients(80)
    folder.mkdir()
    write_csv(folder / "one.csv", data)
    write_csv(folder / "two.csv", data | {"pid": np.array([f"Q{k}" for k in range(80)])} | second)
    return folder


def test_a_part_of_one_class_abstains_and_the_run_goes_on(tmp_path):
    parts = of_two_parts(tmp_path / "parts", y=np.ones(80, int))
    made = sedml.train_parts(parts, label="y", out=tmp_path / "models", by="pid")
    assert [model.abstains for model in made.models] == ["", "fewer than two classes"]
    idle = load_model(tmp_path / "models" / "part-02.joblib")
    assert isinstance(idle, Abstaining)
    assert predict(idle, OLD, silent).tolist() == [-1, -1, -1]


def test_an_empty_part_abstains(tmp_path):
    parts = of_two_parts(tmp_path / "parts")
    (parts / "two.csv").write_text("pid,age,ward,y\n")
    made = sedml.train_parts(parts, label="y", out=tmp_path / "models", by="pid")
    assert made.models[1].counts == {}


def test_training_that_fails_on_one_part_abstains_there(tmp_path):
    y = np.zeros(80, int)
    y[0] = 1  # one record of its class is too few to hold some out
    parts = of_two_parts(tmp_path / "parts", y=y)
    params = {"early_stopping": True, "validation_fraction": 0.5}
    made = sedml.train_parts(parts, label="y", out=tmp_path / "models", by="pid", model="boosting", params=params)
    assert [model.abstains for model in made.models] == ["", "training failed (ValueError)"]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"y": np.array(["SECRET"] * 79 + ["1"])}, "Records of two.csv without a class in 'y': 79 of 80"),
        ({"y": np.array([""] + ["1"] * 79)}, "1 of 80"),
        ({"y": np.array(["-1", "0.5"] + ["1"] * 78)}, "2 of 80"),
    ],
)
def test_labels_that_are_no_class_ids_are_refused(tmp_path, second, told):
    parts = of_two_parts(tmp_path / "parts", **second)
    with pytest.raises(InputError, match=told) as caught:
        sedml.train_parts(parts, label="y", out=tmp_path / "models", by="pid")
    assert "SECRET" not in str(caught.value)
    assert list((tmp_path / "models").iterdir()) == []


def test_parts_with_a_common_unit_are_refused(tmp_path):
    parts = of_two_parts(tmp_path / "parts", pid=patients(80)["pid"])
    with pytest.raises(PartsError, match="Units in more than one part"):
        sedml.train_parts(parts, label="y", out=tmp_path / "models", by="pid")
    made = sedml.train_parts(parts, label="y", out=tmp_path / "models", by="pid", spread=2)
    assert made.parts.spread == load_models(tmp_path / "models", load_model).parts.spread == 2


def test_what_cannot_be_trained(tmp_path, parts):
    options = {"label": "y", "out": tmp_path / "models"}
    begun = tmp_path / "begun"  # parts that a crash left without a manifest
    begun.mkdir()
    (begun / "shard.key").write_bytes((parts / "shard.key").read_bytes())
    for more, told in (
        ({"label": "z"}, "no column"),
        ({"out": parts}, "among the parts"),
        ({"out": begun}, "among the parts"),
        ({"model": "nothing"}, "logistic, forest, boosting"),
        ({"model": "sklearn.linear_model.LinearRegression"}, "regressor"),
        ({"params": {"C": -1}}, r"No model could be trained: training failed \(InvalidParameterError\)"),
        ({"params": {"D": 1}}, "does not take these parameters"),
    ):
        with pytest.raises(InputError, match=told):
            sedml.train_parts(parts, **options | more)
    write_csv(
        tmp_path / "list.csv", {"pid": np.arange(90), "y": np.arange(90) % 2, "file": np.array(["list.csv"] * 90)}
    )
    sedml.shard(tmp_path / "list.csv", by="pid", parts=1, out=tmp_path / "lists", files=tmp_path)
    with pytest.raises(InputError, match="are lists of files"):
        sedml.train_parts(tmp_path / "lists", **options)


def test_models_that_are_not_as_they_were_made_are_refused_before_their_code_runs(tmp_path, parts):
    out = tmp_path / "models"
    sedml.train_parts(parts, label="y", out=out)
    good = (out / "part-02.joblib").read_bytes()
    joblib.dump(Abstaining(), out / "part-02.joblib")
    with pytest.raises(FileFormatError, match=r"part-02.joblib is not as it was made"):
        load_models(out, lambda _: pytest.fail("loaded"))
    (out / "part-02.joblib").unlink()
    with pytest.raises(FileFormatError, match="cannot be read"):
        load_models(out, load_model)
    (out / "part-02.joblib").write_bytes(good)
    document = json.loads((out / "manifest.json").read_text())
    document["parts"]["spread"] = 3
    (out / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(FileFormatError, match="changed or is damaged"):
        load_models(out, load_model)


def test_models_of_other_makers(tmp_path):
    for name in ("b.joblib", "a.pkl"):
        joblib.dump(Abstaining(), tmp_path / name)
    loaded = load_models(tmp_path, load_model)
    assert (len(loaded.models), loaded.parts, loaded.counts) == (2, None, None)
    with pytest.raises(InputError, match="not a folder"):
        load_models(tmp_path / "none", load_model)


def test_columns_are_numbers_or_words_as_the_part_has_them():
    samples = np.array([["1", "a", "", "?"], ["2", "1", "", "3"], ["", "2.0", "NA", "inf"]], object)
    encoder = TableEncoder().fit(samples)
    assert (encoder.numbers_, encoder.words_) == ([0, 2, 3], [1])
    assert np.isfinite(encoder.transform(samples)).all()
    # Codes are the same among numbers and among texts, and an unknown word is none of the known ones.
    assert (encoder.transform([["1", "1", "", ""]]) == encoder.transform([[1.0, 1.0, np.nan, np.nan]])).all()
    assert encoder.transform([["1", "new", "", "words"]])[0, 3:].tolist() == [0, 0, 0]


class Drawing(BaseEstimator, ClassifierMixin):
    """Draws from NumPy's own generator as long as its part is, and votes by what it drew last."""

    def fit(self, samples, ids):
        self.classes_ = np.unique(ids)
        self.drawn_ = float(np.random.random(len(samples))[-1])  # noqa: NPY002 - as classifiers do
        return self

    def predict(self, samples):
        return np.full(len(samples), int(self.drawn_ > 0.5))


def test_what_one_part_has_drawn_is_not_seen_in_the_model_of_the_next(tmp_path):
    """A generator that all parts share would let one patient of the first part move the votes of all others."""
    drawn = []
    for more in (0, 1):
        folder = tmp_path / f"parts-{more}"
        folder.mkdir()
        for part, records in ((1, 20 + more), (2, 20)):
            lines = "\n".join(f"{part}-{k},{k},{k % 2}" for k in range(records))
            (folder / f"{part}.csv").write_text(f"patient_id,x,label\n{lines}\n")
        models = tmp_path / f"models-{more}"
        sedml.train_parts(folder, label="label", out=models, model=Drawing(), by="patient_id")
        drawn.append(load_models(models, load_model).models[1][-1].drawn_)
    assert drawn[0] == drawn[1]


def test_a_part_that_changed_after_it_was_checked_is_not_trained_on(tmp_path, monkeypatch):
    data = {"patient_id": np.arange(200), "x": np.arange(200.0), "y": np.arange(200) % 2}
    made = sedml.shard(data, by="patient_id", parts=2, out=tmp_path / "parts")
    monkeypatch.setattr("sedml.parts.training.check_parts", lambda *_, **__: made)
    first, second = (tmp_path / "parts" / part.name for part in made.files)
    second.write_bytes(first.read_bytes())
    with pytest.raises(InputError, match="has changed since it was checked"):
        sedml.train_parts(tmp_path / "parts", label="y", out=tmp_path / "models")


def test_parts_know_what_they_were_split_by(tmp_path):
    data = {"patientId": np.arange(50), "x": np.arange(50.0), "y": np.arange(50) % 2}
    assert sedml.shard(data, by="patientId", parts=2, out=tmp_path / "a").unit == "patient"
    assert sedml.shard(data, by="x", unit="customer", parts=2, out=tmp_path / "b").unit == "customer"
    with pytest.raises(InputError, match="does not say what a unit is"):
        sedml.shard({"0": np.arange(50)}, by="0", parts=2, out=tmp_path / "c")
    short = {"patient": np.arange(50, dtype=np.float32)}
    with pytest.raises(FileFormatError, match="fewer digits than ids need"):
        sedml.shard(short, by="patient", parts=2, out=tmp_path / "d")
