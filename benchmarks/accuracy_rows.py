"""Accuracy against epsilon on rows of features: questions of bank customers and a census. Part of accuracy.py.

    python benchmarks/accuracy.py rows --data-dir DATA --out accuracy

Eight banks cast 31 votes each, and one customer moves one vote. The official test rows are split for every seed into
public ones and those that the student is tested on. `--tune` takes both from the training rows, which is how settings
were chosen, with the seeds 0 to 3. `embed` turns texts into numbers first, by a sentence transformer.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sedml.learn.few_labels import StudentClassifier

DELTA = 1e-5
TUNED = range(4)
# A dozen groups of Banking77's 77 categories, by the first rule that their names fit.
GROUPS = {
    "top-ups": "top.?up|topping",
    "transfers": "transfer|beneficiary|receiving_money",
    "virtual cards": "virtual|disposable",
    "cash": "cash|atm|swallowed",
    "currencies": "exchange|fiat|currenc",
    "codes": "pin|passcode",
    "identity": "verify|identity|funds",
    "lost cards": "lost|stolen|compromised",
    "refunds": "[Rr]efund|reverted|twice",
    "payments": "payment|charge",
    "account": "account|age_limit|country|personal",
    "cards": ".",
}
NEAR, MOVES, FAR = 5, 30, 0.9
"""How a teacher's labels spread: to so many public texts from each of its own, how often on, and how much of them."""


@dataclass(frozen=True)
class RowStudy:
    """Who teaches what; `public` rows of the test set are for questions."""

    title: str
    data: str
    questions: dict[float, int]
    classes: int
    public: int
    consensus: float
    spread: bool
    """Whether like samples lie together, so that labels can be given on to their neighbours."""
    strength: float
    """C of the student's logistic regression."""
    organisations: int = 8
    votes: int = 31


ROW_STUDIES = {
    "texts": RowStudy(
        "Banking77 in 12 groups, 8 banks x 31 votes",
        "banking77",
        {1.0: 80, 4.0: 400},
        classes=12,
        public=2080,
        consensus=0.3,
        spread=True,
        strength=10.0,
    ),
    "customers": RowStudy(
        "Adult, 8 banks x 31 votes",
        "adult",
        {1.0: 160, 4.0: 600},
        classes=2,
        public=8000,
        consensus=0.5,
        spread=False,
        strength=0.3,
    ),
}


@dataclass(frozen=True)
class Rows:
    """Features and classes of what is private, and of what is public or tested on."""

    private: np.ndarray
    private_labels: np.ndarray
    others: np.ndarray
    other_labels: np.ndarray


def embed(options: argparse.Namespace) -> None:
    """Write down what a sentence transformer makes of the texts of Banking77."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(options.text_model)
    parts = {}
    for part in ("train", "test"):
        with (options.data_dir / "banking77" / f"{part}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        parts[part] = model.encode([row["text"] for row in rows], normalize_embeddings=True).astype(np.float32)
        parts[f"{part}_labels"] = np.array(
            [
                next(k for k, rule in enumerate(GROUPS.values()) if re.search(rule, row["category"]))
                for row in rows
            ]
        )  # fmt: skip
    np.savez(options.out / "embedded-banking77.npz", **parts)


def load(options: argparse.Namespace, study: RowStudy) -> Rows:
    if study.data == "banking77":
        found = np.load(options.out / "embedded-banking77.npz")
        return Rows(found["train"], found["train_labels"], found["test"], found["test_labels"])
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    train, test = (
        pd.read_csv(options.data_dir / "adult" / f"adult.{part}", skipinitialspace=True) for part in ("data", "test")
    )
    labels = [frame["Y"].str.startswith(">50K").to_numpy().astype(np.int64) for frame in (train, test)]
    features = [frame.drop(columns=["Y", "fnlwgt"]) for frame in (train, test)]
    numbers = features[0].select_dtypes("number").columns
    for frame in features:
        frame[["capital-gain", "capital-loss"]] = np.log1p(frame[["capital-gain", "capital-loss"]])
        # A straight line through ages misses that incomes rise and fall with them.
        frame[[f"{name} squared" for name in numbers]] = (
            (frame[numbers] - features[1][numbers].mean()) / features[1][numbers].std()
        ) ** 2
    words = features[0].select_dtypes(exclude="number").columns
    # Its scales and words are those of the test rows, whose features are public.
    encoder = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", min_frequency=50, sparse_output=False), words),
        (StandardScaler(), features[0].columns.difference(words, sort=False)),
    ).fit(features[1])
    private, others = (encoder.transform(frame).astype(np.float32) for frame in features)
    return Rows(private, labels[0], others, labels[1])


def part_votes(own: Rows, shown: np.ndarray, study: RowStudy) -> np.ndarray:
    """What a model of each part says of the public rows, [votes, rows]; -1 for nothing."""
    parts = np.array_split(np.arange(len(own.private)), study.organisations * study.votes)
    if study.spread:
        return spread_votes(own, parts, shown, study.classes)
    votes = np.full((len(parts), len(shown)), -1)
    for vote, part in zip(votes, parts, strict=True):
        if len(set(own.private_labels[part])) > 1:  # the model of a part of one class would have nothing to say
            vote[:] = logistic(3.0)(own.private[part], own.private_labels[part]).predict(shown)
    return votes


def spread_votes(own: Rows, parts: list[np.ndarray], shown: np.ndarray, classes: int) -> np.ndarray:
    """Every part gives its labels to the public rows nearest to its own, and they move on along the public graph."""
    from sedml.learn.neighbours import Neighbours

    matrix, votes = Neighbours(shown).matrix, []
    for part in parts:
        likeness = own.private[part] @ shown.T
        near = np.argpartition(-likeness, NEAR, 1)[:, :NEAR]
        start = np.zeros((len(shown), classes), np.float32)
        for place in range(NEAR):
            weights = np.maximum(likeness[np.arange(len(part)), near[:, place]], 0) ** 4
            np.add.at(start, (near[:, place], own.private_labels[part]), weights)
        sizes = start.sum(0)
        start /= np.maximum(sizes, 1e-9)
        heat = start
        for _ in range(MOVES):
            heat = np.float32(FAR) * (matrix @ heat) + np.float32(1 - FAR) * start
        heat = heat / np.maximum(heat.sum(0), 1e-12) * sizes
        votes.append(np.where(heat.max(1) > 0, heat.argmax(1), -1))
    return np.stack(votes)


def logistic(strength: float) -> Callable[[np.ndarray, np.ndarray], Any]:
    from sklearn.linear_model import LogisticRegression

    return lambda features, labels: LogisticRegression(C=strength, max_iter=1000).fit(features, labels)


def boosted(features: np.ndarray, labels: np.ndarray) -> Any:  # noqa: ANN401 - any classifier
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(max_iter=200, learning_rate=0.08, random_state=0).fit(features, labels)


def split(data: Rows, study: RowStudy, seed: int, tune: bool) -> tuple[Rows, np.ndarray, np.ndarray]:
    """What is private, shuffled, and what is not; and which of that is public, and which is for the test."""
    rng = np.random.default_rng(seed)
    if not tune:
        order, private = rng.permutation(len(data.others)), rng.permutation(len(data.private))
        own = Rows(data.private[private], data.private_labels[private], data.others, data.other_labels)
        return own, order[: study.public], order[study.public :]
    order = rng.permutation(len(data.private))
    apart = min(study.public + 4000, len(data.others))
    private, others = order[apart:], order[:apart]
    own = Rows(*(values[which] for which in (private, others) for values in (data.private, data.private_labels)))
    return own, np.arange(study.public), np.arange(study.public, apart)


def beside(own: Rows, votes: np.ndarray, public: np.ndarray, test: np.ndarray, study: RowStudy) -> dict[str, float]:
    """What there is to compare a student with."""
    counts = np.stack([(votes == one).sum(0) for one in range(study.classes)])
    bank = np.array_split(np.arange(len(own.private)), study.organisations)[0]
    best = logistic(30.0) if study.spread else boosted
    return {
        "a part alone": float((votes == own.other_labels[public]).mean()),
        "plurality": float((counts.argmax(0) == own.other_labels[public]).mean()),
        "an organisation alone": right(best(own.private[bank], own.private_labels[bank]), own, test),
        "pooled": right(best(own.private, own.private_labels), own, test),
    }


def right(model: Any, own: Rows, test: np.ndarray) -> float:  # noqa: ANN401 - any classifier
    return float((model.predict(own.others[test]) == own.other_labels[test]).mean())


def taught(
    shown: np.ndarray, votes: np.ndarray, study: RowStudy, questions: int, sigma: float, seed: int
) -> StudentClassifier:
    """A student of so many questions to the secure protocol, with its own noise."""
    from sklearn.linear_model import LogisticRegression

    import sedml
    from sedml.learn.few_labels import StudentClassifier

    terms = {"classes": study.classes, "sigma": sigma, "delta": DELTA}
    terms["threshold"] = max(round(study.consensus * len(votes)), study.votes + 1)
    estimator = LogisticRegression(C=study.strength, max_iter=1000)
    student = StudentClassifier(study.classes, estimator=estimator, spread=study.spread, seed=seed)
    return student.fit(shown, lambda chosen: sedml.aggregate(votes[:, chosen], **terms).labels, questions)


def rows(options: argparse.Namespace) -> None:
    from sedml.privacy.accounting import job_report
    from sedml.privacy.calibration import sigma_for

    for name in [one for one in options.only if one in ROW_STUDIES]:
        study = ROW_STUDIES[name]
        data, tested, abouts = load(options, study), [], {epsilon: [] for epsilon in study.questions}
        sigmas = {
            epsilon: sigma_for(asked, epsilon, DELTA, study.classes) for epsilon, asked in study.questions.items()
        }
        for seed in TUNED if options.tune else options.seeds:
            own, public, test = split(data, study, seed, options.tune)
            votes = part_votes(own, own.others[public], study)
            compared = beside(own, votes, public, test, study)
            for epsilon, questions in study.questions.items():
                student = taught(own.others[public], votes, study, questions, sigmas[epsilon], seed)
                known, truth = student.labels_ >= 0, own.other_labels[public][student.asked_]
                about = {"labels": float(known.sum()), "wrong": float((student.labels_ != truth)[known].sum())}
                tested.append({"epsilon": epsilon, "seed": seed, "test": right(student, own, test)})
                abouts[epsilon].append(about | compared)
                print(name, json.dumps(tested[-1] | about | compared), flush=True)
        lines = "".join(json.dumps(row) + "\n" for row in tested)
        (options.out / f"students-{name}.jsonl").write_text(lines, encoding="utf-8")
        for epsilon, questions in study.questions.items():
            privacy = job_report(questions, sigmas[epsilon], DELTA, classes=study.classes)
            about = {"epsilon": privacy.epsilon, "apart": privacy.epsilon_apart, "asked": questions}
            about |= {key: float(np.mean([one[key] for one in abouts[epsilon]])) for key in abouts[epsilon][0]}
            print(name, json.dumps(about), flush=True)
            np.savez_compressed(options.out / f"labels-{name}-{epsilon:g}.npz", about=json.dumps(about))
