"""The learning figures on MNIST: 250 teachers at once against one by one, the semi-supervised student, and the students
of many label files that `sedml reproduce` made (`batch`, which leaves students.csv for its --students).

Needs only torch and numpy: PYTHONPATH=src python3 benchmarks/gpu_learning.py teachers --data-dir DIR --out DIR
Several settings can be tried in one run: --variant "" --variant "steps=400,augmentation.elastic=0.04" ...
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sedml import Progress
from sedml.lab.reproduce.students import (
    STUDENT_SEEDS,
    STUDENT_STEPS,
    read_label_file,
    train_label_files,
    write_students,
)
from sedml.lab.saving import save_text
from sedml.learn.ensemble import EnsembleConfig, predict, train_ensemble
from sedml.learn.idx import read_idx
from sedml.learn.networks import choose_device
from sedml.learn.queries import Questions
from sedml.learn.student_cnn import StudentConfig, train_students
from sedml.learn.student_cnn import predict as predict_student

PUBLIC = 9000

TEACHERS = EnsembleConfig(network="medium", steps=800, batch=48)
STUDENT = StudentConfig()


def override(config: Any, text: str) -> Any:  # noqa: ANN401
    """A config with `name=value` settings replaced; `part.name=value` reaches into an augmentation."""
    for item in filter(None, text.split(",")):
        name, value = item.split("=")
        head, _, tail = name.partition(".")
        old = getattr(config, head)
        if tail:
            new = override(old, f"{tail}={value}")
        elif isinstance(old, bool):
            new = value.lower() in ("1", "true", "yes")
        else:
            new = type(old)(value)
        config = dataclasses.replace(config, **{head: new})
    return config


def mnist(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    folder = folder / "mnist" if (folder / "mnist").is_dir() else folder
    return read_idx(folder / f"{part}-images-idx3-ubyte.gz"), read_idx(folder / f"{part}-labels-idx1-ubyte.gz")


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def eta(start: float) -> Progress:
    def show(_: str, done: int, total: int) -> None:
        if done % max(1, total // 5) == 0:
            print(f"    {done}/{total} {time.perf_counter() - start:.1f} s", flush=True)

    return show


def profile(train: Callable[[], object]) -> None:
    with torch.profiler.profile() as run:
        train()
    key = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    print(run.key_averages().table(sort_by=key, row_limit=25, max_name_column_width=60))


def teachers(options: argparse.Namespace) -> dict[str, Any]:
    device = choose_device(options.device)
    images, labels = mnist(options.data_dir, "train")
    queries, truth = mnist(options.data_dir, "t10k")
    queries, truth = queries[: options.queries], truth[: options.queries]
    order = np.random.default_rng(options.seed).permutation(len(images))
    shards = list(order[: options.teachers * options.samples].reshape(options.teachers, options.samples))
    common: dict[str, Any] = {"classes": 10, "shards": shards, "seed": options.seed, "device": device}
    results = []
    for number, variant in enumerate(options.variant or [""]):
        config = override(TEACHERS, variant)
        print(f"teachers {variant or 'defaults'}: {config}", flush=True)
        short = dataclasses.replace(config, steps=5)
        train_ensemble(images, labels, config=short, **common)  # warm-up: libraries load, kernels are chosen
        if options.profile:
            profile(partial(train_ensemble, images, labels, config=short, **common))
        start = clock(device)
        ensemble = train_ensemble(images, labels, config=config, progress=eta(start), **common)
        batched = clock(device) - start
        start = clock(device)
        votes = predict(ensemble, queries)
        predicting = clock(device) - start
        counts = (votes[:, :, None] == np.arange(10)).sum(0)
        sure = counts.max(1) >= 0.8 * options.teachers
        result = {
            "variant": variant,
            "config": dataclasses.asdict(config),
            "batched_s": batched,
            "predict_s": predicting,
            "mean_teacher_accuracy": float((votes == truth).mean()),
            "plurality_accuracy": float((counts.argmax(1) == truth).mean()),
            "share_with_four_fifths": float(sure.mean()),
            "accuracy_of_those": float((counts.argmax(1) == truth)[sure].mean()) if sure.any() else None,
        }
        if options.compare and number == 0:
            alone = [common | {"shards": [own]} for own in shards[: options.compare]]
            train_ensemble(images, labels, config=short, **alone[0])
            start = clock(device)
            for one in alone:
                train_ensemble(images, labels, config=config, **one)
            each = (clock(device) - start) / len(alone)
            result |= {
                "one_by_one_s_each": each,
                "one_by_one_s_extrapolated": each * options.teachers,
                "speedup": each * options.teachers / batched,
            }
        if device.type == "cuda":
            result["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
            torch.cuda.reset_peak_memory_stats()
        print(json.dumps({k: v for k, v in result.items() if k != "config"}, indent=1), flush=True)
        name = "predictions.npz" if number == 0 else f"predictions_{number}.npz"
        np.savez_compressed(options.out / name, predictions=votes, labels=truth)
        results.append(result)
    return {"teachers": results}


def simulated_labels(options: argparse.Namespace, public: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Query numbers and labels (-1: no consensus) as the protocol would give them; NumPy noise, so not private."""
    saved = np.load(options.predictions)
    counts = (saved["predictions"][:, :PUBLIC, None] == np.arange(10)).sum(0)
    rng = np.random.default_rng(1000 + seed)
    if options.select == "clusters":
        chosen = Questions(public, 10, seed=seed).choose(options.ask)
    else:
        chosen = rng.choice(len(public), options.ask, replace=False)
    counts = counts[chosen]
    noisy = counts + np.rint(rng.normal(0, options.sigma, counts.shape))
    passed = noisy.max(1) >= options.threshold
    return chosen, np.where(passed, noisy.argmax(1), -1)


def student(options: argparse.Namespace) -> dict[str, Any]:
    device = choose_device(options.device)
    images, truth = mnist(options.data_dir, "t10k")
    public, test, test_truth = images[:PUBLIC], images[PUBLIC:], truth[PUBLIC:]
    seeds = list(range(options.seed, options.seed + options.seeds))
    labelled, quality = [], []
    for number, seed in enumerate(seeds):
        if options.labels:
            labels = np.load(options.labels[number % len(options.labels)])
            chosen = np.flatnonzero(labels >= 0)
            labels = labels[chosen]
        else:
            chosen, labels = simulated_labels(options, public, seed)
        has = labels >= 0
        right = labels[has] == truth[chosen[has]]
        quality.append({"labels": int(has.sum()), "wrong": int((~right).sum())})
        quality[-1]["per_class"] = np.bincount(labels[has], minlength=10).tolist()
        labelled.append((public[chosen[has]], labels[has]))
        print(f"seed {seed}: {quality[-1]}", flush=True)
    results = []
    for variant in options.variant or [""]:
        config = override(STUDENT, variant)
        print(f"student {variant or 'defaults'}: {config}", flush=True)
        common: dict[str, Any] = {"classes": 10, "seeds": seeds, "device": device}
        short = dataclasses.replace(config, steps=3)
        train_students(labelled, public, config=short, **common)
        if options.profile:
            profile(partial(train_students, labelled, public, config=short, **common))
        start = clock(device)
        students = train_students(labelled, public, config=config, progress=eta(start), **common)
        seconds = clock(device) - start
        answers = np.array([predict_student(one, test) for one in students])
        accuracy = (answers == test_truth).mean(1)
        on_public = [float((predict_student(one, public) == truth[:PUBLIC]).mean()) for one in students]
        result = {
            "variant": variant,
            "config": dataclasses.asdict(config),
            "seconds_all_seeds": seconds,
            "accuracy_mean": float(accuracy.mean()),
            "accuracy": accuracy.tolist(),
            "public_accuracy_mean": float(np.mean(on_public)),
            "public_accuracy": on_public,
        }
        print(json.dumps({k: v for k, v in result.items() if k != "config"}), flush=True)
        results.append(result)
    return {"labels": quality, "students": results}


def batch(options: argparse.Namespace) -> dict[str, Any]:
    """Students for every label file of a folder, all of one setting."""
    files = [read_label_file(path) for path in sorted(options.label_files.glob("*.npz"))]
    start = time.perf_counter()
    rows = train_label_files(
        files, options.data_dir, steps=options.steps, seeds=options.seeds, device=options.device, progress=eta(start)
    )
    write_students(options.out / "students.csv", rows)
    seconds = time.perf_counter() - start
    for row in rows:
        print(f"{row.file} {row.line} seed {row.seed}: {row.accuracy:.4f}", flush=True)
    return {"files": len(files), "students": len(rows), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    both = argparse.ArgumentParser(add_help=False)
    both.add_argument("--data-dir", type=Path, default=Path(os.environ.get("SEDML_DATA_DIR", ".")))
    both.add_argument("--out", type=Path, default=Path("gpu-learning"))
    both.add_argument("--device", default="auto")
    both.add_argument("--seed", type=int, default=0)
    both.add_argument("--threads", type=int, help="CPU threads")
    both.add_argument("--variant", action="append", help="settings to change, name=value,...; may be repeated")
    both.add_argument("--profile", action="store_true", help="print where the time of a few steps goes")
    one = commands.add_parser("teachers", parents=[both])
    one.add_argument("--teachers", type=int, default=250)
    one.add_argument("--samples", type=int, default=240, help="training images of each teacher")
    one.add_argument("--queries", type=int, default=10000, help="test images to vote on")
    one.add_argument("--compare", type=int, default=3, help="teachers to train one by one (0: none)")
    two = commands.add_parser("student", parents=[both])
    two.add_argument("--seeds", type=int, default=5)
    two.add_argument(
        "--labels", type=Path, nargs="+", help="npy of labels of the first 9,000 test images, -1 for none; one a seed"
    )
    two.add_argument("--predictions", type=Path, help="npz of the teachers' votes, to simulate labels from")
    two.add_argument("--select", choices=["clusters", "random"], default="clusters", help="how queries are chosen")
    two.add_argument("--ask", type=int, default=100, help="queries")
    two.add_argument("--threshold", type=float, default=200)
    two.add_argument("--sigma", type=float, default=60)
    many = commands.add_parser("batch", parents=[both])
    many.add_argument("--label-files", type=Path, required=True, help="folder of label files of sedml reproduce")
    many.add_argument("--seeds", type=int, default=STUDENT_SEEDS, help="students of each line of each file")
    many.add_argument("--steps", type=int, default=STUDENT_STEPS)
    options = parser.parse_args()
    if options.command == "student" and not (options.labels or options.predictions):
        parser.error("give --labels or --predictions")
    if options.threads:
        torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    result = {"teachers": teachers, "student": student, "batch": batch}[options.command](options)
    place = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    result |= {"torch": torch.__version__, "device": place}
    save_text(options.out / f"{options.command}.json", json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
