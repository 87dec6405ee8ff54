#!/usr/bin/env python3
"""Records the probabilities with which timm's networks skip their blocks, for tests/recorded.

    ~/.cache/retort/bench-python-2.11.0/bin/python tests/golden/drop_path.py tests/recorded

Needs torch and timm, for example 1.0.31. Writes the files that it lists, and no others.
"""

import json
import pathlib
import sys

import timm
from timm.layers import DropPath

NETWORKS = ("resnet18", "resnet50", "seresnext50_32x4d", "efficientnet_b2", "mobilenetv2_100")


def record(folder, architecture, rate):
    network = timm.create_model(architecture, drop_path_rate=rate)
    blocks = {}
    for name, module in network.named_modules():
        path = getattr(module, "drop_path", None)
        if isinstance(path, DropPath) and getattr(module, "has_skip", True):
            blocks[name] = path.drop_prob
    name = f"drop_path_{architecture}"
    case = {
        "case": {"name": name, "kind": "drop_path", "architecture": architecture, "kwargs": {"drop_path_rate": rate}},
        "versions": {"timm": timm.__version__},
        "blocks": blocks,
    }
    (folder / f"{name}.json").write_text(json.dumps(case, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for each in NETWORKS:
        record(pathlib.Path(sys.argv[1]), each, 0.5)
