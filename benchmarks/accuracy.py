"""How good a student is at which epsilon, on MNIST and on Fashion-MNIST: the table and the picture of docs/learning.md.

    PYTHONPATH=src python3 benchmarks/gpu_learning.py teachers --data-dir DATA/fashion-mnist --compare 0 \
        --variant "augmentation.rotation=8,augmentation.scale=0.1" --out accuracy/fashion-mnist --device cuda
    python benchmarks/accuracy.py all --data-dir DATA --out accuracy

`all` is `ask`, `choose`, `ask`, `students`, `table`: one by one where the GPU is on another machine.

`ask` plans the terms for each epsilon (`sedml privacy plan --objective student`) and gets labels from the secure
protocol with its own noise, out of the votes of 250 networks: those of `mnist_predictions` and those that the first
line trains on Fashion-MNIST. The first time it asks about 40 samples, chosen by their pixels; `choose` trains a network
on what came back and chooses the rest by its features; the second time it asks about those, under the same terms.
Nothing looks at the votes before: the planner is told that a teacher is right on 0.9 of MNIST and on 0.75 of
Fashion-MNIST, which anyone can find out with 240 images of one's own. `choose` and `students` want a GPU, and need only
torch and numpy there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sedml.learn.stacked import TrainedNetworks

PUBLIC = 9000
DELTA = 1e-5
TEACHERS = 250
AGREEMENT = {"mnist": 0.9, "fashion-mnist": 0.75}
SEEDS = {
    "mnist": {0.25: 2, 0.5: 10, 1.0: 10, 2.0: 2, 4.0: 2},
    "fashion-mnist": {0.25: 2, 0.5: 2, 1.0: 2, 2.0: 2, 4.0: 2},
}
"""How many students of each epsilon, with the seeds from FIRST on. MNIST's settings were chosen on seeds 0 and 1."""
FIRST = 30
FIRST_ROUND = 40
VIEWS = {
    "mnist": {
        "strong_view": {"rotation": 15.0, "scale": 0.15, "shear": 0.15, "shift": 0.1, "elastic": 0.05, "cutout": 0.25}
    },
    # Gentler, as clothes keep their shape; chosen because members agree more often so, which takes no labels to see.
    "fashion-mnist": {
        "labelled_view": {"rotation": 5.0, "scale": 0.1, "shift": 0.08},
        "strong_view": {
            "rotation": 8.0,
            "scale": 0.15,
            "shear": 0.08,
            "shift": 0.1,
            "cutout": 0.3,
            "contrast": 0.4,
            "brightness": 0.1,
        },
    },
}
MEMBERS = 3
AT_ONCE = 20
"""Students trained together."""


def idx(folder: Path, part: str) -> np.ndarray:
    from sedml.learn.idx import read_idx

    return read_idx(folder / f"t10k-{part}-ubyte.gz")


def stored(options: argparse.Namespace, name: str, epsilon: float) -> Path:
    """Labels int8[seeds, public] (-1: none), what they cost, and between the rounds what was asked and is to be."""
    return Path(options.out / f"labels-{name}-{epsilon:g}.npz")


def ask(options: argparse.Namespace) -> None:
    import sedml
    from sedml.learn.queries import choose_queries
    from sedml.privacy.accounting import job_report
    from sedml.privacy.planning import plan_job
    from sedml.privacy.utility import agreement_model

    for name in options.only:
        source = options.data_dir / "mnist_predictions" if name == "mnist" else options.out / name
        predictions = np.load(source / "predictions.npz")["predictions"]
        public = idx(options.data_dir / name, "images-idx3")[:PUBLIC]
        truth = idx(options.data_dir / name, "labels-idx1")[:PUBLIC]
        for epsilon, count in SEEDS[name].items():
            path = stored(options, name, epsilon)
            before = dict(np.load(path)) if path.is_file() else {}
            if before and "chosen" not in before:
                continue
            teachers = agreement_model(TEACHERS, 10, AGREEMENT[name])
            terms = plan_job(teachers, epsilon=epsilon, delta=DELTA, samples=2000, objective="student").chosen
            first = min(FIRST_ROUND, terms.asked)
            labels = before.get("labels", np.full((count, PUBLIC), -1, np.int8))
            seeds = range(FIRST, FIRST + count)
            asked = before.get("chosen", np.array([choose_queries(public, first, seed=seed) for seed in seeds]))
            for number, some in enumerate(asked):
                labels[number, some] = sedml.aggregate(
                    predictions[:, some],
                    classes=10,
                    threshold=terms.threshold,
                    sigma=terms.sigma,
                    delta=DELTA,
                ).labels
            # Both rounds are under the same terms, fixed before the first: together they cost what one job would.
            cost = job_report(terms.asked, terms.sigma, DELTA, classes=10)
            about = {
                "data": name,
                "epsilon": epsilon,
                "spent": cost.epsilon,
                "apart": cost.epsilon_apart,
                "terms": [terms.asked, terms.threshold, terms.sigma],
                "labels": (labels >= 0).sum(1).tolist(),
                "wrong": ((labels >= 0) & (labels != truth)).sum(1).tolist(),
            }
            print(json.dumps(about), flush=True)
            more = {} if before or first == terms.asked else {"asked": asked, "left": terms.asked - first}
            np.savez_compressed(path, labels=labels, about=json.dumps(about), **more)


Job = tuple[float, int, np.ndarray]
"""Epsilon, seed and labels [public] of a student."""


def trained(
    jobs: list[Job], public: np.ndarray, name: str, members: int, device: str
) -> Iterator[tuple[Job, TrainedNetworks]]:
    """Every job with its student, as they become ready: some are trained at once."""
    from sedml.learn.augment import Augmentation
    from sedml.learn.student_cnn import StudentConfig, train_students

    views = {view: Augmentation(**how) for view, how in VIEWS[name].items()}
    config = StudentConfig(members=members, steps=2500, unlabelled_batch=256, **views)
    start = time.perf_counter()
    for at in range(0, len(jobs), AT_ONCE):
        some = jobs[at : at + AT_ONCE]
        labelled = [(public[one >= 0], one[one >= 0].astype(np.int64)) for _, _, one in some]
        seeds = [seed for _, seed, _ in some]
        yield from zip(
            some,
            train_students(labelled, public, classes=10, seeds=seeds, config=config, device=device),
            strict=True,
        )
        print(f"{name}: {at + len(some)} of {len(jobs)} students, {time.perf_counter() - start:.0f} s", flush=True)


def choose(options: argparse.Namespace) -> None:
    from sedml.learn.queries import choose_queries
    from sedml.learn.student_cnn import features

    for name in options.only:
        public = idx(options.data_dir / name, "images-idx3")[:PUBLIC]
        found = {epsilon: dict(np.load(stored(options, name, epsilon))) for epsilon in SEEDS[name]}
        waiting = {epsilon: files for epsilon, files in found.items() if "left" in files}
        jobs = [
            (epsilon, FIRST + number, one)
            for epsilon, files in waiting.items()
            for number, one in enumerate(files["labels"])
        ]
        chosen: dict[float, list[np.ndarray]] = {epsilon: [] for epsilon in waiting}
        for (epsilon, seed, _), student in trained(jobs, public, name, 1, options.device):
            left, asked = int(waiting[epsilon]["left"]), waiting[epsilon]["asked"][seed - FIRST]
            chosen[epsilon].append(choose_queries(features(student, public), left, asked=asked, seed=seed))
        for epsilon, files in waiting.items():
            np.savez_compressed(stored(options, name, epsilon), **files, chosen=np.array(chosen[epsilon]))


def students(options: argparse.Namespace) -> None:
    from sedml.learn.student_cnn import predict

    for name in options.only:
        images, truth = (idx(options.data_dir / name, part) for part in ("images-idx3", "labels-idx1"))
        jobs = [
            (epsilon, FIRST + number, one)
            for epsilon in SEEDS[name]
            if not options.epsilon or epsilon in options.epsilon
            for number, one in enumerate(np.load(stored(options, name, epsilon))["labels"])
        ]
        with (options.out / f"students-{name}.jsonl").open("a", encoding="utf-8") as file:
            for (epsilon, seed, _), student in trained(jobs, images[:PUBLIC], name, MEMBERS, options.device):
                right = predict(student, images) == truth
                row = {"epsilon": epsilon, "seed": seed}
                row |= {"test": float(right[PUBLIC:].mean()), "public": float(right[:PUBLIC].mean())}
                print(name, json.dumps(row), flush=True)
                print(json.dumps(row), file=file, flush=True)


def table(options: argparse.Namespace) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    print("| data | epsilon | without an operator | asked | labels | wrong | students | on 1,000 | on the public |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, colour, words in (("mnist", "#1a7f4b", "MNIST"), ("fashion-mnist", "#2f6fb5", "Fashion-MNIST")):
        path = options.out / f"students-{name}.jsonl"
        if not path.is_file():
            continue
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        spent, means = [], []
        for epsilon in SEEDS[name]:
            found = [row for row in rows if row["epsilon"] == epsilon]
            if not found:
                continue
            about = json.loads(str(np.load(options.out / f"labels-{name}-{epsilon:g}.npz")["about"]))
            test, public = (100 * np.array([row[part] for row in found]) for part in ("test", "public"))
            mean_labels = np.mean(about["labels"])
            print(
                f"| {words} | {about['spent']:.3f} | {about['apart']:.3f} | "
                f"{about['terms'][0]} | {mean_labels:.0f} | {np.mean(about['wrong']):.1f} | {len(found)} | "
                f"{test.mean():.2f} % ({test.min():.1f} to {test.max():.1f}) | {public.mean():.2f} % |"
            )
            spent.append(about["spent"])
            means.append(test.mean())
            axes.plot([about["spent"]] * len(test), test, "o", color=colour, alpha=0.35, markersize=4)
            place = {"xytext": (5, -14), "textcoords": "offset points"}
            axes.annotate(f"{test.mean():.2f} %", (about["spent"], test.mean()), color=colour, fontsize=9, **place)
        axes.plot(spent, means, color=colour, linewidth=2, marker="o", markersize=5, label=words)
    axes.set_xscale("log")
    axes.set_xlim(0.22, 5.5)
    axes.set_xticks([0.25, 0.5, 1, 2, 4], ["0.25", "0.5", "1", "2", "4"])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("epsilon of the whole job at delta 1e-5: smaller is more private")
    axes.set_ylabel("images right, per cent")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(options.out / "accuracy.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["all", "ask", "choose", "students", "table"])
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("SEDML_DATA_DIR", "data")))
    parser.add_argument("--out", type=Path, default=Path("accuracy"))
    parser.add_argument("--only", nargs="+", choices=list(SEEDS), default=list(SEEDS), help="data sets")
    parser.add_argument("--epsilon", type=float, nargs="+", help="students of these only")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    steps = {"ask": [ask], "choose": [choose], "students": [students], "table": [table]}
    for step in steps.get(options.command, [ask, choose, ask, students, table]):
        step(options)


if __name__ == "__main__":
    main()
