"""Whole training steps, compared with transformers, peft and timm, on an idle machine and with two busy processes."""

import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from sides import Program, spread, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OPTIMIZER = {"learning_rate": 1e-5, "betas": [0.9, 0.999], "epsilon": 1e-8, "weight_decay": 0.01}
TOWER = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "patch_size": 32}
TINY = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "patch_size": 12}
LORA = {"rank": 8, "alpha": 16, "targets": ["q_proj", "v_proj"]}


def trainings(arguments):
    """What to train: the peer's options, and our equivalents."""
    tower = {**TOWER, **(TINY if arguments.tiny else {}), "patch_size": 32}
    names = {"kind": "model.lora", "backbone": {"kind": "clip_vision", **tower, "projection_dim": None, "features": "pooled"}, "dropout": 0, **LORA}
    return {
        "classify: tiny tower on photographs": {"image_size": 96, "root": str(Path(arguments.images).resolve()), "model": {"kind": "model.clip_vision", **TINY}},
        "CLIP B/32": {"image_size": 224, "model": {"kind": "model.clip_vision", **tower}},
        "adapters on CLIP B/32": {"image_size": 224, "model": {"kind": "model.clip_vision", **tower, "lora": LORA}, "ours": names},
        "SE-ResNeXt-50, batch 8": {"image_size": 64 if arguments.tiny else 224, "batch": 8, "model": {"kind": "seresnext50_32x4d"}, "ours": {"kind": "model.se_resnext", "head": {"dropout": 0}}},
        "ResNet-18": {"image_size": 64 if arguments.tiny else 224, "model": {"kind": "resnet18"}},
    }


@contextmanager
def busy(count):
    """Runs `count` processes that compute all the time."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measured(arguments, training, folder):
    """Returns the blocks of both sides, {(side, busy processes): blocks}, and the amount of computation in a step."""
    threads = {"OMP_NUM_THREADS": str(arguments.threads), "MKL_NUM_THREADS": str(arguments.threads)}
    loads = (0, 2)
    options = {
        "folder": folder,
        "recompute": False,
        "threads": arguments.threads,
        "batch": arguments.batch,
        "classes": 12,
        "steps": (len(loads) * arguments.blocks + 1) * arguments.steps + 8,
        "optimizer": OPTIMIZER,
        **{name: value for name, value in training.items() if name != "ours"},
    }
    ours = Program([str(ROOT / "build/bin/train_step_bench")], {**options, "model": training.get("ours", options["model"])}, threads)
    python = [sys.executable, str(HERE / "train_peer.py")]
    counted = Program(python, {**options, "count": True}, threads)
    counted.end()
    sides = {"retort": ours, "Python": Program(python, options, threads)}
    blocks = {(side, load): [] for side in sides for load in loads}
    for side in sides.values():
        side.first = side.block(2)
    for turn in range(arguments.blocks):
        for load in loads:
            with busy(load):
                for name in sorted(sides, reverse=turn % 2 == 0):
                    blocks[name, load].append(sides[name].block(arguments.steps))
    for program in sides.values():
        program.end()
    losses = {name: [*side.first["losses"]] for name, side in sides.items()}
    for turn in range(arguments.blocks):
        for load in loads:
            for name in sides:
                losses[name] += blocks[name, load][turn]["losses"]
    return blocks, losses, counted.started


def train(arguments, results):
    """Prints a table of all training runs."""
    rows = [("", "beside", "retort s/step", "spread", "Python s/step", "spread", "retort / Python", "peak MB", "Python's", "ratio", "of sgemm", "Python's")]
    notes = []
    results["train"] = {}
    for title, training in trainings(arguments).items():
        if arguments.only and arguments.only not in title:
            continue
        with tempfile.TemporaryDirectory() as folder:
            blocks, losses, counted = measured(arguments, training, folder)
        for load in sorted({load for _, load in blocks}):
            times = {side: [statistics.median(block["seconds"]) for block in blocks[side, load]] for side in ("retort", "Python")}
            medians = {side: statistics.median(values) for side, values in times.items()}
            peaks = {side: blocks[side, load][-1]["peak_bytes"] for side in times}
            shares = [counted["operations"] / medians[side] / counted["rate"] for side in times]
            cells = [cell for side in times for cell in (f"{medians[side]:.3f}", f"{spread(times[side]):.0%}")]
            memory = [f"{peaks['retort'] / 1e6:.0f}", f"{peaks['Python'] / 1e6:.0f}", f"{peaks['retort'] / peaks['Python']:.2f}"]
            rows.append((title, f"{load} busy", *cells, f"{medians['retort'] / medians['Python']:.3f}", *memory, *(f"{share:.0%}" for share in shares)))
        difference = max(abs(a - b) / abs(b) for a, b in zip(losses["retort"], losses["Python"]))
        notes.append(f"  {title}: loss from {losses['retort'][0]:.4f} to {losses['retort'][-1]:.4f}; the two curves differ by at most a relative {difference:.1e}")
        results["train"][title] = {"blocks": {f"{side}, {load} busy": value for (side, load), value in blocks.items()}, "losses": losses, "counted": counted}
    print(f"\nTraining steps, batch {arguments.batch}, {arguments.threads} threads: {arguments.blocks} blocks of {arguments.steps} steps each, alternating; 'of sgemm': operations per second, relative to the product of two 2048 × 2048 matrices")
    table(rows)
    print("\n".join(notes))
