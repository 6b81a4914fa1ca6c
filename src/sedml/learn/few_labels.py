"""A student that asks: it learns what there is to learn without labels, asks about few samples, and learns the rest.

    student = StudentClassifier(classes=10)
    student.fit(images, lambda chosen: job_labels(images[chosen]), questions=30)
    student.predict(new_images)

Images are seen by networks that learn features from them alone (`contrast`), and taught by consistency training
(`student_cnn`); both need PyTorch. Rows of features, such as a table or embeddings of texts, are taken as they are,
and a scikit-learn classifier is taught. With an estimator of one's own, that is taught for images too, on the features:
better where there are few images, as of X-rays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sedml import Progress, silent
from sedml.errors import InputError
from sedml.extras import explain_missing
from sedml.learn.queries import Questions

_BEYOND = 2  # questions of the first round, at least, beyond one for each class
_LIGHT = {"network": "medium", "batch": 256, "steps": 300}  # where there is no GPU
_LIGHT_STUDENT = {"network": "medium", "members": 1, "steps": 1000}


def first_round(questions: int, classes: int) -> int:
    """How many of the questions come first: half, but enough for every class; the others are about what is in doubt."""
    return min(questions, max(classes + _BEYOND, questions // 2))


class StudentClassifier:
    """A classifier taught by the labels of a few samples that it chooses itself.

    Parameters
    ----------
    classes : how many there are, numbered from 0.
    balanced : whether they are about equally frequent; if not, how frequent they are is taken from the labels.
    estimator : the scikit-learn classifier to teach: by default LogisticRegression for rows of features, and for images
        networks of their own.
    settings : for those networks, settings of `StudentConfig` that differ from the default.
    contrast : settings of `ContrastConfig` that differ from the default.
    spread : whether an estimator is taught on all samples, each with the label that reaches it first in the graph
        of neighbours: better where like samples lie together, as embeddings of texts do, and worse for most tables.
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
        contrast: dict[str, Any] | None = None,
        spread: bool = False,
        seed: int = 0,
        device: str = "auto",
    ) -> None:
        self.classes, self.balanced, self.estimator = classes, balanced, estimator
        self.settings, self.contrast, self.spread = settings or {}, contrast or {}, spread
        self.seed, self.device = seed, device

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
        self._images, self._own = samples.ndim > 2, samples.ndim == 2 or self.estimator is not None
        self._look(samples, progress)
        seen = self._seen(samples)
        # Directions of learned features mean more than their sizes; columns of a table come in units of all kinds.
        choice = Questions(self._features(samples) if self._images else seen, self.classes, seed=self.seed)
        first = first_round(questions, self.classes)
        for count in (first, questions - first):
            if count:
                chosen = choice.choose(count)
                choice.told(chosen, self._answers(ask(chosen), count))
        self.asked_, self.labels_ = choice.asked, choice.labels
        known = self.labels_ >= 0
        if len(set(self.labels_[known])) < 2:
            raise InputError("There are no labels, or labels of one class only.", "Ask more, or with less noise.")
        asked, labels = self.asked_[known], self.labels_[known]
        if not self._own:
            shares = None if self.balanced else choice.shares()
            self._student = self._network(samples, samples[asked], labels, shares, progress)
        elif self.spread:
            reached = choice.graph.spread(asked, labels, self.classes)
            self._student = self._estimator().fit(seen, reached.argmax(1), sample_weight=reached.max(1))
        else:
            self._student = self._estimator().fit(seen[asked], labels)
        return self

    def predict(self, samples: NDArray[Any]) -> NDArray[np.int64]:
        """The class of each sample, int64[S]."""
        if self._own:
            return np.asarray(self._student.predict(self._seen(np.asarray(samples))), np.int64)
        from sedml.learn.student_cnn import predict

        return predict(self._student, samples)

    def _look(self, samples: NDArray[Any], progress: Progress) -> None:
        """Learn how to see samples: features in which those of one kind lie together, and their usual size."""
        if self._images:
            with explain_missing():
                from sedml.learn.contrast import ContrastConfig, learn_features
                from sedml.learn.networks import choose_device

            light: dict[str, Any] = {} if choose_device(self.device).type == "cuda" else _LIGHT
            view = {"view": self.settings["strong_view"]} if "strong_view" in self.settings else {}
            config = ContrastConfig(**(light | view | self.contrast))
            self._networks = learn_features(
                samples, seeds=[self.seed], config=config, device=self.device, progress=progress
            )
        rows = self._features(samples)
        self._usual = rows.mean(0), np.maximum(rows.std(0), np.float32(1e-6))

    def _features(self, samples: NDArray[Any]) -> NDArray[np.float32]:
        if not self._images:
            return np.asarray(samples, np.float32)
        from sedml.learn.student_cnn import features

        return features(self._networks, samples)

    def _seen(self, samples: NDArray[Any]) -> NDArray[np.float32]:
        """Features on one scale, [S, d]."""
        return np.asarray((self._features(samples) - self._usual[0]) / self._usual[1], np.float32)

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
