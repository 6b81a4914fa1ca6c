"""Teachers of MNIST: 250 of them at once against one by one, and their votes on the test images.

Needs only torch and numpy: PYTHONPATH=src python3 benchmarks/gpu_learning.py --data-dir DIR --out DIR
Several settings can be tried in one run: --variant "" --variant "steps=400,augmentation.elastic=0.04" ...
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sedml import Progress
from sedml.lab.saving import save_text
from sedml.learn.ensemble import EnsembleConfig, predict, train_ensemble
from sedml.learn.idx import read_idx
from sedml.learn.networks import choose_device

TEACHERS = EnsembleConfig(network="medium", steps=800, batch=48)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=Path(os.environ.get("SEDML_DATA_DIR", ".")))
    parser.add_argument("--out", type=Path, default=Path("gpu-learning"))
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, help="CPU threads")
    parser.add_argument("--variant", action="append", help="settings to change, name=value,...; may be repeated")
    parser.add_argument("--teachers", type=int, default=250)
    parser.add_argument("--samples", type=int, default=240, help="training images of each teacher")
    parser.add_argument("--queries", type=int, default=10000, help="test images to vote on")
    parser.add_argument("--compare", type=int, default=3, help="teachers to train one by one (0: none)")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    options.out.mkdir(parents=True, exist_ok=True)
    result = teachers(options)
    place = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    result |= {"torch": torch.__version__, "device": place}
    save_text(options.out / "teachers.json", json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
