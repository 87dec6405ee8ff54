#!/usr/bin/env python3
"""Measures few-shot learning on images of flowers over many random divisions of their classes.

  $(scripts/bench-python) experiments/few_shot_flowers/measure.py --data FOLDER [--retort build/bin/retort]
      [--divisions 1-16] [--work FOLDER] [KEY=VALUE ...]

For each division, the recipe next to this file is trained on some classes, its epoch is chosen on others, and it is tested on the
rest; an untrained network and color histograms are tested on the same division. Divisions with results in the work folder are not
run again. --validation prints only the accuracy on the validation classes, for choosing options.
"""

import argparse
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

import numpy
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
# Options that keep the initial weights; BatchNorm still collects its statistics, in a few episodes.
UNTRAINED = ["lr=1e-30", "num_epoch=1", "train.episodes=20"]


def divisions(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def run(options, division, name, overrides):
    """Returns the folder of the run, which is run first if it has not finished."""
    folder = options.work / f"{name}-{division}"
    if not (folder / "nodes/evaluate/metrics.json").exists():
        subprocess.run(
            [options.retort, "run", HERE / "recipe.yaml", "-q", f"data.root={options.data}", f"data.split_seed={division}",
             f"seed={division}", f"run.dir={folder}", *options.overrides, *overrides],
            check=True, stdout=subprocess.DEVNULL)
    return folder


def measured(folder):
    return json.loads((folder / "nodes/evaluate/metrics.json").read_text())


def validated(folder):
    """Returns the best accuracy on the validation classes, in percent."""
    metrics = json.loads((folder / "nodes/train/training_metrics.json").read_text())
    return 100 * max(metrics["val_accuracies"])


def histogram(path, bins=8):
    """Returns the square roots of an image's color frequencies (bins x bins x bins), for the Hellinger distance."""
    pixels = numpy.asarray(Image.open(path).convert("RGB").resize((64, 64), Image.BILINEAR), dtype=numpy.int64)
    levels = pixels.reshape(-1, 3) * bins // 256
    index = (levels[:, 0] * bins + levels[:, 1]) * bins + levels[:, 2]
    return numpy.sqrt(numpy.bincount(index, minlength=bins**3) / len(index))


def histogram_accuracy(options, classes, division, histograms):
    """Returns the accuracy in percent over random episodes: each query is assigned to the class with the nearest support mean."""
    for name in classes:
        if name not in histograms:
            paths = sorted(path for path in (options.data / name).iterdir() if path.is_file())
            histograms[name] = numpy.stack([histogram(path) for path in paths])
    draw = random.Random(division)
    shares = []
    for _ in range(options.episodes):
        ways = draw.sample(classes, options.ways)
        supports, queries = [], []
        for name in ways:
            chosen = draw.sample(range(len(histograms[name])), options.shots + options.queries)
            supports.append(histograms[name][chosen[: options.shots]].mean(axis=0))
            queries.append(histograms[name][chosen[options.shots :]])
        centers = numpy.stack(supports)
        right = sum(
            int((((own[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1) == way).sum())
            for way, own in enumerate(queries))
        shares.append(right / (options.ways * options.queries))
    return 100 * statistics.fmean(shares)


def interval(values):
    """Returns the mean over divisions and half the width of its 95% interval, from Student's t-distribution."""
    quantiles = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 11: 2.201,
                 14: 2.145, 15: 2.131, 17: 2.110, 19: 2.093, 23: 2.069, 29: 2.045}
    degrees = len(values) - 1
    quantile = quantiles[max(known for known in quantiles if known <= degrees)]
    return statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(len(values))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--retort", type=pathlib.Path, default=HERE.parents[1] / "build/bin/retort")
    parser.add_argument("--divisions", type=divisions, default="1-16")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("outputs/few_shot_flowers"))
    parser.add_argument("--validation", action="store_true")
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_intermixed_args()
    options.ways, options.shots, options.queries, options.episodes = 3, 5, 15, 200  # as in recipe.yaml
    return options


def main():
    options = arguments()
    if options.validation:
        reached = [validated(run(options, division, "trained", [])) for division in options.divisions]
        print("validation classes: " + ", ".join(f"{value:.1f}" for value in reached)
              + f"; mean {statistics.fmean(reached):.1f} %")
        return
    columns = {name: [] for name in ("trained", "untrained", "untrained, by distance", "color histograms")}
    histograms = {}
    print("| division | new classes | " + " | ".join(columns) + " |\n|---|---|---|---|---|---|")
    for division in options.divisions:
        results = measured(run(options, division, "trained", []))
        classes = [entry["class"] for entry in results["per_class"]]
        columns["trained"].append(100 * results["top1"])
        for name, method in (("untrained", "FSCT_cosine"), ("untrained, by distance", "CTX_softmax")):
            folder = run(options, division, name.replace(", ", "-").replace(" ", "-"), [f"method={method}", *UNTRAINED])
            columns[name].append(100 * measured(folder)["top1"])
        columns["color histograms"].append(histogram_accuracy(options, classes, division, histograms))
        row = " | ".join(f"{values[-1]:.1f} %" for values in columns.values())
        print(f"| {division} | {', '.join(classes)} | {row} |", flush=True)
    if len(columns["trained"]) > 1:
        row = " | ".join("{:.1f} ± {:.1f} %".format(*interval(values)) for values in columns.values())
        print(f"| mean | | {row} |")


if __name__ == "__main__":
    sys.exit(main())
