"""A Python network, trained by the worker with a Python host and by a training loop in Python."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sides import spread, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STEPS = 24

NETWORKS = '''
import torch
from torch import nn


def resnet18(num_classes):
    import timm
    return timm.create_model("resnet18", num_classes=num_classes)


def tiny(num_classes):
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, num_classes))
'''

RECIPE = """schema: 1
name: hosted
seed: 1
device: cpu
defaults: [{{memory: as_written}}, _self_]
data:
  kind: data.image_folder
  root: photos
  image_size: {side}
  cache_mib: 512
  loader: {{workers: 1}}
  split: {{train: 1.0, validation: 0.0, test: 0.0}}
model: {{kind: model.python, entry: "networks.py:{network}"}}
train:
  kind: train.supervised
  epochs: 2
  batch_size: {batch}
  log_every: 1
  optimizer: {{kind: sgd, learning_rate: 0.01, momentum: 0.9}}
memory: {{layout: contiguous}}
"""

CASES = {"resnet18, 8 images of 128": ("resnet18", 128, 8), "two convolutions, 16 images of 32": ("tiny", 32, 16)}


def hosted_steps(folder, network, side, batch, environment):
    """Returns the seconds between the records of two steps in the second epoch, which reads images from memory."""
    run = Path(tempfile.mkdtemp(dir=folder))
    (folder / "recipe.yaml").write_text(RECIPE.format(network=network, side=side, batch=batch))
    command = [str(ROOT / "build/bin/retort"), "run", "recipe.yaml", f"run.dir={run}", f"python={sys.executable}", "-q", "--no-reuse"]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    times = [line["time"] for line in lines if line["name"] == "train/loss"]
    return [after - before for before, after in zip(times[STEPS:], times[STEPS + 1 :])]


def python_steps(folder, network, side, batch, environment):
    command = [sys.executable, __file__, json.dumps([network, side, batch])]
    return json.loads(subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout)


def loop(network, side, batch):
    """The peer: a typical training loop. Like the hosted run, it keeps its images in memory, reads them in one worker and records each step."""
    import torch

    sys.path.insert(0, os.getcwd())
    import networks

    class Images(torch.utils.data.Dataset):
        def __init__(self):
            self.pixels = torch.randint(0, 256, (batch * STEPS, 3, side, side), dtype=torch.uint8)

        def __len__(self):
            return len(self.pixels)

        def __getitem__(self, index):
            return (self.pixels[index] / 255 - 0.45) / 0.22, index % batch

    torch.manual_seed(1)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = getattr(networks, network)(batch).train()
    rule = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = torch.utils.data.DataLoader(Images(), batch, shuffle=True, num_workers=1, persistent_workers=True)
    times = []
    with tempfile.TemporaryFile("w") as record:
        for _ in range(2):
            for images, labels in loader:
                rule.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                rule.step()
                times.append(time.perf_counter())
                print(json.dumps({"name": "train/loss", "value": loss.item(), "step": len(times)}), file=record, flush=True)
    print(json.dumps([after - before for before, after in zip(times[STEPS:], times[STEPS + 1 :])]))


def hosted(arguments, results):
    rows = [("", "hosted ms/step", "spread", "Python ms/step", "spread", "hosted / Python")]
    results["hosted"] = {}
    for title, case in CASES.items():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads), XDG_CONFIG_HOME=str(folder / "config"))
            (folder / "networks.py").write_text(NETWORKS)
            subprocess.run([ROOT / "build/bin/retort", "trust", "networks.py", "-q"], cwd=folder, env=environment, check=True)
            make = ["data", "make", "image_folder", "--out", "photos", "--classes", str(case[2]), "--per-class", str(STEPS), "--size", str(case[1]), "-q"]
            subprocess.run([ROOT / "build/bin/retort", *make], cwd=folder, env=environment, check=True)
            blocks = {"hosted": [], "Python": []}
            for turn in range(arguments.blocks):
                for name, steps in sorted({"hosted": hosted_steps, "Python": python_steps}.items(), reverse=turn % 2 == 0):
                    blocks[name].append(1000 * statistics.median(steps(folder, *case, environment)))
        medians = {name: statistics.median(values) for name, values in blocks.items()}
        cells = [cell for name, values in blocks.items() for cell in (f"{medians[name]:.2f}", f"{spread(values):.0%}")]
        rows.append((title, *cells, f"{medians['hosted'] / medians['Python']:.3f}"))
        results["hosted"][title] = blocks
    print(f"\nTraining steps of Python networks, {arguments.threads} threads: {arguments.blocks} processes of {STEPS} steps each, alternating")
    table(rows)


if __name__ == "__main__":
    loop(*json.loads(sys.argv[1]))
