"""How good a student is at which epsilon, on MNIST, Fashion-MNIST and chest X-rays: the table of docs/learning.md.

    python benchmarks/accuracy.py all --data-dir DATA --out accuracy

`all` is `teachers`, `see`, `ask`, `students`, `table`: one by one where the GPU is on another machine. All but `ask`
and `table` want the GPU, and need only torch and numpy there. `teachers` trains a network on every part of the
private data and keeps their votes on the public images (those of MNIST's 250 teachers are in `mnist_predictions`);
`see` learns features from the public images alone; `ask` plans the terms, chooses questions and gets their labels
from the secure protocol with its own noise, in two rounds under one set of terms; `students` trains and tests.
Nothing looks at votes or labels that were not paid for: the planner is told how often a teacher is right, which
anyone can find out with a few images of one's own.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sedml.learn.ensemble import EnsembleConfig

DELTA = 1e-5
SEEDS = range(200, 210)
"""Nobody tuned on these: settings were chosen on the seeds 0 to 4, with the same images."""
FIRST_ROUND = 2 / 3
MEMBERS, AT_ONCE = 3, 20
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
    """Who teaches what at which epsilons; `agreement` is how often a teacher is taken to be right."""

    title: str
    data: str
    epsilons: dict[float, float]
    """And the share of labels that must be right: a few wrong ones of a hundred outweigh what more labels bring."""
    organisations: int = 8
    votes: int = 31
    skewed: bool = False
    agreement: float = 0.9
    balanced: bool = True
    steps: int = 1500
    strong: dict[str, float] = field(default_factory=lambda: DIGITS)
    labelled: dict[str, float] = field(default_factory=lambda: HARDLY)
    contrast: dict[str, float] | None = None
    teacher: dict[str, float] = field(
        default_factory=lambda: {"rotation": 15.0, "scale": 0.15, "shear": 0.2, "shift": 0.08, "elastic": 0.03}
    )


CLOTHES: dict[str, Any] = {
    "strong": GENTLE,
    "labelled": SLIGHT,
    "contrast": GENTLE | {"scale": 0.2, "shift": 0.12},
    "teacher": {"rotation": 8.0, "scale": 0.1},
}
STUDIES = {
    "mnist": Study("MNIST, 250 teachers", "mnist", {0.5: 0.99, 1.0: 0.99}, organisations=250, votes=1, steps=2000),
    "mnist-even": Study("MNIST, 8 organisations x 31 votes, even", "mnist", {1.0: 0.99}),
    "mnist-skewed": Study(
        "MNIST, 8 organisations x 31 votes, skewed", "mnist", {1.0: 0.95}, skewed=True, agreement=0.7
    ),
    "fashion": Study(
        "Fashion-MNIST, 250 teachers",
        "fashion-mnist",
        {1.0: 0.97, 4.0: 0.97},
        organisations=250,
        votes=1,
        agreement=0.75,
        **CLOTHES,
    ),
    "xrays": Study(
        "PneumoniaMNIST, 8 hospitals x 31 votes",
        "pneumoniamnist",
        {1.0: 0.9},
        agreement=0.8,
        balanced=False,
        steps=800,
        **CLOTHES,
    ),
}


@dataclass(frozen=True)
class Images:
    """What is private, what is public, and what the student is tested on."""

    private: np.ndarray
    private_labels: np.ndarray
    public: np.ndarray
    public_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def load(options: argparse.Namespace, data: str) -> Images:
    if data == "pneumoniamnist":
        found = np.load(options.data_dir / data / f"{data}.npz")
        images = np.concatenate([found["train_images"], found["val_images"]])
        labels = np.concatenate([found["train_labels"], found["val_labels"]]).ravel().astype(np.int64)
        order = np.random.default_rng(0).permutation(len(labels))
        public, private = order[:1200], order[1200:]
        tests = found["test_images"], found["test_labels"].ravel().astype(np.int64)
        return Images(images[private], labels[private], images[public], labels[public], *tests)
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


def teachers(options: argparse.Namespace) -> None:
    from sedml.learn.augment import Augmentation
    from sedml.learn.ensemble import EnsembleConfig

    for name in options.only:
        study, data = STUDIES[name], load(options, STUDIES[name].data)
        labels, classes = data.private_labels, int(data.private_labels.max()) + 1
        held = sites(labels, study, 7)
        parts = [part for own in held for part in np.array_split(own, study.votes)]
        look = Augmentation(**study.teacher)
        few = EnsembleConfig("medium", 600, 32, 2e-3, look)
        many = EnsembleConfig("deep", 3000, 64, 2e-3, look)
        start = time.perf_counter()

        own = {"data": data, "study": study, "device": options.device}
        both = np.concatenate([data.public, data.test])
        votes = says(few, parts, both, **own)
        counts = np.stack([(votes == one).sum(0) for one in range(classes)])
        truth = np.concatenate([data.public_labels, data.test_labels])
        tested = slice(len(data.public), None)
        about = {
            "a part alone": (votes == truth)[:, tested].mean(),
            "plurality": (counts.argmax(0) == truth)[tested].mean(),
        }
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

    for data in dict.fromkeys(STUDIES[name].data for name in options.only):
        study = next(one for one in STUDIES.values() if one.data == data)
        public, start = load(options, data).public, time.perf_counter()
        config = ContrastConfig() if study.contrast is None else ContrastConfig(view=Augmentation(**study.contrast))
        networks = learn_features(public, seeds=list(options.seeds), config=config, device=options.device)
        seen = features(networks, public).reshape(len(public), len(options.seeds), -1).astype(np.float16)
        print(data, f"features of {len(options.seeds)} seeds, {time.perf_counter() - start:.0f} s", flush=True)
        for part in range(0, len(options.seeds), 3):  # files small enough to carry about
            some = dict(
                zip(map(str, options.seeds[part : part + 3]), seen[:, part : part + 3].transpose(1, 0, 2), strict=True)
            )
            np.savez(options.out / f"features-{data}-{part // 3}.npz", **some)


def ask(options: argparse.Namespace) -> None:
    import sedml
    from sedml.learn.queries import Questions
    from sedml.privacy.planning import plan_job
    from sedml.privacy.utility import agreement_model

    for name in options.only:
        study, data = STUDIES[name], load(options, STUDIES[name].data)
        source = (
            options.data_dir / "mnist_predictions" / "predictions.npz"
            if name == "mnist"
            else options.out / f"votes-{name}.npz"
        )
        predictions = np.load(source)["predictions"][:, : len(data.public)]
        classes = int(data.public_labels.max()) + 1
        files = sorted(options.out.glob(f"features-{study.data}-*.npz"))
        seen = {int(key): value for path in files for key, value in np.load(path).items()}
        for epsilon, right in study.epsilons.items():
            teachers = agreement_model(len(predictions), classes, study.agreement)
            plan = plan_job(
                teachers,
                epsilon=epsilon,
                delta=DELTA,
                samples=len(data.public),
                objective="student",
                min_accuracy=right,
            )
            terms, rows = plan.chosen, []
            first = round(FIRST_ROUND * terms.asked)
            for seed in options.seeds:
                questions = Questions(seen[seed].astype(np.float32), classes, seed=seed)
                # Both rounds are under the terms that were fixed before the first: together they cost one job.
                for count in (first, terms.asked - first):
                    chosen = questions.choose(count)
                    answer = sedml.aggregate(
                        predictions[:, chosen],
                        classes=classes,
                        threshold=terms.threshold,
                        sigma=terms.sigma,
                        delta=DELTA,
                    )
                    questions.told(chosen, answer.labels)
                rows.append((questions.asked, questions.labels, questions.shares()))
            asked, labels, shares = (np.array(column) for column in zip(*rows, strict=True))
            wrong = ((labels >= 0) & (labels != data.public_labels[asked])).sum(1)
            about = {
                "epsilon": plan.privacy.epsilon, "apart": plan.privacy.epsilon_apart, "asked": terms.asked,
                "threshold": terms.threshold, "sigma": terms.sigma,
                "labels": float((labels >= 0).sum(1).mean()), "wrong": float(wrong.mean()),
                "classes": float(np.mean([len(set(own[own >= 0])) for own in labels])),
            }  # fmt: skip
            print(name, json.dumps(about), flush=True)
            np.savez_compressed(
                options.out / f"labels-{name}-{epsilon:g}.npz",
                asked=asked,
                labels=labels,
                shares=shares,
                about=json.dumps(about),
            )


def students(options: argparse.Namespace) -> None:
    from sedml.learn.augment import Augmentation
    from sedml.learn.student_cnn import StudentConfig, predict, train_students

    for name in options.only:
        study, data = STUDIES[name], load(options, STUDIES[name].data)
        classes, jobs = int(data.public_labels.max()) + 1, []
        for epsilon in study.epsilons:
            files = np.load(options.out / f"labels-{name}-{epsilon:g}.npz")
            for seed, asked, labels, shares in zip(
                options.seeds, files["asked"], files["labels"], files["shares"], strict=True
            ):
                jobs.append((epsilon, seed, asked[labels >= 0], labels[labels >= 0], shares))
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
                    [(data.public[asked], labels) for _, _, asked, labels, _ in some], data.public, classes=classes,
                    seeds=[seed for _, seed, *_ in some], config=config, device=options.device,
                    shares=None if study.balanced else np.array([shares for *_, shares in some]),
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


def table(options: argparse.Namespace) -> None:
    print(
        "| data | epsilon | asked | labels | wrong | seeds | student, mean (range) | a part, plurality, alone, pooled |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in options.only:
        lines = (options.out / f"students-{name}.jsonl").read_text(encoding="utf-8").splitlines()
        votes = options.out / f"votes-{name}.npz"
        beside = json.loads(str(np.load(votes)["about"])) if votes.is_file() else {}
        for epsilon in STUDIES[name].epsilons:
            rows = [row for row in map(json.loads, lines) if row["epsilon"] == epsilon]
            test = 100 * np.array([row["test"] for row in rows])
            about = json.loads(str(np.load(options.out / f"labels-{name}-{epsilon:g}.npz")["about"]))
            keys = ("a part alone", "plurality", "an organisation alone", "pooled")
            others = ", ".join(f"{100 * beside[key]:.1f}" if key in beside else "-" for key in keys)
            print(
                f"| {STUDIES[name].title} | {about['epsilon']:.3f} | {about['asked']} | {about['labels']:.0f} | "
                f"{about['wrong']:.1f} | {rows[0]['seed']} to {rows[-1]['seed']} | "
                f"{test.mean():.2f} % ({test.min():.1f} to {test.max():.1f}) | {others} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["all", "teachers", "see", "ask", "students", "table"])
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("SEDML_DATA_DIR", "data")))
    parser.add_argument("--out", type=Path, default=Path("accuracy"))
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    steps = {"teachers": teachers, "see": see, "ask": ask, "students": students, "table": table}
    for step in steps.values() if options.command == "all" else [steps[options.command]]:
        step(options)


if __name__ == "__main__":
    main()
