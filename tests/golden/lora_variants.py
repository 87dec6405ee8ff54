#!/usr/bin/env python3
"""Records the results of peft with DoRA, PiSSA and rank-stabilized LoRA, for tests/recorded.

    ~/.cache/retort/bench-python-2.11.0/bin/python tests/golden/lora_variants.py tests/recorded

Needs torch 2.11 and peft, for example 0.21. Writes the files that it lists, and no others.
"""

import json
import pathlib
import sys

import peft
import torch


def rounded(tensor):
    return tensor.detach().double().tolist()


class Net(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)


def layer_of(shape, options):
    if len(shape) == 2:
        return torch.nn.Linear(shape[1], shape[0])
    return torch.nn.Conv2d(shape[1], shape[0], shape[2:], **options)


def record(folder, name, shape, x_shape, config, steps=None):
    torch.manual_seed(len(name))
    layer = layer_of(shape, steps or {})
    weight, bias = layer.weight.detach().double(), layer.bias.detach().double()
    # PiSSA is computed in float32, so the layer is rounded to it.
    model = peft.get_peft_model(Net(layer), peft.LoraConfig(target_modules=["layer"], lora_dropout=0.0, **config))
    model = model.double()
    adapted = model.base_model.model.layer
    case = {
        "case": {"name": name, "kind": "lora_variant", "steps": steps or {}, "kwargs": config},
        "versions": {"torch": torch.__version__, "peft": peft.__version__},
        "weight": rounded(weight),
        "bias": rounded(bias),
        "start_weight": rounded(adapted.base_layer.weight),
        "scaling": adapted.scaling["default"],
    }
    parameters = {n.replace(".default", ""): p for n, p in adapted.named_parameters() if p.requires_grad}
    case["start"] = {n: rounded(p) for n, p in parameters.items()}
    with torch.no_grad():
        for n, p in parameters.items():
            p.add_(0.3 * torch.randn_like(p))
    case["parameters"] = {n: rounded(p) for n, p in parameters.items()}
    x = torch.randn(x_shape).double().requires_grad_()
    y = model(x)
    dy = torch.randn_like(y)
    y.backward(dy)
    case |= {"x": rounded(x), "output": rounded(y), "output_gradient": rounded(dy), "x_gradient": rounded(x.grad)}
    case["gradients"] = {n: rounded(p.grad) for n, p in parameters.items()}
    case["saved"] = sorted(peft.get_peft_model_state_dict(model))
    case["merged"] = rounded(model.merge_and_unload().layer.weight)
    (folder / f"{name}.json").write_text(json.dumps(case, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    record(target, "lora_dora", (4, 5), (3, 5), {"r": 2, "lora_alpha": 3, "use_dora": True})
    steps = {"stride": [2, 1], "padding": [1, 0]}
    record(target, "lora_dora_convolution", (4, 2, 3, 2), (2, 2, 5, 6), {"r": 2, "lora_alpha": 3, "use_dora": True}, steps)
    record(target, "lora_pissa", (4, 6), (3, 6), {"r": 2, "lora_alpha": 3, "init_lora_weights": "pissa"})
    record(target, "lora_pissa_dora", (6, 4), (3, 4), {"r": 3, "lora_alpha": 6, "init_lora_weights": "pissa", "use_dora": True})
    record(target, "lora_rank_stabilized", (4, 5), (3, 5), {"r": 3, "lora_alpha": 3, "use_rslora": True})
