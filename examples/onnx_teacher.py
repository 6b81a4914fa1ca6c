"""Teachers that are ONNX models, whatever trained them: eight hospitals with 31 votes each, every patient protected.

It needs SEDML with the extras learn and onnx (docs/how-to/install.md), and skl2onnx.
python examples/onnx_teacher.py
"""

import numpy as np
import onnxruntime
from skl2onnx import to_onnx
from sklearn.naive_bayes import GaussianNB

import sedml
from sedml.learn.printed import printed_digits


class OnnxTeacher:
    """An ONNX model that can vote: all that is asked of a teacher is `predict`, from samples to classes."""

    def __init__(self, model: str | bytes) -> None:
        """`model` is the path of an .onnx file, or its bytes."""
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # models as small as these gain nothing from more
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def predict(self, samples: np.ndarray) -> np.ndarray:
        # The first output has classes in a model of scikit-learn's, and scores in most others.
        first = np.asarray(self.session.run(None, {self.input: samples.astype(np.float32)})[0])
        return first if first.ndim == 1 else first.argmax(axis=1)


def train(images: np.ndarray, digits: np.ndarray) -> bytes:
    """At home, on one part of the data, which never leaves it. This stands for a model.onnx that you have."""
    model = GaussianNB(var_smoothing=0.1).fit(images, digits)
    return to_onnx(model, images[:1].astype(np.float32), options={"zipmap": False}).SerializeToString()


# Eight hospitals, each of which has split its patients into 31 parts: 248 votes, of which a patient moves one.
HOSPITALS, PARTS, PATIENTS = 8, 31, 40
drawn, digits = printed_digits(HOSPITALS * PARTS * PATIENTS + 33, np.random.default_rng(0))
images = drawn.reshape(len(drawn), 256)
private, public = np.split(np.arange(len(images)), [HOSPITALS * PARTS * PATIENTS])
samples, truth = images[public], digits[public]

teachers = [OnnxTeacher(train(images[part], digits[part])) for part in np.split(private, HOSPITALS * PARTS)]
predictions = np.array([teacher.predict(samples) for teacher in teachers])

# 33 questions and this much noise are an epsilon of 1 for each patient, whatever one of the two operators does.
result = sedml.aggregate(predictions, classes=10, threshold=0.4, sigma=38.0, delta=1e-5, unit="patient", votes=PARTS)

answered, cost = result.labels >= 0, result.privacy
print(f"{result.answered} of {len(truth)} samples got a label")
print(f"{(result.labels == truth)[answered].mean():.0%} of those labels are correct")
print(f"It cost each patient an epsilon of {cost.epsilon:.2f}: {'private' if cost.epsilon <= 1 else 'not private'}.")
print("A hospital as a whole is not protected.")
