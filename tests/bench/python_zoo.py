"""Trains the smallest architecture of each timm family, created by Python in a Retort worker.

    python_zoo.py RETORT [--device cuda:0] [--jobs N] [--out FOLDER] [--only FAMILY ...] [--slice K/N] [--planned]

This Python needs torch in the worker's version, and timm. For each family: a plan; two epochs of one step with four images;
the same in plain Python from the same weights and batches; and a run that is killed after its first step and resumed.
--planned only plans and trains once, and compares nothing.

FOLDER/results has a file for each finished family, which later calls do not repeat: an interrupted call continues where it
stopped, and calls with different slices can share the folder. Every call prints a summary of all results in the folder.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import timm
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from timm.models import _registry as registry

RATE, MOMENTUM, SEED, STEPS = 0.01, 0.9, 7, 2

NETWORK = '''
import os

import timm
import torch


def make(name, num_classes):
    network = timm.create_model(name, num_classes=num_classes)
    for module in network.modules():  # Retort uses its own dropout masks
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for rate in ("drop_prob", "drop_rate"):
            if isinstance(getattr(module, rate, None), float):
                setattr(module, rate, 0.0)
    log = os.environ.get("ZOO_LOG")

    def keep(module, inputs):
        (x,) = inputs
        if log and module.training and x.device.type != "meta":
            torch.save(x.detach().clone(), f"{log}/{len(os.listdir(log)):04}.pt")

    network.register_forward_pre_hook(keep)
    if log and next(network.parameters()).device.type != "meta":
        with open(log + ".seed", "w") as file:
            file.write(str(torch.initial_seed()))
    return network
'''

RECIPE = """schema: 1
name: zoo
seed: {seed}
device: {device}
defaults: [{{memory: auto}}, _self_]
memory: {{layout: contiguous}}
data:
  kind: data.image_folder
  root: ../photos-{size}
  image_size: {size}
  loader: {{workers: 0}}
  split: {{train: 1.0, validation: 0.0, test: 0.0}}
model: {{kind: model.python, entry: "../zoo_net.py:make", arguments: {{name: {name}}}}}
train:
  kind: train.supervised
  epochs: {steps}
  batch_size: 4
  optimizer: {{kind: sgd, learning_rate: {rate}, momentum: {momentum}}}
  checkpoint: {{every: {{steps: 1}}}}
"""


def numbers_of_weights(file):
    """Returns architecture -> its number of weights. They are counted on the Meta device and kept in `file`."""
    if not file.exists():
        counts = {}
        for name in timm.list_models():
            try:
                with torch.device("meta"):
                    network = timm.create_model(name, num_classes=2)
            except (NotImplementedError, RuntimeError):
                continue  # computes with numbers when it is created
            counts[name] = sum(weight.numel() for weight in network.parameters())
        file.write_text(json.dumps(counts))
    return json.loads(file.read_text())


def smallest(out):
    """Returns family -> (the architecture with the fewest weights, side of its images)."""
    counts = numbers_of_weights(out / "weights.json")
    families = {}
    for family, names in sorted(registry._module_to_models.items()):
        published = sorted(name for name in names if not name.startswith("test_"))  # those are for timm's own tests
        name = min(published, key=lambda one: counts.get(one, float("inf")))
        described = timm.models.get_pretrained_cfg(name)
        families[family] = (name, described.input_size[-1] if described and described.input_size else 224)
    return families


def write_photos(folder, side):
    """Writes four images of two classes; the red channel encodes the class."""
    if folder.exists():
        return
    generator = torch.Generator().manual_seed(side)
    for label, name in enumerate(("dark", "light")):
        (folder / name).mkdir(parents=True)
        for i in range(2):
            pixels = torch.randint(0, 128, (side, side, 3), generator=generator, dtype=torch.uint8) + 128 * label
            Image.fromarray(pixels.numpy()).save(folder / name / f"{i}.png")


class Trial:
    def __init__(self, retort, out, device, name, side):
        self.retort, self.device, self.name, self.folder = retort, device, name, out / name
        shutil.rmtree(self.folder, ignore_errors=True)  # of a call that was interrupted
        self.folder.mkdir(parents=True)
        (self.folder / "recipe.yaml").write_text(
            RECIPE.format(seed=SEED, steps=STEPS, device=self.device, size=side, name=name, rate=RATE, momentum=MOMENTUM)
        )

    def call(self, *words, **variables):
        environment = dict(os.environ, OMP_NUM_THREADS="1", XDG_CONFIG_HOME=str(self.folder.parent / "config"),
                           RETORT_CACHE=str(self.folder / "cache"), XDG_RUNTIME_DIR=str(self.folder), **variables)
        return subprocess.run([self.retort, *words], cwd=self.folder, env=environment, capture_output=True, text=True)

    def train(self, run, **variables):
        return self.call("run", "recipe.yaml", f"run.dir={run}", f"python={sys.executable}", "memory.max_retries=0", **variables)

    def weights(self, run):
        checkpoints = self.folder / run / "nodes/train/checkpoints"
        return load_file(checkpoints / (checkpoints / "latest").read_text().strip() / "model.safetensors")

    def in_python(self):
        """Returns the weights after the same steps in plain Python, without retort."""
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        command = [sys.executable, __file__, "--replay", self.device, self.name]
        subprocess.run(command, cwd=self.folder, env=dict(environment, OMP_NUM_THREADS="1"), check=True)
        return load_file(self.folder / "python.safetensors")

    def measured(self, planned_alone):
        inputs = self.folder / "inputs"
        inputs.mkdir()
        ran = self.train("run", ZOO_LOG=str(inputs))
        if ran.returncode != 0:
            said = [line for line in ran.stderr.splitlines() if "error" in line] or ran.stderr.splitlines() or ["nothing"]
            return {"fails": said[0][:300]}
        metrics = json.loads((self.folder / "run/summary.json").read_text())["metrics"]["train"]
        plan = json.loads((self.folder / "run/nodes/train/plan.json").read_text())
        memory = {
            "counted of planned": metrics["memory/peak_by_plan"]["value"],
            "tensors of planned": metrics["memory/peak"]["value"] / plan["live"],  # without what kernels may need
        }
        if planned_alone:
            return memory
        killed = self.train("killed", RETORT_FAULT="retort-worker/step:1:kill")
        resumed = self.call("resume", "killed")
        ours, theirs = self.weights("run"), self.in_python()
        return memory | {
            "same as Python": same(ours, theirs),
            "distance": distance(ours, theirs),
            "same when resumed": killed.returncode != 0 and resumed.returncode == 0 and same(ours, self.weights("killed")),
        }


def replay(device, name):
    """Runs the same steps on the recorded inputs of the worker's network."""
    torch.set_num_threads(1)
    torch.manual_seed(int(Path("inputs.seed").read_text()))
    sys.path.insert(0, "..")
    network = __import__("zoo_net").make(name, num_classes=2).to(device).train()
    rule = torch.optim.SGD(network.parameters(), lr=RATE, momentum=MOMENTUM, fused=True)  # the kernel that the worker uses
    for file in sorted(Path("inputs").iterdir())[-STEPS:]:  # a plan by real steps comes before them
        x = torch.load(file)
        labels = (x.mean((1, 2, 3)) > x.mean()).long()
        rule.zero_grad()
        torch.nn.functional.cross_entropy(network(x), labels).backward()
        rule.step()
    state, saved = {**dict(network.named_parameters()), **dict(network.named_buffers())}, network.state_dict()
    # The code may replace a buffer that is not saved, as convit does.
    save_file({key: tensor.detach().cpu().clone() for key, tensor in state.items() if key in saved}, "python.safetensors")


def same(ours, theirs):
    """Returns whether `ours` has all tensors of `theirs`, bit for bit."""
    return all(name in ours and torch.equal(ours[name], tensor) for name, tensor in theirs.items())


def distance(ours, theirs):
    """Returns the difference over all weights, relative to their norm."""
    pairs = [(ours[name].double(), tensor.double()) for name, tensor in theirs.items() if tensor.is_floating_point()]
    apart = sum(float((one - other).square().sum()) for one, other in pairs)
    return (apart / sum(float(other.square().sum()) for _, other in pairs)) ** 0.5


def arguments():
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("retort", type=Path)
    reader.add_argument("--out", type=Path, default=Path("zoo"), help="the folder of the runs (zoo)")
    reader.add_argument("--device", default="cpu", help="cpu or cuda:0 (cpu)")
    reader.add_argument("--jobs", type=int, default=1, help="families at a time (1)")
    reader.add_argument("--planned", action="store_true", help="train once, and compare nothing")
    reader.add_argument("--only", nargs="+", metavar="FAMILY")
    reader.add_argument("--slice", type=slice_of, default=(1, 1), metavar="K/N", help="every Nth family, from the Kth on (1/1)")
    return reader.parse_args()


def slice_of(text):
    first, step = map(int, text.split("/"))
    if not 1 <= first <= step:
        raise ValueError(text)
    return first, step


def tried(chosen, out, family, name, side):
    began = time.time()
    try:
        result = Trial(chosen.retort.resolve(), out, chosen.device, name, side).measured(chosen.planned)
    except (OSError, KeyError, TypeError, RuntimeError, subprocess.CalledProcessError) as error:
        result = {"fails": f"{type(error).__name__}: {error}"[:300]}
    result = {"family": family, "architecture": name, "device": chosen.device, "seconds": round(time.time() - began, 1), **result}
    if "fails" not in result:
        shutil.rmtree(out / name)
    write(out / "results" / f"{family}.json", result)
    return result


def write(path, result):
    """Replaces the file atomically, so that an interrupted call leaves no partial file."""
    path.with_suffix(".new").write_text(json.dumps(result, indent=1))
    path.with_suffix(".new").replace(path)


def results_in(out):
    return [json.loads(path.read_text()) for path in sorted((out / "results").glob("*.json"))]


def is_done(chosen, result):
    """Returns whether a result from an earlier call covers what this call requests."""
    is_complete = chosen.planned or "fails" in result or "same as Python" in result
    return result["device"] == chosen.device and is_complete


def summarize(results):
    through = [one for one in results if "fails" not in one]
    compared = [one for one in through if "same as Python" in one]
    print(f"{len(through)} of {len(results)} families train, in {sum(one['seconds'] for one in results) / 60:.0f} minutes")
    if compared:
        exact, resumed = (sum(one[key] for one in compared) for key in ("same as Python", "same when resumed"))
        print(f"of {len(compared)} compared, {exact} are bit-identical to Python, and {resumed} after being killed and resumed")
    for what in ("counted of planned", "tensors of planned") if through else ():
        shares = [one[what] for one in through]
        print(f"{what}: median {statistics.median(shares):.4f}, minimum {min(shares):.4f}, maximum {max(shares):.4f}; "
              f"{sum(share > 1 for share in shares)} above 1")
    for one in results:
        if "fails" in one:
            print(f"{one['family']} ({one['architecture']}) fails: {one['fails']}")
        elif not one.get("same as Python", True):
            print(f"{one['family']} ({one['architecture']}) differs from Python by {one['distance']:.1e} of its norm")
        if not one.get("same when resumed", True):
            print(f"{one['family']} ({one['architecture']}) differs when resumed")
        if one.get("counted of planned", 0) > 1:
            print(f"{one['family']} ({one['architecture']}) needs {one['counted of planned']:.3f} times its planned memory")


def main():
    chosen = arguments()
    out = chosen.out.resolve()
    (out / "results").mkdir(parents=True, exist_ok=True)
    (out / "zoo_net.py").write_text(NETWORK)
    first, step = chosen.slice
    done = {result["family"] for result in results_in(out) if is_done(chosen, result)}
    families = {family: one for family, one in smallest(out).items() if not chosen.only or family in chosen.only}
    wanted = {family: families[family] for family in list(families)[first - 1 :: step] if family not in done}
    for side in {side for _, side in wanted.values()}:
        write_photos(out / f"photos-{side}", side)
    trust = dict(os.environ, XDG_CONFIG_HOME=str(out / "config"))
    subprocess.run([chosen.retort, "trust", out / "zoo_net.py", "-q"], env=trust, check=True)
    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        trials = [pool.submit(tried, chosen, out, family, *one) for family, one in wanted.items()]
        for trial in concurrent.futures.as_completed(trials):
            print(json.dumps(trial.result()), flush=True)
    summarize(results_in(out))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--replay"]:
        replay(*sys.argv[2:])
    else:
        main()
