"""Labels of a job for the samples that got none, so that any classifier learns from these too.

Labels cost privacy, samples do not. Labels are carried along to near samples (label spreading on the graph of nearest
neighbours), for which a few labels suffice:

    labels = spread_labels(images, result.labels)
    student = SVC().fit(rows[labels >= 0], labels[labels >= 0])
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml.errors import InputError
from sedml.extras import explain_missing
from sedml.learn.datasets import flat
from sedml.protocol.votes import NO_CONSENSUS

with explain_missing():
    from sklearn.semi_supervised import LabelSpreading

_Array: TypeAlias = npt.NDArray[Any]

_ALPHA = 0.2  # how much of a label comes from the neighbours; scikit-learn's own choice
_LEAST = 1e-9  # samples that no label reaches have probability 0


def spread_labels(
    samples: npt.ArrayLike, labels: npt.ArrayLike, *, confidence: float = 0.75, neighbours: int = 7
) -> _Array:
    """The labels, and one for each sample without (-1) whose label has at least this probability; else it stays -1.

    `neighbours` is how many samples are near. Labels are class ids, or names of classes in an array of objects.
    """
    if not 0 <= confidence <= 1:
        raise InputError(f"A confidence of {confidence} was given.", "Use a number from 0 to 1.")
    if neighbours < 1:
        raise InputError(f"{neighbours} neighbours cannot be used.", "Give at least 1.")
    rows, found = flat(samples), np.array(labels)
    if found.shape != (len(rows),):
        raise InputError(f"There are {len(rows)} samples and labels of shape {found.shape}.", "Give one for each.")
    labelled = found != NO_CONSENSUS
    if not labelled.any():
        raise InputError("No sample has a label.", "Lower the threshold or the noise, or ask for more samples.")
    if labelled.all():
        return found
    classes, codes = np.unique(found[labelled], return_inverse=True)
    known = np.full(len(found), -1)
    known[labelled] = codes
    near = min(neighbours, len(known))
    model = LabelSpreading(kernel="knn", n_neighbors=near, alpha=_ALPHA, max_iter=1000).fit(rows, known)
    given = ~labelled & (model.label_distributions_.max(axis=1) >= max(confidence, _LEAST))
    found[given] = classes[model.transduction_[given]]
    return found
