"""The peer of train_step_bench: the same network, weights, batches and optimizer in Python, as PyTorch users write it."""

import json
import math
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from blocks import blocks, report

TYPES = {"F32": torch.float32, "I64": torch.int64}


def read_safetensors(path):
    """The tensors of a safetensors file that we wrote."""
    contents = path.read_bytes()
    length = int.from_bytes(contents[:8], "little")
    tensors = {}
    for name, entry in json.loads(contents[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        part = bytearray(contents[8 + length + begin : 8 + length + end])
        tensors[name] = torch.frombuffer(part, dtype=TYPES[entry["dtype"]]).view(entry["shape"])
    return tensors


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.k_proj, self.v_proj = nn.Linear(width, width), nn.Linear(width, width)
        self.q_proj, self.out_proj = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        rows, tokens, width = x.shape
        query, key, value = (
            layer(x).view(rows, tokens, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        attended = functional.scaled_dot_product_attention(query, key, value)
        return self.out_proj(attended.transpose(1, 2).reshape(rows, tokens, width))


class Mlp(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        x = self.fc1(x)
        return self.fc2(x * torch.sigmoid(1.702 * x))


class Block(nn.Module):
    def __init__(self, width, inner, heads):
        super().__init__()
        self.self_attn, self.layer_norm1 = Attention(width, heads), nn.LayerNorm(width)
        self.mlp, self.layer_norm2 = Mlp(width, inner), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.self_attn(self.layer_norm1(x))
        return x + self.mlp(self.layer_norm2(x))


class Embeddings(nn.Module):
    def __init__(self, width, patch, tokens):
        super().__init__()
        self.class_embedding = nn.Parameter(torch.zeros(width))
        self.patch_embedding = nn.Conv2d(3, width, patch, patch, bias=False)
        self.position_embedding = nn.Embedding(tokens, width)

    def forward(self, pixels):
        patches = self.patch_embedding(pixels).flatten(2).transpose(1, 2)
        class_token = self.class_embedding.expand(pixels.shape[0], 1, -1)
        return torch.cat([class_token, patches], 1) + self.position_embedding.weight


class VisionModel(nn.Module):
    def __init__(self, model, image_size, recompute):
        super().__init__()
        self.recompute = recompute
        width, inner = model["hidden_size"], model["intermediate_size"]
        tokens = (image_size // model["patch_size"]) ** 2 + 1
        self.embeddings = Embeddings(width, model["patch_size"], tokens)
        self.pre_layrnorm, self.post_layernorm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(
            Block(width, inner, model["num_attention_heads"]) for _ in range(model["num_hidden_layers"])
        )

    def forward(self, pixels):
        x = self.pre_layrnorm(self.embeddings(pixels))
        for layer in self.encoder.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return self.post_layernorm(x[:, 0])


class Classifier(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.vision_model = VisionModel(options["model"], options["image_size"], options["recompute"])
        self.head = nn.Linear(options["model"]["hidden_size"], options["classes"])

    def forward(self, pixels):
        return self.head(self.vision_model(pixels))


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options["threads"])
    folder = Path(options["folder"])
    network = Classifier(options)
    network.load_state_dict(read_safetensors(folder / "weights.safetensors"))
    data = read_safetensors(folder / "data.safetensors")
    order = data["order"].view(-1, options["batch"])
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=options["optimizer"]["learning_rate"],
        betas=tuple(options["optimizer"]["betas"]),
        eps=options["optimizer"]["epsilon"],
        weight_decay=options["optimizer"]["weight_decay"],
        fused=True,
    )
    report({"ready": True})
    step = 0
    for block in blocks():
        losses, seconds = [], []
        for _ in range(block):
            began = time.perf_counter()
            rows = order[step]
            loss = functional.cross_entropy(network(data["images"][rows]), data["labels"][rows])
            loss.backward()
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                raise ArithmeticError(f"the loss of step {step} is {losses[-1]}")
            optimizer.step()
            optimizer.zero_grad()
            seconds.append(time.perf_counter() - began)
            step += 1
        report({"seconds": seconds, "losses": losses})


if __name__ == "__main__":
    main()
