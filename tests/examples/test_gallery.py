"""Every example of the gallery runs, tells its price, gets its labels right; its teachers can vote in a deployment."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from sedml import silent
from sedml.service.client.predicting import predict
from support.tiers import thorough

ROOT = Path(__file__).parents[2]
LIBRARIES = {
    "torch_teacher": ("sklearn", "torch"),
    "onnx_teacher": ("sklearn", "onnxruntime", "skl2onnx"),
    "pandas_predictions": ("sklearn", "pandas"),
    "flower_teachers": ("sklearn", "flwr"),
}
"""Every script in examples/, and what it needs: a new one has to be put here."""


def test_every_example_is_known_and_has_a_page():
    assert {path.stem for path in ROOT.glob("examples/*.py")} == set(LIBRARIES)
    pages = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob("docs/how-to/gallery/*.md"))
    for name in LIBRARIES:
        assert f"<!-- include: examples/{name}.py -->" in pages


@thorough
@pytest.mark.filterwarnings("default")  # of libraries that are not ours
@pytest.mark.parametrize("name", LIBRARIES)
def test_an_example_runs_and_its_labels_are_right(name, capsys, tmp_path, monkeypatch):
    for library in LIBRARIES[name]:
        pytest.importorskip(library, reason=f"{library} is not installed")
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(ROOT / "examples" / f"{name}.py"))
    printed = capsys.readouterr().out
    assert "samples got a label" in printed
    result = names["result"]
    assert f"It cost each patient an epsilon of {result.privacy.epsilon:.2f}: private.\n" in printed
    assert "A hospital as a whole is not protected.\n" in printed
    assert result.privacy.epsilon <= 1
    assert result.privacy.unit.name == "patient"
    assert result.answered > len(result.labels) / 2
    truth = names["truth"]
    if name == "pandas_predictions":
        truth = np.array([names["CLASSES"].index(one) for one in truth])
    answered = result.labels >= 0
    assert (result.labels == truth)[answered].mean() > 0.8
    for teacher, row in zip(names.get("teachers", ()), names.get("predictions", ()), strict=True):
        np.testing.assert_array_equal(predict(teacher, names["samples"], silent), row)


@thorough
def test_a_flower_client_is_still_one_of_flower_s():
    pytest.importorskip("flwr", reason="flwr is not installed")
    names = runpy.run_path(str(ROOT / "examples" / "flower_teachers.py"))
    from flwr.client import Client

    context = type("Context", (), {"node_config": {"partition-id": 3}})
    assert isinstance(names["client_fn"](context), Client)
    hospital = names["Hospital"](names["partitions"][3].ravel())
    weights, examples, _ = hospital.fit([np.zeros((256, 10)), np.zeros(10)], {"epochs": 1})
    assert (examples, weights[0].shape) == (31 * 40, (256, 10))
