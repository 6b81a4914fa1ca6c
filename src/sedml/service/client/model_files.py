"""A teacher's model from a file, as an object that can predict.

| file | what it is | needs |
|---|---|---|
| `.onnx` | an ONNX model; its first output has classes, or a score for each class | the extra `onnx` |
| `.pt2` | a PyTorch network saved with `torch.export.save` | the extra `torch` |
| any other | a model that `joblib.dump` wrote; **loading it runs its code** | the extra `learn` |
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sedml.errors import FileFormatError, MissingExtraError
from sedml.extras import explain_missing
from sedml.service.client.samples import Samples

_KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}


class _OnnxModel:
    """An ONNX model with one input, the samples."""

    def __init__(self, path: Path) -> None:
        with explain_missing():
            import onnxruntime

        self._session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0]

    def predict(self, samples: Samples) -> Samples:
        """The first output: classes, or scores."""
        given = np.asarray(samples)
        given = given.astype(_KINDS.get(self._input.type, given.dtype))
        return np.asarray(self._session.run(None, {self._input.name: given})[0])


def load_model(path: Path) -> object:
    """The model in a file; raises if it cannot be read as what its name says."""
    if not path.is_file():
        raise FileFormatError(f"{path} cannot be read (no such file).", "Check the path.")
    read, how = _READERS.get(path.suffix.lower(), (_joblib, _DUMP))
    try:
        return read(path)
    except MissingExtraError:
        raise
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read ({error.strerror}).", "Check the path.") from None
    except Exception as error:  # a pickle can raise anything, and so can a damaged file
        raise FileFormatError(f"{path} cannot be loaded ({type(error).__name__}).", how) from error


def _exported(path: Path) -> object:
    with explain_missing():
        import torch

    return torch.export.load(path).module()


def _joblib(path: Path) -> Any:  # noqa: ANN401 - whatever the teacher has trained
    with explain_missing():
        import joblib

        return joblib.load(path)


_DUMP = "Write it with joblib.dump, using the same versions of Python and of its libraries."
_READERS = {
    ".onnx": (_OnnxModel, "Check that it is a whole ONNX model, and that onnxruntime is new enough for it."),
    ".pt2": (_exported, "Write it with torch.export.save, using the same version of PyTorch."),
}
