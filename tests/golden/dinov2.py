#!/usr/bin/env python3
"""Records what transformers and timm compute with small DINOv2 networks, for tests/recorded.

    ~/.cache/retort/bench-python-2.11.0/bin/python tests/golden/dinov2.py tests/recorded

Needs torch, transformers, timm and safetensors. Weights and pixels are hash_uniform() of tests/parity, in float64; the
names and shapes are those of a saved file. Writes the files that it lists, and no others.
"""

import json
import pathlib
import sys
import tempfile

import timm
import torch
import transformers
from safetensors.torch import load_file, save_file
from timm.models.vision_transformer import checkpoint_filter_fn

SEED, PIXELS, PROBE = 7, 1000000, 2000000
SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2, "patch_size": 4}
TIMM_SIZES = {"embed_dim": 8, "depth": 2, "num_heads": 2, "mlp_ratio": 2, "patch_size": 4}


def hash_uniform(index, shape):
    mask = (1 << 64) - 1
    start = SEED * 0x9E3779B97F4A7C15 + index * 0xBF58476D1CE4E5B9 + 0x9E3779B97F4A7C15
    values = []
    for j in range(torch.Size(shape).numel()):
        z = (start + j) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        z ^= z >> 31
        values.append((z >> 40) * 2.0**-23 - 1)
    return torch.tensor(values, dtype=torch.float64).reshape(shape)


def weight(number, name, shape):
    """Returns values around 1 for scales and weights of norms, around 0 for all others."""
    around = 1 if name.endswith(("lambda1", "gamma")) or ("norm" in name and name.endswith("weight")) else 0
    return around + 0.5 * hash_uniform(number, shape)


def of_shapes(shapes):
    return {name: weight(number, name, shape) for number, (name, shape) in enumerate(shapes)}


def write(folder, name, about, versions, config, shapes, tokens, model, gradients):
    pooled = tokens[:, 0]
    (10 * (hash_uniform(PROBE, pooled.shape) * pooled).mean()).backward()
    parameters = dict(model.named_parameters())
    case = {
        "case": {"name": name, "kind": "dinov2", **about, "seed": SEED},
        "versions": {"torch": torch.__version__.split("+")[0], **versions},
        "config": config,
        "shapes": shapes,
        "tokens": tokens.tolist(),
        "gradients": {each: parameters[each].grad.tolist() for each in gradients},
    }
    lines = ",\n".join(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in case.items())
    (folder / f"{name}.json").write_text("{" + lines + "}\n", encoding="utf-8")


def record_transformers(folder, name, class_name, image_size, weights_size, **options):
    model_class = getattr(transformers, class_name)
    with tempfile.TemporaryDirectory() as saved:
        file = pathlib.Path(saved) / "model.safetensors"
        empty = model_class(model_class.config_class(**SIZES, image_size=weights_size, **options))
        empty.save_pretrained(saved)
        shapes = sorted([each, list(tensor.shape)] for each, tensor in load_file(file).items())
        save_file(of_shapes(shapes), file, {"format": "pt"})
        config = json.loads((pathlib.Path(saved) / "config.json").read_text())
        model = model_class.from_pretrained(saved, dtype=torch.float64).eval()
    tokens = model(hash_uniform(PIXELS, (2, 3, image_size, image_size))).last_hidden_state
    kept = {"model_type", "image_size", "num_register_tokens", *SIZES}
    gradients = ["embeddings.cls_token", "encoder.layer.0.layer_scale1.lambda1", "encoder.layer.1.layer_scale2.lambda1"]
    if "num_register_tokens" in options:
        gradients.append("embeddings.register_tokens")
    write(folder, name, {"model": class_name, "image_size": image_size}, {"transformers": transformers.__version__},
          {key: value for key, value in config.items() if key in kept}, shapes, tokens, model, gradients)


def record_timm(folder, name, architecture, image_size, weights_size, **options):
    def create(size):
        return timm.create_model(architecture, num_classes=0, img_size=size, **TIMM_SIZES, **options).double().eval()

    saved = create(weights_size).state_dict()
    shapes = sorted([each, list(tensor.shape)] for each, tensor in saved.items())
    model = create(image_size)
    model.load_state_dict(checkpoint_filter_fn(of_shapes(shapes), model))
    tokens = model.forward_features(hash_uniform(PIXELS, (2, 3, image_size, image_size)))
    gradients = ["cls_token", "blocks.0.ls1.gamma", "blocks.1.ls2.gamma"] + (["reg_token"] if options else [])
    config = {"architecture": architecture, "model_args": {"img_size": weights_size, **TIMM_SIZES, **options}}
    write(folder, name, {"model": architecture, "image_size": image_size}, {"timm": timm.__version__},
          config, shapes, tokens, model, gradients)


if __name__ == "__main__":
    torch.set_num_threads(1)
    target = pathlib.Path(sys.argv[1])
    record_transformers(target, "dinov2", "Dinov2Model", 12, 12)
    record_transformers(target, "dinov2_resized", "Dinov2Model", 12, 20)
    record_transformers(target, "dinov2_registers", "Dinov2WithRegistersModel", 12, 12, num_register_tokens=3)
    record_transformers(target, "dinov2_registers_resized", "Dinov2WithRegistersModel", 12, 20, num_register_tokens=3)
    record_timm(target, "dinov2_timm", "vit_small_patch14_dinov2", 12, 20)
    record_timm(target, "dinov2_timm_registers", "vit_small_patch14_reg4_dinov2", 12, 20, reg_tokens=3)
