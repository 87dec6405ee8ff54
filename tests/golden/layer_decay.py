#!/usr/bin/env python3
"""Records timm's learning-rate scales of layer-wise decay, for tests/recorded.

    ~/.cache/retort/bench-python-2.11.0/bin/python tests/golden/layer_decay.py tests/recorded

Needs torch and timm, for example 1.0.31. Writes the files that it lists, and no others.
"""

import json
import pathlib
import sys

import timm
from timm.optim import param_groups_layer_decay

NETWORKS = {
    "vit_base_patch16_224": {"embed_dim": 8, "depth": 3, "num_heads": 2, "patch_size": 4, "img_size": 8},
    "resnet18": {},
}


def record(folder, architecture, arguments, decay):
    network = timm.create_model(architecture, num_classes=3, **arguments)
    scales = {}
    for group in param_groups_layer_decay(network, layer_decay=decay):
        scales.update((id(parameter), group["lr_scale"]) for parameter in group["params"])
    name = f"layer_decay_{architecture.split('_')[0]}"
    case = {
        "case": {"name": name, "kind": "layer_decay", "architecture": architecture, "kwargs": {"layer_decay": decay}},
        "versions": {"timm": timm.__version__},
        "scales": {each: scales[id(parameter)] for each, parameter in network.named_parameters()},
    }
    (folder / f"{name}.json").write_text(json.dumps(case, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each, options in NETWORKS.items():
        record(pathlib.Path(sys.argv[1]), each, options, 0.75)
