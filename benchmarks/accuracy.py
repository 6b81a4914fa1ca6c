"""Accuracy against epsilon, on images, texts and a table of people: the table of docs/explanation/learning.md.

    python benchmarks/accuracy.py all --data-dir DATA --out accuracy

`all` is `teachers`, `see`, `ask`, `students`, `embed`, `rows`, `table`: one by one where the GPU is on another
machine. `teachers`, `see` and `students` want the GPU, and need only torch and numpy there; `embed` needs
sentence-transformers. `teachers` trains a network on every part of the private data and keeps their votes on the public
images (those of MNIST's 250 teachers are in `mnist_predictions`); `see` learns features from the public images alone;
`ask` chooses questions and gets their labels from the secure protocol with its own noise, in two rounds under the same
terms; `students` trains and tests. Where a study has `heads`, teachers and student are classifiers on the features that
`see` learned and on those of `patches`, and `ask` does it all; the requester is then a clinic of other patients, whose
images are split anew for each seed. `embed` and `rows` are for texts and tables, see `accuracy_rows.py`.
Nothing looks at votes or labels that were not paid for. How many questions are asked was chosen on other images: the
last 10,000 of the training images of MNIST and Fashion-MNIST, with teachers on the other 50,000, seeds 0 to 3, and
training X-rays alone (`--tune`), seeds 0 and 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from accuracy_rows import ROW_STUDIES, embed, rows

if TYPE_CHECKING:
    from sedml.learn.ensemble import EnsembleConfig
    from sedml.learn.queries import Questions

DELTA = 1e-5
SEEDS = range(300, 310)
"""Nobody tuned on these."""
MEMBERS, AT_ONCE = 3, 20
DIRECTIONS = 64
OPEN, CLINIC = 1200, 424
"""X-rays that are public: of the training set, for features alone, and of the requester's clinic, to ask about."""
POOLED = 3
"""How often a network is trained on all X-rays."""
NETWORKS, SEEN = 4, 192
"""How many networks learn the features of X-rays, and how many directions of theirs are kept."""
PATCH, PATCHES = 6, 200
DIGITS = {"rotation": 15.0, "scale": 0.15, "shear": 0.15, "shift": 0.1, "elastic": 0.05, "cutout": 0.25}
# Gentler, as clothes and lungs keep their shape.
GENTLE = {
    "rotation": 8.0,
    "scale": 0.15,
    "shear": 0.08,
    "shift": 0.1,
    "cutout": 0.3,
    "contrast": 0.4,
    "brightness": 0.1,
}
HARDLY = {"rotation": 10.0, "scale": 0.1, "shear": 0.1, "shift": 0.08, "elastic": 0.03}
SLIGHT = {"rotation": 5.0, "scale": 0.1, "shift": 0.08}


@dataclass(frozen=True)
class Study:
    """Who teaches what, and how many questions are asked at which epsilon: few, so that the noise is small."""

    title: str
    data: str
    questions: dict[float, int]
    consensus: float = 0.6
    """The share of the votes that a label takes."""
    organisations: int = 8
    votes: int = 31
    skewed: bool = False
    heads: bool = False
    steps: int = 2000
    strong: dict[str, float] = field(default_factory=lambda: DIGITS)
    labelled: dict[str, float] = field(default_factory=lambda: HARDLY)
    contrast: dict[str, Any] = field(default_factory=dict)
    teacher: dict[str, float] = field(
        default_factory=lambda: {"rotation": 15.0, "scale": 0.15, "shear": 0.2, "shift": 0.08, "elastic": 0.03}
    )


STUDIES = {
    "mnist": Study("MNIST, 250 teachers", "mnist", {0.5: 20, 1.0: 40}, organisations=250, votes=1, steps=3000),
    "mnist-even": Study("MNIST, 8 organisations x 31 votes, even", "mnist", {1.0: 40}),
    "mnist-skewed": Study("MNIST, 8 organisations x 31 votes, skewed", "mnist", {1.0: 40}, consensus=0.45, skewed=True),
    "fashion": Study(
        "Fashion-MNIST, 250 teachers",
        "fashion-mnist",
        {1.0: 80, 4.0: 800},
        consensus=0.55,
        organisations=250,
        votes=1,
        steps=1500,
        strong=GENTLE,
        labelled=SLIGHT,
        contrast=GENTLE | {"scale": 0.2, "shift": 0.12, "contrast": 0.7, "brightness": 0.3},
        teacher={"rotation": 8.0, "scale": 0.1},
    ),
    "xrays": Study(
        "PneumoniaMNIST, 8 hospitals x 31 votes",
        "pneumoniamnist",
        {1.0: 80},
        consensus=0.5,
        heads=True,
        contrast={"rotation": 10.0, "scale": 0.25, "shear": 0.1, "shift": 0.15, "elastic": 0.03, "cutout": 0.4}
        | {"contrast": 0.6, "brightness": 0.2},
        teacher={"rotation": 8.0, "scale": 0.1},
    ),
}


KINDS = "images", "labels"


@dataclass(frozen=True)
class Images:
    """What is private, what is public, and what the student is tested on."""

    private: np.ndarray
    private_labels: np.ndarray
    public: np.ndarray
    public_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def clinic(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the requester's own images are public, and which the student is tested on."""
    order = np.random.default_rng(seed).permutation(count)
    return order[:CLINIC], order[CLINIC:]


def xrays(options: argparse.Namespace, seed: int) -> Images:
    """The clinic is the official test set, or to tune, training images, as many of them healthy; it comes first."""
    found = np.load(options.data_dir / "pneumoniamnist" / "pneumoniamnist.npz")
    images, labels = (np.concatenate([found[f"{part}_{what}"] for part in ("train", "val")]) for what in KINDS)
    labels = labels.ravel().astype(np.int64)
    order = np.random.default_rng(seed if options.tune else 0).permutation(len(labels))
    if options.tune:
        whole = CLINIC + 400
        ill, well = (order[labels[order] == one] for one in (1, 0))
        chosen = np.concatenate([ill[: round(0.625 * whole)], well[: whole - round(0.625 * whole)]])
        others, theirs, order = images[chosen], labels[chosen], np.setdiff1d(order, chosen, assume_unique=True)
    else:
        others, theirs = found["test_images"], found["test_labels"].ravel().astype(np.int64)
    own, test = clinic(seed, len(theirs))
    shown, private = order[:OPEN], order[OPEN:]
    public = [np.concatenate([mine[own], more[shown]]) for mine, more in ((others, images), (theirs, labels))]
    return Images(images[private], labels[private], *public, others[test], theirs[test])


def load(options: argparse.Namespace, data: str, seed: int = 0) -> Images:
    if data == "pneumoniamnist":
        return xrays(options, seed)
    from sedml.learn.idx import read_idx

    def part(name: str) -> tuple[np.ndarray, np.ndarray]:
        images, labels = (
            read_idx(options.data_dir / data / f"{name}-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")
        )
        return images, labels.astype(np.int64)

    images, labels = part("t10k")
    private = (
        part("train")
        if (options.data_dir / data / "train-images-idx3-ubyte.gz").is_file()
        else (images[:0], labels[:0])
    )
    return Images(*private, images[:9000], labels[:9000], images[9000:], labels[9000:])


def pictured(options: argparse.Namespace) -> list[str]:
    """The studies that are about images."""
    return [name for name in options.only if name in STUDIES]


def sites(labels: np.ndarray, study: Study, seed: int) -> list[np.ndarray]:
    """The private samples of each organisation: even, or of sizes by a power law and classes by Dirichlet 0.3."""
    rng = np.random.default_rng(seed)
    if not study.skewed:
        return np.array_split(rng.permutation(len(labels)), study.organisations)
    count, classes = study.organisations, int(labels.max()) + 1
    weights = rng.dirichlet(np.full(classes, 0.3), count) / np.arange(1, count + 1)[:, None]
    owner = np.empty(len(labels), np.int64)
    for one in range(classes):
        own = np.flatnonzero(labels == one)
        owner[own] = rng.choice(count, len(own), p=weights[:, one] / weights[:, one].sum())
    return [rng.permutation(np.flatnonzero(owner == site)) for site in range(count)]


def evenly(part: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """A part in which every class that it has comes up equally often, so that a model forgets how frequent they are."""
    own = [part[labels[part] == one] for one in np.unique(labels[part])]
    return np.concatenate([np.resize(members, max(map(len, own))) for members in own])


def says(
    config: EnsembleConfig, shards: list[np.ndarray], images: np.ndarray, *, data: Images, study: Study, device: str
) -> np.ndarray:
    """What a network trained on each shard says of images, [shards, images]."""
    from sedml.learn.ensemble import predict, train_ensemble

    labels = data.private_labels
    shards = [evenly(own, labels) for own in shards] if study.skewed else shards
    common = {"classes": int(labels.max()) + 1, "config": config, "seed": 1, "device": device}
    return predict(train_ensemble(data.private, labels, shards=shards, **common), images)


def beside(votes: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """How good the model of one part is on test images, and the plurality of all of them without noise."""
    counts = np.stack([(votes == one).sum(0) for one in range(int(truth.max()) + 1)])
    return {
        "a part alone": float((votes == truth).mean()),
        "plurality": float((counts.argmax(0) == truth).mean()),
    }


def teachers(options: argparse.Namespace) -> None:
    from sedml.learn.augment import Augmentation
    from sedml.learn.ensemble import EnsembleConfig

    for name in pictured(options):
        study, data = STUDIES[name], load(options, STUDIES[name].data)
        labels = data.private_labels
        held = sites(labels, study, 7)
        parts = [part for own in held for part in np.array_split(own, study.votes)]
        look = Augmentation(**study.teacher)
        few = EnsembleConfig("medium", 600, 32, 2e-3, look)
        many = EnsembleConfig("deep", 3000, 64, 2e-3, look)
        start = time.perf_counter()

        own = {"data": data, "study": study, "device": options.device}
        if study.heads:  # what networks of each hospital and of all data say of the whole clinic, for `ask` to compare
            found = np.load(options.data_dir / study.data / f"{study.data}.npz")["test_images"]
            everything = [np.arange(len(labels))] * POOLED
            alone, pooled = (says(many, own_parts, found, **own) for own_parts in (held, everything))
            np.savez_compressed(options.out / f"beside-{name}.npz", alone=alone, pooled=pooled)
            continue
        votes = says(few, parts, np.concatenate([data.public, data.test]), **own)
        about = beside(votes[:, len(data.public) :], data.test_labels)
        if study.votes > 1:
            about["an organisation alone"] = (says(many, held, data.test, **own) == data.test_labels).mean()
        about["pooled"] = (says(many, [np.arange(len(labels))], data.test, **own) == data.test_labels).mean()
        about = {key: float(value) for key, value in about.items()} | {"sizes": [len(own) for own in held]}
        print(name, json.dumps(about), f"{time.perf_counter() - start:.0f} s", flush=True)
        np.savez_compressed(options.out / f"votes-{name}.npz", predictions=votes, about=json.dumps(about))


def see(options: argparse.Namespace) -> None:
    from sedml.learn.augment import Augmentation
    from sedml.learn.contrast import ContrastConfig, learn_features
    from sedml.learn.student_cnn import features

    for data in dict.fromkeys(STUDIES[name].data for name in pictured(options)):
        study = next(one for one in STUDIES.values() if one.data == data)
        start = time.perf_counter()
        config = ContrastConfig(view=Augmentation(**study.contrast)) if study.contrast else ContrastConfig()
        common = {"config": config, "device": options.device}
        if study.heads:
            seen = []
            for seed in options.seeds:
                images = load(options, data, seed)
                networks = learn_features(images.public, seeds=[NETWORKS * seed + k for k in range(NETWORKS)], **common)
                shown = np.concatenate([images.public, images.private, images.test])
                seen.append(turned(features(networks, shown), len(images.public)))
        else:
            images = load(options, data)
            networks = learn_features(images.public, seeds=list(options.seeds), **common)
            rows = features(networks, images.public).reshape(len(images.public), len(options.seeds), -1)
            # Their angles are all that matters, and hardly need more directions than these.
            seen = [own @ np.linalg.svd(own, full_matrices=False)[2][:DIRECTIONS].T for own in rows.transpose(1, 0, 2)]
        print(data, f"features of {len(options.seeds)} seeds, {time.perf_counter() - start:.0f} s", flush=True)
        for part in range((len(options.seeds) + 4) // 5):  # files small enough to carry about
            some = {str(seed): seen[at].astype(np.float16) for at, seed in enumerate(options.seeds) if at // 5 == part}
            np.savez(options.out / f"features-{data}-{part}.npz", **some)


def turned(features: np.ndarray, public: int) -> np.ndarray:
    """Features on the scale of the public images, in the directions in which these differ most; of length 16."""
    rows = (features - features[:public].mean(0)) / np.maximum(features[:public].std(0), 1e-6)
    rows = rows @ np.linalg.svd(rows[:public], full_matrices=False)[2][:SEEN].T
    return rows * (16 / np.sqrt((rows[:public] ** 2).sum(1).mean()))


def patches(images: np.ndarray, public: int) -> np.ndarray:
    """How much small patches of each ninth of an image are like those that are typical of public images.

    K-means features as of Coates, Lee and Ng (2011): patches are whitened, and likeness is what is above the average.
    """
    from numpy.lib.stride_tricks import sliding_window_view
    from sklearn.cluster import MiniBatchKMeans

    def cut(some: np.ndarray) -> np.ndarray:
        own = sliding_window_view(some.astype(np.float32) / 255, (PATCH, PATCH), (1, 2))
        own = own.reshape(*own.shape[:3], -1)
        return (own - own.mean(-1, keepdims=True)) / np.sqrt(own.var(-1, keepdims=True) + 1e-3)

    sample = cut(images[:public]).reshape(-1, PATCH * PATCH)
    sample = sample[np.random.default_rng(0).choice(len(sample), 60_000, replace=False)]
    middle, (values, vectors) = sample.mean(0), np.linalg.eigh(np.cov(sample.T))
    whiten = (vectors / np.sqrt(values + 0.1) @ vectors.T).astype(np.float32)
    typical = MiniBatchKMeans(PATCHES, random_state=0, n_init=1, max_iter=20).fit((sample - middle) @ whiten)
    centres, rows = typical.cluster_centers_.astype(np.float32), []
    for start in range(0, len(images), 200):
        own = (cut(images[start : start + 200]) - middle) @ whiten
        squares = (own**2).sum(-1, keepdims=True) + (centres**2).sum(1) - 2 * own @ centres.T
        far = np.sqrt(np.maximum(squares, 0))
        like = np.maximum(far.mean(-1, keepdims=True) - far, 0)
        thirds = np.array_split(np.arange(like.shape[1]), 3)
        ninths = [like[:, down][:, :, across] for down in thirds for across in thirds]
        rows.append(np.concatenate([ninth.mean((1, 2)) for ninth in ninths], 1))
    return np.concatenate(rows)


def ask(options: argparse.Namespace) -> None:
    from sedml.privacy.accounting import job_report
    from sedml.privacy.calibration import sigma_for

    for name in pictured(options):
        study, data = STUDIES[name], load(options, STUDIES[name].data)
        classes = int(data.public_labels.max()) + 1
        files = sorted(options.out.glob(f"features-{study.data}-*.npz"))
        seen = {int(key): value for path in files for key, value in np.load(path).items()}
        for epsilon, questions in study.questions.items():
            sigma = sigma_for(questions, epsilon, DELTA, classes)
            privacy = job_report(questions, sigma, DELTA, classes=classes)
            rows, tested, parts = [], [], []
            for seed in options.seeds:
                own, looks = seen[seed].astype(np.float32), len(data.public)
                if study.heads:
                    data, looks = load(options, study.data, seed), CLINIC
                    own = joined(own, data)
                votes = predictions(options, name, data, own, seed)
                choice = answered(own[:looks], votes[:, :looks], study, classes, (questions, sigma), seed)
                rows.append((choice.asked, choice.labels, data.public_labels[choice.asked]))
                if study.heads:
                    parts.append(beside(votes[:, looks:], data.test_labels) | apart(options, name, seed))
                    tested.append({"epsilon": epsilon, "seed": seed, "test": headed(own, choice, data)})
                    print(name, json.dumps(tested[-1] | parts[-1]), flush=True)
            asked, labels, truth = (np.array(column) for column in zip(*rows, strict=True))
            wrong = ((labels >= 0) & (labels != truth)).sum(1)
            about = {
                "epsilon": privacy.epsilon, "apart": privacy.epsilon_apart, "asked": questions, "sigma": sigma,
                "labels": float((labels >= 0).sum(1).mean()), "wrong": float(wrong.mean()),
                "classes": float(np.mean([len(set(own[own >= 0])) for own in labels])),
            }  # fmt: skip
            about |= {key: float(np.mean([own[key] for own in parts])) for key in (parts[0] if parts else ())}
            print(name, json.dumps(about), flush=True)
            kept = {"asked": asked, "labels": labels, "about": json.dumps(about)}
            np.savez_compressed(options.out / f"labels-{name}-{epsilon:g}.npz", **kept)
            if study.heads:
                lines = "".join(json.dumps(row) + "\n" for row in tested)
                (options.out / f"students-{name}.jsonl").write_text(lines, encoding="utf-8")


def predictions(options: argparse.Namespace, name: str, data: Images, seen: np.ndarray, seed: int) -> np.ndarray:
    """The votes on public and, but for MNIST's 250 teachers, test images [votes, images]; 255 for none."""
    study = STUDIES[name]
    if not study.heads:
        kept = options.out / f"votes-{name}.npz"
        source = options.data_dir / "mnist_predictions" / "predictions.npz" if name == "mnist" else kept
        return np.load(source)["predictions"]
    shown, private = shown_and_private(seen, data)
    votes = np.full((study.organisations * study.votes, len(shown)), 255, np.uint8)
    held = sites(data.private_labels, study, seed)
    for vote, part in zip(votes, [part for own in held for part in np.array_split(own, study.votes)], strict=True):
        if len(set(data.private_labels[part])) > 1:  # the model of a part of one class would have nothing to say
            vote[:] = head(private[part], data.private_labels[part]).predict(shown)
    return votes


def shown_and_private(seen: np.ndarray, data: Images) -> tuple[np.ndarray, np.ndarray]:
    """Features of the clinic's images, public ones and then those of the test; and of the private images."""
    public = len(data.public)
    private, test = np.split(seen[public:], [len(data.private)])
    return np.concatenate([seen[:CLINIC], test]), private


def joined(seen: np.ndarray, data: Images) -> np.ndarray:
    """Features that networks learned beside those of patches, of equal weight."""
    every, public = np.concatenate([data.public, data.private, data.test]), len(data.public)
    return np.concatenate([seen, turned(patches(every, public), public)], 1) / np.float32(np.sqrt(2))


def head(rows: np.ndarray, labels: np.ndarray) -> Any:  # noqa: ANN401 - any classifier
    """A classifier on features, to which all classes are equally frequent: they are not so in the next clinic."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=0.03, class_weight="balanced", max_iter=1000).fit(rows, labels)


def headed(seen: np.ndarray, choice: Questions, data: Images) -> float:
    """How often a classifier is right that has learned from the labels, on features."""
    known = choice.labels >= 0
    model = head(seen[choice.asked[known]], choice.labels[known])
    return float((model.predict(seen[-len(data.test) :]) == data.test_labels).mean())


def apart(options: argparse.Namespace, name: str, seed: int) -> dict[str, float]:
    """How good the networks of single hospitals and of all data are on the test images of this seed."""
    if options.tune:
        return {}
    truth = np.load(options.data_dir / STUDIES[name].data / f"{STUDIES[name].data}.npz")["test_labels"].ravel()
    test = clinic(seed, len(truth))[1]
    found = np.load(options.out / f"beside-{name}.npz")
    named = {"an organisation alone": "alone", "pooled": "pooled"}
    return {key: float((found[part] == truth)[:, test].mean()) for key, part in named.items()}


def answered(
    seen: np.ndarray, votes: np.ndarray, study: Study, classes: int, terms: tuple[int, float], seed: int
) -> Questions:
    """Questions and the labels that came back, in two rounds under the same terms: together they cost one job."""
    import sedml
    from sedml.learn.few_labels import first_round
    from sedml.learn.queries import Questions

    questions, sigma = terms
    choice = Questions(seen, classes, seed=seed)
    first = first_round(questions, classes)
    for count in (first, questions - first):
        chosen = choice.choose(count)
        own = votes[:, chosen].astype(np.int64)
        own[own >= classes] = -1
        threshold = max(round(study.consensus * len(votes)), study.votes + 1)
        answer = sedml.aggregate(own, classes=classes, threshold=threshold, sigma=sigma, delta=DELTA)
        choice.told(chosen, answer.labels)
    return choice


def students(options: argparse.Namespace) -> None:
    from sedml.learn.augment import Augmentation
    from sedml.learn.student_cnn import StudentConfig, predict, train_students

    for name in pictured(options):
        study, data = STUDIES[name], load(options, STUDIES[name].data)
        if study.heads:
            continue
        classes, jobs = int(data.public_labels.max()) + 1, []
        for epsilon in study.questions:
            files = np.load(options.out / f"labels-{name}-{epsilon:g}.npz")
            for seed, asked, labels in zip(options.seeds, files["asked"], files["labels"], strict=True):
                jobs.append((epsilon, seed, asked[labels >= 0], labels[labels >= 0]))
        views = {"strong_view": study.strong, "labelled_view": study.labelled}
        config = StudentConfig(
            members=MEMBERS,
            steps=study.steps,
            unlabelled_batch=256,
            **{key: Augmentation(**how) for key, how in views.items()},
        )
        start = time.perf_counter()
        with (options.out / f"students-{name}.jsonl").open("w", encoding="utf-8") as file:
            for at in range(0, len(jobs), AT_ONCE):
                some = jobs[at : at + AT_ONCE]
                made = train_students(
                    [(data.public[asked], labels) for _, _, asked, labels in some], data.public, classes=classes,
                    seeds=[seed for _, seed, *_ in some], config=config, device=options.device,
                )  # fmt: skip
                for (epsilon, seed, *_), student in zip(some, made, strict=True):
                    test, public = (
                        predict(student, data.test) == data.test_labels,
                        predict(student, data.public) == data.public_labels,
                    )
                    row = {"epsilon": epsilon, "seed": seed, "test": float(test.mean()), "public": float(public.mean())}
                    print(name, json.dumps(row), flush=True)
                    print(json.dumps(row), file=file, flush=True)
                print(
                    f"{name}: {at + len(some)} of {len(jobs)} students, {time.perf_counter() - start:.0f} s", flush=True
                )


COLUMNS = ("data", "epsilon", "asked", "labels", "wrong", "seeds", "student", "lowest", "highest")
BESIDE = ("a part alone", "plurality", "an organisation alone", "pooled")


def table(options: argparse.Namespace) -> None:
    """Put the rows of what was measured here into the table, in place of those it has of the same data."""
    with options.table.open(encoding="utf-8", newline="") as file:
        kept = {(row["data"], float(row["epsilon"])): row for row in csv.DictReader(file)}
    for name in options.only:
        lines = (options.out / f"students-{name}.jsonl").read_text(encoding="utf-8").splitlines()
        votes = options.out / f"votes-{name}.npz"
        compared = json.loads(str(np.load(votes)["about"])) if votes.is_file() else {}
        study = STUDIES[name] if name in STUDIES else ROW_STUDIES[name]
        for epsilon in study.questions:
            found = [row for row in map(json.loads, lines) if row["epsilon"] == epsilon]
            test = 100 * np.array([row["test"] for row in found])
            about = compared | json.loads(str(np.load(options.out / f"labels-{name}-{epsilon:g}.npz")["about"]))
            figures = (
                study.title, f"{epsilon:g}", about["asked"], f"{about['labels']:.0f}", f"{about['wrong']:.1f}",
                f"{found[0]['seed']} to {found[-1]['seed']}", f"{test.mean():.2f}", f"{test.min():.1f}",
                f"{test.max():.1f}", *(f"{100 * about[key]:.1f}" if key in about else "" for key in BESIDE),
            )  # fmt: skip
            kept[study.title, epsilon] = dict(zip((*COLUMNS, *BESIDE), figures, strict=True))
    with options.table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, (*COLUMNS, *BESIDE), lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept.values())
    draw(list(kept.values()), options.table.with_suffix(".png"))
    for row in kept.values():
        print("| " + " | ".join(map(str, row.values())) + " |")


def draw(rows: list[dict[str, str]], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 0.42 * len(rows) + 1.2), layout="constrained")
    for place, row in enumerate(rows):
        mean, low, high = (float(row[key]) for key in ("student", "lowest", "highest"))
        said = {"label": "student: mean and range of ten"} if not place else {}
        axes.plot([low, high], [place, place], color="#1f6fb4", linewidth=5, alpha=0.4, solid_capstyle="round")
        axes.plot(mean, place, "o", color="#1f6fb4", markersize=7, **said)
        alone = row["an organisation alone"] or row["a part alone"]
        said = {"label": "one party alone"} if not place else {}
        axes.plot(float(alone), place, "x", color="#b0521a", markersize=8, markeredgewidth=2, **said)
        said = {"label": "all data pooled, no privacy"} if not place else {}
        axes.plot(float(row["pooled"]), place, "|", color="#333333", markersize=15, markeredgewidth=2.5, **said)
    axes.set_yticks(range(len(rows)), [f"{row['data']}, epsilon {row['epsilon']}" for row in rows])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel("correct on test samples, %")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = {"teachers": teachers, "see": see, "ask": ask, "students": students, "embed": embed, "rows": rows}
    steps["table"] = table
    studies = [*STUDIES, *ROW_STUDIES]
    parser.add_argument("command", choices=["all", *steps])
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("SEDML_DATA_DIR", "data")))
    parser.add_argument("--out", type=Path, default=Path("accuracy"))
    parser.add_argument("--only", nargs="+", choices=studies, default=studies)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--text-model", default="sentence-transformers/all-MiniLM-L6-v2", help="a name or a folder")
    parser.add_argument("--table", type=Path, default=Path("docs/accuracy.csv"), help="which `table` writes and draws")
    parser.add_argument(
        "--tune", action="store_true", help="`rows` and X-rays on training data only, as settings were chosen"
    )
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for step in steps.values() if options.command == "all" else [steps[options.command]]:
        step(options)


if __name__ == "__main__":
    main()
