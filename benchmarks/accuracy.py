"""How good a student is at which epsilon, on MNIST and on Fashion-MNIST: the table and the picture of docs/learning.md.

    PYTHONPATH=src python3 benchmarks/gpu_learning.py teachers --data-dir DATA/fashion-mnist --compare 0 \
        --variant "augmentation.rotation=8,augmentation.scale=0.1" --out accuracy/fashion-mnist --device cuda
    python benchmarks/accuracy.py labels --data-dir DATA --out accuracy
    PYTHONPATH=src python3 benchmarks/accuracy.py students --data-dir DATA --out accuracy --device cuda
    python benchmarks/accuracy.py table --out accuracy

`labels` plans the terms for each epsilon (`sedml privacy plan --objective student`), chooses the queries, and gets
their labels from the secure protocol with its own noise, out of the votes of 250 networks: those of `mnist_predictions`
and those that the first line trains on Fashion-MNIST. Nothing looks at the votes before: the planner is told that a
teacher is right on 0.9 of MNIST and on 0.75 of Fashion-MNIST, which anyone can find out with 240 images of one's own.
`students` wants a GPU, and needs only torch and numpy there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np

PUBLIC = 9000
DELTA = 1e-5
TEACHERS = 250
AGREEMENT = {"mnist": 0.9, "fashion-mnist": 0.75}
SEEDS = {
    "mnist": {0.25: 3, 0.5: 10, 1.0: 10, 2.0: 3, 4.0: 3},
    "fashion-mnist": {0.25: 2, 0.5: 2, 1.0: 2, 2.0: 2, 4.0: 2},
}
"""How many students of each epsilon, with the seeds from FIRST on. Settings were chosen on seeds 0 and 1 of MNIST."""
FIRST = 20
STUDENT = {"members": 3, "steps": 2500, "unlabelled_batch": 256}
STRONG = {"rotation": 15.0, "scale": 0.15, "shear": 0.15, "shift": 0.1, "elastic": 0.05}
AT_ONCE = 20
"""Students trained together."""


def idx(folder: Path, part: str) -> np.ndarray:
    from sedml.learn.idx import read_idx

    return read_idx(folder / f"t10k-{part}-ubyte.gz")


def labels(options: argparse.Namespace) -> None:
    import sedml
    from sedml.learn.queries import choose_queries
    from sedml.privacy.planning import plan_job
    from sedml.privacy.utility import agreement_model

    for name in options.only:
        source = options.data_dir / "mnist_predictions" if name == "mnist" else options.out / name
        predictions = np.load(source / "predictions.npz")["predictions"]
        public = idx(options.data_dir / name, "images-idx3")[:PUBLIC]
        truth = idx(options.data_dir / name, "labels-idx1")[:PUBLIC]
        for epsilon, count in SEEDS[name].items():
            teachers = agreement_model(TEACHERS, 10, AGREEMENT[name])
            plan = plan_job(teachers, epsilon=epsilon, delta=DELTA, samples=2000, objective="student")
            terms, given, wrong = plan.chosen, [], []
            for seed in range(FIRST, FIRST + count):
                asked = choose_queries(public, terms.asked, seed=seed)
                result = sedml.aggregate(
                    predictions[:, asked],
                    classes=10,
                    threshold=terms.threshold,
                    sigma1=terms.sigma1,
                    sigma2=terms.sigma2,
                    delta=DELTA,
                    budget=epsilon,
                    randomness="servers",
                )
                found = np.full(PUBLIC, -1, np.int8)
                found[asked] = result.labels
                given.append(found)
                wrong.append(int(((found >= 0) & (found != truth)).sum()))
            bound = result.privacy_bound
            about = {
                "data": name,
                "epsilon": epsilon,
                "spent": bound.requester.epsilon,
                "collusion": bound.collusion.epsilon,
                "zcdp": bound.requester.epsilon_zcdp,
                "terms": [terms.asked, terms.threshold, terms.sigma1, terms.sigma2],
                "labels": [int((one >= 0).sum()) for one in given],
                "wrong": wrong,
            }
            print(json.dumps(about), flush=True)
            np.savez_compressed(
                options.out / f"labels-{name}-{epsilon:g}.npz", labels=np.array(given), about=json.dumps(about)
            )


def students(options: argparse.Namespace) -> None:
    from sedml.learn.augment import Augmentation
    from sedml.learn.student_cnn import StudentConfig, predict, train_students

    config = StudentConfig(**STUDENT, strong_view=Augmentation(**STRONG))
    for name in options.only:
        images, truth = (idx(options.data_dir / name, part) for part in ("images-idx3", "labels-idx1"))
        public = images[:PUBLIC]
        jobs = [
            (epsilon, FIRST + number, one.astype(np.int64))
            for epsilon in SEEDS[name]
            if (path := options.out / f"labels-{name}-{epsilon:g}.npz").is_file()
            if not options.epsilon or epsilon in options.epsilon
            for number, one in enumerate(np.load(path)["labels"])
        ]
        start = time.perf_counter()
        with (options.out / f"students-{name}.jsonl").open("a", encoding="utf-8") as file:
            for at in range(0, len(jobs), AT_ONCE):
                some = jobs[at : at + AT_ONCE]
                trained = train_students(
                    [(public[one >= 0], one[one >= 0]) for _, _, one in some],
                    public,
                    classes=10,
                    seeds=[seed for _, seed, _ in some],
                    config=config,
                    device=options.device,
                )
                for (epsilon, seed, _), student in zip(some, trained, strict=True):
                    right = predict(student, images) == truth
                    row = {"epsilon": epsilon, "seed": seed}
                    row |= {"test": float(right[PUBLIC:].mean()), "public": float(right[:PUBLIC].mean())}
                    print(name, json.dumps(row), file=sys.stdout, flush=True)
                    file.write(json.dumps(row) + "\n")
                file.flush()
                print(f"{at + len(some)} of {len(jobs)} students: {time.perf_counter() - start:.0f} s", flush=True)


def table(options: argparse.Namespace) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    print("| data | epsilon | by zCDP | with a server | asked | labels | wrong | students | on 1,000 | on the public |")
    print("|---|---|---|---|---|---|---|---|---|---|")
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
                f"| {words} | {about['spent']:.3f} | {about['zcdp']:.3f} | {about['collusion']:.3f} | "
                f"{about['terms'][0]} | {mean_labels:.0f} | {np.mean(about['wrong']):.1f} | {len(found)} | "
                f"{test.mean():.2f} % ({test.min():.1f} to {test.max():.1f}) | {public.mean():.2f} % |"
            )
            spent.append(about["spent"])
            means.append(test.mean())
            axes.plot([about["spent"]] * len(test), test, "o", color=colour, alpha=0.35, markersize=4)
        axes.plot(spent, means, color=colour, linewidth=2, marker="o", markersize=5, label=words)
    axes.set_xscale("log")
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
    parser.add_argument("command", choices=["labels", "students", "table"])
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("SEDML_DATA_DIR", "data")))
    parser.add_argument("--out", type=Path, default=Path("accuracy"))
    parser.add_argument("--only", nargs="+", choices=list(SEEDS), default=list(SEEDS), help="data sets")
    parser.add_argument("--epsilon", type=float, nargs="+", help="students of these only")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    {"labels": labels, "students": students, "table": table}[options.command](options)


if __name__ == "__main__":
    main()
