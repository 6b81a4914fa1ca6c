"""MNIST: how good a student is at which epsilon; labels for five students of each, and the picture.

    python benchmarks/mnist_epsilon.py labels --data-dir DIR --out epsilon
    for n in 30 80 285; do
        PYTHONPATH=src python3 benchmarks/gpu_learning.py student --data-dir DIR --labels epsilon/labels_${n}_*.npy \
            --seed 10 --out epsilon/$n --device cuda --variant "$(python3 benchmarks/mnist_epsilon.py settings)"
    done
    python benchmarks/mnist_epsilon.py picture --out epsilon

The labels come from the secure protocol with its own noise, out of the votes of 250 networks (`mnist_predictions`). The
student's settings are those of examples/mnist.toml. The second step wants a GPU, and needs only torch and numpy there.
"""

from __future__ import annotations

import argparse
import json
import os
import tomllib
from pathlib import Path

import numpy as np

PUBLIC = 9000
SEEDS = range(10, 15)  # the settings were chosen on seeds 0 and 1
DELTA = 1e-5
TERMS = ((30, 138.0, 62.5), (80, 120.0, 54.0), (285, 120.0, 54.0))  # samples, sigma1, sigma2
THRESHOLD = 150
PATE = 1.97, 98.5  # epsilon and per cent, data-dependent: Papernot et al. 2018, table 1
EXAMPLE = Path(__file__).parents[1] / "examples" / "mnist.toml"


def settings() -> str:
    """The student of the example, as gpu_learning.py takes settings."""
    student = tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))["student_params"]
    flat = {**student, **{f"strong_view.{name}": value for name, value in student.pop("strong_view").items()}}
    return ",".join(f"{name}={value}" for name, value in flat.items() if name != "strong_view")


def labels(data_dir: Path, out: Path) -> None:
    import sedml
    from sedml.learn.datasets import load_dataset
    from sedml.learn.queries import choose_queries

    predictions = np.load(data_dir / "mnist_predictions" / "predictions.npz")["predictions"]
    public = load_dataset("mnist", data_dir).test_images[:PUBLIC]
    out.mkdir(parents=True, exist_ok=True)
    for samples, sigma1, sigma2 in TERMS:
        for seed in SEEDS:
            asked = choose_queries(public, samples, seed=seed)
            result = sedml.aggregate(
                predictions[:, asked],
                classes=10,
                threshold=THRESHOLD,
                sigma1=sigma1,
                sigma2=sigma2,
                delta=DELTA,
                randomness="servers",
            )
            given = np.full(PUBLIC, -1)
            given[asked] = result.labels
            np.save(out / f"labels_{samples}_{seed}.npy", given)
        bound = result.privacy_bound
        terms = {"samples": samples, "epsilon": bound.requester.epsilon, "collusion": bound.collusion.epsilon}
        print(json.dumps(terms))
        (out / f"terms_{samples}.json").write_text(json.dumps(terms), encoding="utf-8")


def picture(data_dir: Path, out: Path) -> None:
    from matplotlib.figure import Figure

    votes = np.load(data_dir / "mnist_predictions" / "predictions.npz")
    alone = 100 * float((votes["predictions"] == votes["labels"]).mean())

    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    axes = figure.subplots()
    epsilons, means = [], []
    for samples, _, _ in TERMS:
        epsilon = json.loads((out / f"terms_{samples}.json").read_text())["epsilon"]
        found = json.loads((out / str(samples) / "student.json").read_text())
        accuracies = [100 * value for value in found["students"][0]["accuracy"]]
        wrong = sum(one["wrong"] for one in found["labels"]), sum(one["labels"] for one in found["labels"])
        print(f"epsilon {epsilon:.3f}, {samples} asked: {np.mean(accuracies):.2f} {accuracies} wrong {wrong}")
        axes.plot([epsilon] * len(accuracies), accuracies, "o", color="#2a9960", alpha=0.45, markersize=5)
        axes.annotate(
            f"{np.mean(accuracies):.1f} %", (epsilon, np.mean(accuracies)), xytext=(8, -17),
            textcoords="offset points", color="#1a7f4b", weight="bold",
        )  # fmt: skip
        epsilons.append(epsilon)
        means.append(np.mean(accuracies))
    axes.plot(epsilons, means, color="#1a7f4b", linewidth=2, label="SEDML's student: five each, and their mean")
    axes.axhline(
        alone, color="#5b6573", linestyle="--", linewidth=1, label=f"a teacher alone, on average: {alone:.1f} %"
    )
    axes.plot(*PATE, "D", color="#b8741a", label="PATE 2018, epsilon by data-dependent analysis")
    axes.set_xscale("log")
    axes.set_xticks([0.5, 1, 2], ["0.5", "1", "2"])
    axes.set_xticks([], minor=True)
    axes.set_xlim(0.32, 2.2)
    axes.set_xlabel("epsilon of the whole job at delta 1e-5: smaller is more private")
    axes.set_ylabel("MNIST images right, per cent")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    figure.savefig(out / "mnist_epsilon.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["labels", "settings", "picture"])
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("SEDML_DATA_DIR", "data")))
    parser.add_argument("--out", type=Path, default=Path("epsilon"))
    options = parser.parse_args()
    if options.command == "settings":
        print(settings())
    elif options.command == "labels":
        labels(options.data_dir, options.out)
    else:
        picture(options.data_dir, options.out)


if __name__ == "__main__":
    main()
