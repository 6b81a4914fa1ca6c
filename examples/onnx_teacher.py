"""Teachers that are ONNX models, whatever trained them.

pip install 'sedml-pate[learn]' skl2onnx onnxruntime
python examples/onnx_teacher.py
"""

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

import sedml


class OnnxTeacher:
    """An ONNX model that can vote: all that is asked of a teacher is `predict`, from samples to classes."""

    def __init__(self, model: str | bytes) -> None:
        """`model` is the path of an .onnx file, or its bytes."""
        self.session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def predict(self, samples: np.ndarray) -> np.ndarray:
        # The first output has classes in a model of scikit-learn's, and scores in most others.
        first = np.asarray(self.session.run(None, {self.input: samples.astype(np.float32)})[0])
        return first if first.ndim == 1 else first.argmax(axis=1)


def train(images: np.ndarray, digits: np.ndarray) -> bytes:
    """Each teacher at home, on data that never leaves it. This stands for a model.onnx that you have."""
    forest = RandomForestClassifier(n_estimators=20, random_state=0).fit(images, digits)
    return to_onnx(forest, images[:1].astype(np.float32), options={"zipmap": False}).SerializeToString()


images, digits = load_digits(return_X_y=True)
order = np.random.default_rng(0).permutation(len(images))
public, private = order[:100], order[100:1700].reshape(40, 40)
samples, truth = images[public], digits[public]

teachers = [OnnxTeacher(train(images[own], digits[own])) for own in private]
predictions = np.array([teacher.predict(samples) for teacher in teachers])
result = sedml.aggregate(predictions, classes=10, threshold=0.5, sigma=3.0, delta=1e-5)

answered = result.labels >= 0
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(result.labels == truth)[answered].mean():.0%} of those are right")
