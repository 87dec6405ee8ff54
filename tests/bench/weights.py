"""The peer of weights_bench: reads the same files with the libraries that wrote them. It writes the files first."""

import json
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from blocks import blocks, report


def vision_tower(width, layers, patch):
    """Names and shapes of a CLIP vision tower's weights."""
    shapes = {"embeddings.class_embedding": [width], "embeddings.patch_embedding.weight": [width, 3, patch, patch], "embeddings.position_embedding.weight": [(224 // patch) ** 2 + 1, width]}
    linears = {f"self_attn.{name}_proj": (width, width) for name in ("q", "k", "v", "out")}
    linears.update({"mlp.fc1": (4 * width, width), "mlp.fc2": (width, 4 * width)})
    norms = ["pre_layrnorm", "post_layernorm"]
    for layer in range(layers):
        norms += [f"encoder.layers.{layer}.layer_norm{i}" for i in (1, 2)]
        for name, (rows, columns) in linears.items():
            shapes[f"encoder.layers.{layer}.{name}.weight"] = [rows, columns]
            shapes[f"encoder.layers.{layer}.{name}.bias"] = [rows]
    for norm in norms:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = [width]
    return shapes


def loaders(files):
    """The measured function for each file, by name. A file that is only memory-mapped has not been read yet."""
    return {
        "safetensors": {"load_file": lambda: load_file(files["safetensors"]), "load_file, copied": lambda: {name: tensor.clone() for name, tensor in load_file(files["safetensors"]).items()}},
        "zip": {"torch.load": lambda: torch.load(files["zip"], weights_only=True)},
        "stream": {"torch.load": lambda: torch.load(files["stream"], weights_only=True)},
    }


def main():
    options = json.loads(sys.argv[1])
    folder = Path(options["folder"])
    files = {"safetensors": str(folder / "model.safetensors"), "zip": str(folder / "zip.pth"), "stream": str(folder / "stream.pth")}
    tensors = {name: torch.randn(shape) for name, shape in vision_tower(**options["tower"]).items()}
    save_file(tensors, files["safetensors"], metadata={"format": "pt"})
    torch.save(tensors, files["zip"])
    torch.save(tensors, files["stream"], _use_new_zipfile_serialization=False)
    size = sum(tensor.nbytes for tensor in tensors.values())
    del tensors
    report({"files": files, "bytes": size})
    for block in blocks():
        seconds, sums = {}, {}
        for name, ways in loaders(files).items():
            for way, load in ways.items():
                for _ in range(block):
                    began = time.perf_counter()
                    loaded = load()
                    seconds.setdefault(name, {}).setdefault(way, 0)
                    seconds[name][way] += (time.perf_counter() - began) / block
                    sums[name] = sum(float(tensor.flatten()[0]) for tensor in loaded.values())
                    del loaded
        report({"seconds": seconds, "sums": sums})


main()
