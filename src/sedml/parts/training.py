"""One model a part: trained on its part alone, with preprocessing of its own, it shares nothing with the others."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sedml import Progress, silent
from sedml.errors import InputError, SedmlError
from sedml.extras import explain_missing
from sedml.files.digest import size_and_sha256
from sedml.files.headings import is_number
from sedml.parts.checking import check_parts
from sedml.parts.classifiers import make_estimator, seeded
from sedml.parts.part_files import open_records
from sedml.parts.part_manifest import KEY, new_set, part_name, read_manifest, write_manifest, write_private
from sedml.parts.part_models import Abstaining, ModelFile, ModelSet
from sedml.parts.table_encoder import TableEncoder
from sedml.protocol.class_names import MISSING, plain_name

with explain_missing():
    import joblib
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline
    from threadpoolctl import threadpool_limits

_Array: TypeAlias = npt.NDArray[Any]


def train_parts(
    parts: str | os.PathLike[str],
    *,
    label: str,
    out: str | os.PathLike[str],
    model: object = "logistic",
    params: Mapping[str, Any] | None = None,
    by: str | None = None,
    unit: str | None = None,
    spread: int = 1,
    seed: int = 0,
    progress: Progress = silent,
) -> ModelSet:
    """Check the parts, train a classifier on each alone, and save them in `out` with a manifest.

    `model` is 'logistic', 'forest', 'boosting', the import path of a classifier, or a scikit-learn estimator; `label`
    names the column of class ids 0, 1, ... or class names; all other columns but the unit's id are features, by their
    order. In npz files the features are the array x, X, data or samples. A part that has fewer than two classes, or on
    which training fails, gets a model that abstains. `by`, `unit` and `spread` are as in `sedml.check_parts`.
    """
    folder, out = Path(parts), Path(out)
    if folder.resolve() == out.resolve() or (out / KEY).exists():
        raise InputError("The models would be among the parts.", "Give another folder for the models.")
    base = make_estimator(model, params)
    read_manifest(out, ModelSet)  # which must be a folder of models, if it is one of anything
    checked = check_parts(folder, by=by, unit=unit, spread=spread, progress=progress)
    if checked.file_column is not None:
        raise InputError(
            f"The parts in {folder} are lists of files.",
            "Train a model of your own on the files of each part, and save all models in one folder, a file each.",
        )
    made = []
    with new_set(out) as aside:
        for k, part in enumerate(checked.files):
            progress("training", k, len(checked.files))
            records = open_records(folder / part.name, checked.by)
            ids = _classes(records.columns(label)[0], label, part.name)
            samples, names = records.features({checked.by, label})
            if size_and_sha256(folder / part.name)[1] != part.sha256:
                raise InputError(f"{part.name} has changed since it was checked.", "Train again when it is complete.")
            fitted, abstains = _fit(clone(base, safe=False), seed + k, samples, names, ids)
            name = part_name(k, ".joblib")
            with write_private(aside / name) as stream:
                joblib.dump(fitted, stream)
            found, counts = np.unique(ids, return_counts=True)
            made.append(
                ModelFile(
                    name=name,
                    sha256=size_and_sha256(aside / name)[1],
                    counts=dict(zip(map(str, found.tolist()), counts.tolist(), strict=True)),
                    abstains=abstains,
                )
            )
        progress("training", len(made), len(made))
        if all(model.abstains for model in made):
            what = f"No model could be trained: {', '.join(sorted({model.abstains for model in made}))}."
            raise InputError(what, "Check the label, the classifier and its parameters, or use fewer parts.")
        kind = model if isinstance(model, str) else type(model).__name__
        trained = ModelSet(parts=checked, label=label, model=kind, models=tuple(made))
        write_manifest(aside, trained)
    return trained


def _fit(
    classifier: Any,  # noqa: ANN401 - any estimator
    seed: int,
    samples: _Array,
    names: tuple[str, ...],
    ids: _Array,
) -> tuple[object, str]:
    """A model, and why it abstains if it does.

    Generators that all parts share are seeded anew: what one part has drawn must not be seen in the next one's model.
    """
    seeded(classifier, seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - which classifiers use whether we like it or not
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)
    if len(np.unique(ids)) < 2:
        return Abstaining(), "fewer than two classes"
    if samples.shape[1] == 0:
        raise InputError("There are no columns but the id and the label.", "Give columns to learn from.")
    try:
        # What a library warns of may quote data, and would come once a part. One thread: parts are small.
        with warnings.catch_warnings(), threadpool_limits(limits=1):
            warnings.simplefilter("ignore")
            return make_pipeline(TableEncoder(names), classifier).fit(samples, ids), ""
    except SedmlError:
        raise
    except Exception as error:  # whatever a classifier raises; its text may quote data
        return Abstaining(), f"training failed ({type(error).__name__})"


def _classes(values: Sequence[Any], label: str, name: str) -> _Array:
    """The class ids int64[records], or the names of the classes if none of them is a number."""
    words = [plain_name(str(value)) for value in values]
    if not any(word == "" or word.casefold() in MISSING or is_number(word) for word in words):
        return np.array(words, np.str_)
    found = np.full(len(values), -1, np.int64)
    for k, value in enumerate(values):
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        found[k] = int(number) if number.is_integer() and 0 <= number < 2**31 else -1
    if wrong := int((found < 0).sum()):
        raise InputError(
            f"Records of {name} without a class in {label!r}: {wrong:,} of {len(found):,}.",
            "Name or number the classes (0, 1, ...) as the job does, and leave out records without a label.",
        )
    return found
