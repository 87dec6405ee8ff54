#!/usr/bin/env python3
"""Measures whether networks for ten class pairs learn the grades of synthetic retina images, and not just colors or folders.

  $(scripts/bench-python) experiments/retina_grades/measure.py [--retort build/bin/retort] [--seeds 1-3] [--work FOLDER]

For each seed, it generates new images, runs the recipe next to this file on them, fits regressions on their colors, and runs the
recipe on the same images with shuffled grades, where the accuracy must stay at chance. Results in the work folder are reused.
"""

import argparse
import csv
import json
import math
import pathlib
import random
import subprocess
import sys

import numpy
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
GRADES, PER_GRADE, SIZE = 5, 300, 96
PARTS = ("train", "val", "test")


def seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def drawings(options, seed):
    """Returns a folder of synthetic retina images with one folder per grade."""
    folder = options.work / f"retinas-{seed}"
    if not folder.exists():
        subprocess.run([options.retort, "data", "make", "fundus_folders", "--out", folder, "-q", "--seed", str(seed),
                        "--per-class", str(PER_GRADE), "--size", str(SIZE)], check=True, stdout=subprocess.DEVNULL)
    return folder


def images(folder, part):
    """Returns (path, grade) for each image, sorted by grade and name."""
    return [(path, grade) for grade in range(GRADES) for path in sorted((folder / part / str(grade)).iterdir())]


def shuffled(folder, seed):
    """Returns a folder of the same images, with the grades shuffled within each part."""
    target = folder.with_name(f"shuffled-{seed}")
    if target.exists():
        return target
    half_made = target.with_name(target.name + ".part")
    for part in PARTS:
        pictures = images(folder, part)
        grades = [grade for _, grade in pictures]
        random.Random(seed).shuffle(grades)
        for number, ((path, _), grade) in enumerate(zip(pictures, grades)):
            (half_made / part / str(grade)).mkdir(parents=True, exist_ok=True)
            (half_made / part / str(grade) / f"{number:05}.jpg").write_bytes(path.read_bytes())
    return half_made.rename(target)


def run(options, folder, seed, name):
    """Returns whether the ten networks grade each test image correctly, and their kappa."""
    output = options.work / f"{name}-{seed}"
    if not (output / "nodes/evaluate/metrics.json").exists():
        subprocess.run([options.retort, "run", HERE / "recipe.yaml", "-q", f"data.root={folder}", f"seed={seed}",
                        f"run.dir={output}", *options.overrides], check=True, stdout=subprocess.DEVNULL)
    metrics = json.loads((output / "nodes/evaluate/metrics.json").read_text())
    with open(output / "nodes/evaluate/predictions.csv", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    names = [f"test/{path.parent.name}/{path.name}" for path, _ in images(folder, "test")]
    right = numpy.array([rows[name]["prediction"] == rows[name]["grade"] for name in names])
    return right, metrics["grading"]["numbers"]["quadratic_kappa"]


def colors(path):
    """Returns the means of red, green and blue within the disc, with their products."""
    pixels = numpy.asarray(Image.open(path).convert("RGB"), dtype=numpy.float64).reshape(-1, 3) / 255
    return with_products(pixels[pixels.sum(axis=1) > 0.15].mean(axis=0))


def colors_and_contrasts(path):
    """Returns the means and standard deviations of red, green and blue, with their products."""
    pixels = numpy.asarray(Image.open(path).convert("RGB"), dtype=numpy.float64).reshape(-1, 3) / 255
    pixels = pixels[pixels.sum(axis=1) > 0.15]
    return with_products(numpy.concatenate([pixels.mean(axis=0), pixels.std(axis=0)]))


def with_products(values):
    return numpy.concatenate([values, numpy.outer(values, values)[numpy.triu_indices(len(values))]])


def by_regression(folder, numbers):
    """Returns whether a softmax regression on `numbers`, fitted to the training images, grades each test image correctly."""
    parts = {part: images(folder, part) for part in ("train", "test")}
    x = {part: numpy.stack([numbers(path) for path, _ in pictures]) for part, pictures in parts.items()}
    y = {part: numpy.array([grade for _, grade in pictures]) for part, pictures in parts.items()}
    mean, deviation = x["train"].mean(axis=0), x["train"].std(axis=0)
    x = {part: numpy.c_[(values - mean) / deviation, numpy.ones(len(values))] for part, values in x.items()}
    weights, wanted = numpy.zeros((x["train"].shape[1], GRADES)), numpy.eye(GRADES)[y["train"]]
    for _ in range(5000):
        scores = x["train"] @ weights
        likely = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        likely /= likely.sum(axis=1, keepdims=True)
        weights -= 0.1 * (x["train"].T @ (likely - wanted) / len(wanted) + 1e-4 * weights)
    return (x["test"] @ weights).argmax(axis=1) == y["test"]


def wilson(right):
    """Returns a proportion and its 95% interval, in percent (Wilson, 1927)."""
    n, share, z = len(right), right.mean(), 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    return f"{100 * share:.1f} % ({100 * (middle - half):.1f} to {100 * (middle + half):.1f})"


def lead(ours, theirs):
    """Returns the difference of two shares on the same images and its 95% bootstrap interval, in percentage points."""
    difference = ours.astype(float) - theirs
    draws = numpy.random.default_rng(0).integers(len(difference), size=(10000, len(difference)))
    low, high = numpy.percentile(difference[draws].mean(axis=1), [2.5, 97.5])
    return f"{100 * difference.mean():.1f} ({100 * low:.1f} to {100 * high:.1f})"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retort", type=pathlib.Path, default=HERE.parents[1] / "build/bin/retort")
    parser.add_argument("--seeds", type=seeds, default="1-3")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("outputs/retina_grades"))
    parser.add_argument("overrides", nargs="*")
    return parser.parse_intermixed_args()


def main():
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    print("| seed | ten pairs | kappa | color means | lead, points | means and deviations | lead, points "
          "| shuffled grades | kappa |\n|---|---|---|---|---|---|---|---|---|")
    for seed in options.seeds:
        folder = drawings(options, seed)
        pairs, kappa = run(options, folder, seed, "pairs")
        simple = [by_regression(folder, numbers) for numbers in (colors, colors_and_contrasts)]
        leaked, leaked_kappa = run(options, shuffled(folder, seed), seed, "leak")
        columns = [seed, wilson(pairs), f"{kappa:.2f}"]
        for right in simple:
            columns += [wilson(right), lead(pairs, right)]
        print("| " + " | ".join(str(column) for column in [*columns, wilson(leaked), f"{leaked_kappa:.2f}"]) + " |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
