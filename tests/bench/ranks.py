"""Training with two ranks, compared with one process with as many threads, with DistributedDataParallel and with FSDP; the memory of ZeRO 1 to 3."""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from sides import spread, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RANKS, STEPS, SKIPPED, SIDE = 2, 24, 4, 32

NETWORKS = '''
from torch import nn


class Attention(nn.Module):
    """A block of a vision transformer."""

    def __init__(self, width):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True, norm_first=True)

    def forward(self, x):
        return self.block(x)


class Vit(nn.Module):
    def __init__(self, num_classes, width=192, depth=4, patch=4):
        super().__init__()
        self.embedding = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.Sequential(*[Attention(width) for _ in range(depth)])
        self.head = nn.Linear(width, num_classes)

    def forward(self, images):
        return self.head(self.layers(self.embedding(images).flatten(2).transpose(1, 2)).mean(1))


def vit(num_classes):
    return Vit(num_classes)


def tower(num_classes):
    return Vit(num_classes, depth=8)


def mlp(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                         nn.Linear(1024, num_classes))


def small(num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 16), nn.ReLU(), nn.Linear(16, num_classes))
'''

RECIPE = """schema: 1
name: ranks
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
model: {model}
train:
  kind: train.supervised
  epochs: 2
  batch_size: {batch}
  log_every: 1
  optimizer: {{kind: sgd, learning_rate: 0.01, momentum: 0.9}}
memory: {{layout: contiguous}}
"""

# Name, network and batch size of each case.
CASES = {"transformer of 4 blocks, 24 images": ("vit", 24), "4 million weights, 24 images": ("mlp", 24), "50 thousand weights, 8 images": ("small", 8)}
SHARDED = "4 million weights, 24 images"
# Networks in Python cannot shard their parameters, so a tower of the size of `tower` takes the place of that network.
TOWER, TOWER_BATCH, BLOCKS = "transformer of 8 blocks, 24 images", 24, "memory.activation_checkpointing=block"
TOWER_MODEL = "{kind: model.clip_vision, patch_size: 4, hidden_size: 192, intermediate_size: 768, num_hidden_layers: 8, num_attention_heads: 4}"
RETORT, DDP, ALONE = f"{RANKS} ranks", f"{RANKS} of DDP", f"1 of {RANKS} threads"


def train(folder, network, batch, ranks, environment, *options):
    """Returns the folder of a run and the largest peak of its processes in MiB."""
    run = Path(tempfile.mkdtemp(dir=folder))
    model = TOWER_MODEL if network == "tower" else f'{{kind: model.python, entry: "networks.py:{network}"}}'
    (folder / "recipe.yaml").write_text(RECIPE.format(model=model, side=SIDE, batch=batch))
    command = [str(ROOT / "build/bin/retort"), "run", "recipe.yaml", f"run.dir={run}", f"python={sys.executable}", "-q", "--no-reuse"]
    command += ["--devices", str(ranks), f"threads={RANKS // ranks}", *options]
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"bench: retort ended with {process.returncode}")
    return run, usage.ru_maxrss / 1024


def retort(folder, network, batch, ranks, environment, *options):
    """Returns the median seconds between steps of the second epoch (images in memory) and the largest peak of a process in MiB."""
    run, peak = train(folder, network, batch, ranks, environment, *options)
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    times = [line["time"] for line in lines if line["name"] == "train/loss"]
    return statistics.median(after - before for before, after in zip(times[STEPS:], times[STEPS + 1 :])), peak


def peer(folder, network, batch, environment, kind):
    """The same for processes of DistributedDataParallel or FSDP."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    surroundings = dict(environment, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS))
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, json.dumps([network, batch, kind])],
            cwd=folder,
            env=dict(surroundings, RANK=str(rank)),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(RANKS)
    ]
    answers = [json.loads(process.communicate()[0]) for process in processes]
    return max(answer["seconds"] for answer in answers), max(answer["peak"] for answer in answers)


def loop(network, batch, kind):
    """One process of the peer: a typical training loop."""
    import resource
    import time

    import torch
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    sys.path.insert(0, os.getcwd())
    import networks

    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = getattr(networks, network)(batch).train()
    if kind == "ddp":
        model = DistributedDataParallel(model)
    else:
        apply_activation_checkpointing(model, check_fn=lambda module: isinstance(module, networks.Attention))
        mesh = init_device_mesh("cpu", (RANKS,))
        for part in (*model.layers, model):
            fully_shard(part, mesh=mesh)
    rule = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    share = batch // RANKS
    images, labels = torch.rand(share, 3, SIDE, SIDE), torch.arange(share)
    seconds = []
    for _ in range(STEPS + SKIPPED):
        began = time.perf_counter()
        rule.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        rule.step()
        loss.item()
        seconds.append(time.perf_counter() - began)
    torch.distributed.barrier()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": statistics.median(seconds[SKIPPED:]), "peak": peak}))
    torch.distributed.destroy_process_group()


def prepare(folder, batch):
    """Makes the networks and images of a case, and returns the environment to train in."""
    environment = dict(os.environ, OMP_NUM_THREADS="1", XDG_CONFIG_HOME=str(folder / "config"))
    (folder / "networks.py").write_text(NETWORKS)
    subprocess.run([ROOT / "build/bin/retort", "trust", "networks.py", "-q"], cwd=folder, env=environment, check=True)
    make = ["data", "make", "image_folder", "--out", "photos", "--classes", str(batch), "--per-class", str(STEPS), "--size", str(SIDE), "-q"]
    subprocess.run([ROOT / "build/bin/retort", *make], cwd=folder, env=environment, check=True)
    return environment


def sharding(results):
    """The live bytes of each rank with ZeRO 0 to 3: planned, and counted during the run."""
    rows = [("", "planned MB", "rank 0 counted", "rank 1 counted", "planned / larger")]
    results["shards"] = {}
    cases = [(SHARDED, *CASES[SHARDED], shard, ()) for shard in ("none", "optimizer", "gradients")]
    cases += [(TOWER, "tower", TOWER_BATCH, shard, (BLOCKS,)) for shard in ("none", "optimizer", "gradients", "parameters")]
    for title, network, batch, shard, options in cases:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            environment = prepare(folder, batch)
            run, _ = train(folder, network, batch, RANKS, environment, f"memory.shard={shard}", *options)
            plan = json.loads((run / "nodes/train/plan.json").read_text())
            planned = plan["live"] + sum(term["bytes"] for term in plan["terms"] if term["name"] == "loader")
            nodes = [run / "nodes/train", run / "ranks/1/nodes/train"]
            counted = [json.loads((node / "finished.json").read_text())["peak_memory_bytes"] for node in nodes]
        rows.append((f"{title}, {shard}", f"{planned / 1e6:.2f}", *[f"{size / 1e6:.2f}" for size in counted], f"{planned / max(counted):.4f}"))
        results["shards"].setdefault(title, {})[shard] = {"planned": planned, "counted": counted}
    print(f"\nTensor memory of {RANKS} ranks with momentum, by memory.shard")
    table(rows)


def sharded_parameters(arguments, results):
    """Steps with sharded parameters, compared with FSDP; both recompute the blocks."""
    sides = {
        "memory.shard=parameters": lambda *case: retort(*case[:-1], RANKS, case[-1], "memory.shard=parameters", BLOCKS),
        "FSDP": lambda *case: peer(*case, "fsdp"),
    }
    found = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        environment = prepare(folder, TOWER_BATCH)
        for turn in range(arguments.blocks):
            for side in sorted(sides, reverse=turn % 2 == 0):
                found[side].append(sides[side](folder, "tower", TOWER_BATCH, environment))
    rows = [("", "ms/step", "spread", "MiB")]
    results["sharded_parameters"] = {}
    for side, blocks in found.items():
        times, peak = [1000 * seconds for seconds, _ in blocks], max(peak for _, peak in blocks)
        rows.append((side, f"{statistics.median(times):.2f}", f"{spread(times):.0%}", f"{peak:.0f}"))
        results["sharded_parameters"][side] = {"milliseconds": times, "mebibytes": peak}
    print(f"\nSteps of {RANKS} ranks with sharded parameters: {TOWER}")
    table(rows)


def ranks(arguments, results):
    sides = {
        RETORT: lambda *case: retort(*case[:-1], RANKS, case[-1]),
        DDP: lambda *case: peer(*case, "ddp"),
        ALONE: lambda *case: retort(*case[:-1], 1, case[-1]),
    }
    rows = [("", *[cell for side in sides for cell in (f"{side} ms/step", "spread")], "ranks / DDP", "ranks / 1", "MiB ranks", "MiB DDP")]
    results["ranks"] = {}
    for title, (network, batch) in CASES.items():
        found = {side: [] for side in sides}
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            environment = prepare(folder, batch)
            for turn in range(arguments.blocks):
                for side in sorted(sides, reverse=turn % 2 == 0):
                    found[side].append(sides[side](folder, network, batch, environment))
        times = {side: [1000 * seconds for seconds, _ in blocks] for side, blocks in found.items()}
        medians = {side: statistics.median(values) for side, values in times.items()}
        peaks = {side: max(peak for _, peak in blocks) for side, blocks in found.items()}
        cells = [cell for side in sides for cell in (f"{medians[side]:.2f}", f"{spread(times[side]):.0%}")]
        ratios = [f"{medians[RETORT] / medians[other]:.3f}" for other in (DDP, ALONE)]
        rows.append((title, *cells, *ratios, f"{peaks[RETORT]:.0f}", f"{peaks[DDP]:.0f}"))
        results["ranks"][title] = {side: {"milliseconds": times[side], "mebibytes": peaks[side]} for side in sides}
    print(f"\nSteps of {RANKS} ranks of one thread: {arguments.blocks} training runs of {STEPS} steps each, alternating; memory of the largest process")
    table(rows)
    sharded_parameters(arguments, results)
    sharding(results)


if __name__ == "__main__":
    loop(*json.loads(sys.argv[1]))
