"""A student that asks: it learns what there is to learn without labels, asks about few samples, and learns the rest.

    student = StudentClassifier(classes=10)
    student.fit(images, lambda chosen: job_labels(images[chosen]), questions=30)
    student.predict(new_images)

Images are seen by networks that learn features from them alone (`contrast`), and taught by consistency training
(`student_cnn`); both need PyTorch. Rows of features, such as a table or embeddings of texts, are taken as they are,
and a scikit-learn classifier is taught.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sedml import Progress, silent
from sedml.errors import InputError, explain_missing
from sedml.learn.queries import Questions

__all__ = ["StudentClassifier"]

_FIRST = 2 / 3  # of the questions; the others are about what their labels leave in doubt
_LIGHT = {"network": "medium", "batch": 256, "steps": 300}  # where there is no GPU
_LIGHT_STUDENT = {"network": "medium", "members": 1, "steps": 1000}


class StudentClassifier:
    """A classifier taught by the labels of a few samples that it chooses itself.

    Parameters
    ----------
    classes : how many there are, numbered from 0.
    balanced : whether they are about equally frequent; if not, how frequent they are is taken from the labels.
    estimator : for rows of features, the scikit-learn classifier to teach: by default LogisticRegression.
    settings : for images, settings of `StudentConfig` that differ from the default.
    device : "auto" is the GPU where there is one. Without one, networks are smaller: minutes for 2,000 images.

    After fit, `asked_` has the numbers of the samples that were asked about and `labels_` what came back.
    """

    def __init__(
        self,
        classes: int,
        *,
        balanced: bool = True,
        estimator: Any = None,  # noqa: ANN401 - any estimator
        settings: dict[str, Any] | None = None,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.classes, self.balanced, self.estimator = classes, balanced, estimator
        self.settings, self.seed, self.device = settings or {}, seed, device

    def fit(
        self,
        samples: NDArray[Any],
        ask: Callable[[NDArray[np.int64]], NDArray[np.int64]],
        questions: int,
        progress: Progress = silent,
    ) -> Self:
        """Learn from public samples: images [S, H, W(, C)] or features [S, d].

        `ask` is called twice, with the numbers of samples, and returns a label for each, -1 for none. Both times count
        towards one set of terms, fixed beforehand: together they cost what one job of that many questions would.
        """
        samples = np.asarray(samples)
        if samples.ndim not in (2, 3, 4):
            what = f"Samples of shape {samples.shape} were given."
            raise InputError(what, "Give images (samples, height, width[, channels]) or features (samples, features).")
        self._images = samples.ndim > 2
        choice = Questions(self._seen(samples, progress), self.classes, seed=self.seed)
        first = max(1, round(_FIRST * questions))
        for count in (first, questions - first):
            if count:
                chosen = choice.choose(count)
                choice.told(chosen, self._answers(ask(chosen), count))
        self.asked_, self.labels_ = choice.asked, choice.labels
        known = self.labels_ >= 0
        if len(set(self.labels_[known])) < 2:
            raise InputError("There are no labels, or labels of one class only.", "Ask more, or with less noise.")
        given = samples[self.asked_[known]], self.labels_[known]
        self._student = (
            self._network(samples, *given, None if self.balanced else choice.shares(), progress)
            if self._images
            else self._estimator().fit(*given)
        )
        return self

    def predict(self, samples: NDArray[Any]) -> NDArray[np.int64]:
        """The class of each sample, int64[S]."""
        if not self._images:
            return np.asarray(self._student.predict(samples), np.int64)
        from sedml.learn.student_cnn import predict

        return predict(self._student, samples)

    def _seen(self, samples: NDArray[Any], progress: Progress) -> NDArray[np.float32]:
        """The features in which samples of one kind lie together."""
        if not self._images:
            rows = np.asarray(samples, np.float32)
            return np.asarray((rows - rows.mean(0)) / np.maximum(rows.std(0), np.float32(1e-6)), np.float32)
        with explain_missing():
            from sedml.learn.contrast import ContrastConfig, learn_features
            from sedml.learn.networks import choose_device
            from sedml.learn.student_cnn import features

        light: dict[str, Any] = {} if choose_device(self.device).type == "cuda" else _LIGHT
        view = {"view": self.settings["strong_view"]} if "strong_view" in self.settings else {}
        config = ContrastConfig(**light, **view)
        networks = learn_features(samples, seeds=[self.seed], config=config, device=self.device, progress=progress)
        return features(networks, samples)

    def _answers(self, labels: Any, count: int) -> NDArray[np.int64]:  # noqa: ANN401 - whatever ask returns
        found = np.asarray(labels)
        if (
            found.shape != (count,)
            or found.dtype.kind not in "iu"
            or not (-1 <= found.min() <= found.max() < self.classes)
        ):
            what = f"The answer to {count} questions was {found.dtype} of shape {found.shape}, or no class ids."
            raise InputError(what, f"Return a whole number for each, from 0 to {self.classes - 1}, or -1 for none.")
        return found.astype(np.int64)

    def _network(
        self,
        samples: NDArray[Any],
        images: NDArray[Any],
        labels: NDArray[np.int64],
        shares: NDArray[np.float32] | None,
        progress: Progress,
    ) -> Any:  # noqa: ANN401 - networks, if torch is there
        from sedml.learn.networks import choose_device
        from sedml.learn.student_cnn import StudentConfig, train_students

        light: dict[str, Any] = {} if choose_device(self.device).type == "cuda" else _LIGHT_STUDENT
        [student] = train_students(
            [(images, labels)],
            samples,
            classes=self.classes,
            seeds=[self.seed],
            config=StudentConfig(**(light | self.settings)),
            shares=None if shares is None else shares[None],
            device=self.device,
            progress=progress,
        )
        return student

    def _estimator(self) -> Any:  # noqa: ANN401 - any estimator
        with explain_missing():
            from sklearn.base import clone
            from sklearn.linear_model import LogisticRegression
        return LogisticRegression(max_iter=1000) if self.estimator is None else clone(self.estimator)
