"""The peer of episode_bench: a training step on an episode as PyTorch users write it, with default settings and contiguous layout."""

import json
import sys
import time
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from blocks import blocks, report


class ConvolutionBlock(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(inputs, 64, 3, padding=1), nn.BatchNorm2d(64)

    def forward(self, x):
        return functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)


class FewShot(nn.Module):
    """Four convolution blocks, and the cosine transformer of Nguyen and others, with our names."""

    def __init__(self, ways, shots, features, heads=8, head_width=64, inner=512):
        super().__init__()
        self.ways, self.shots, self.heads = ways, shots, heads
        self.blocks = nn.Sequential(*(ConvolutionBlock(inputs) for inputs in (3, 64, 64, 64)))
        self.prototype_weight = nn.Parameter(torch.ones(ways, shots, 1))
        self.attention_norm = nn.LayerNorm(features)
        self.attention_in = nn.Linear(features, heads * head_width, bias=False)
        self.attention_out = nn.Linear(heads * head_width, features)
        self.mlp = nn.Sequential(nn.LayerNorm(features), nn.Linear(features, inner), nn.GELU(), nn.Linear(inner, features))
        self.score = nn.Sequential(nn.LayerNorm(features), nn.Linear(features, 64))
        self.direction, self.length = nn.Parameter(torch.ones(1, 64)), nn.Parameter(torch.ones(1, 1))

    NAMES = (
        ("backbone.blocks.", "blocks."),
        ("head.prototype_weight", "prototype_weight"),
        ("head.attention.norm", "attention_norm"),
        ("head.attention.in", "attention_in"),
        ("head.attention.out", "attention_out"),
        ("head.mlp.norm", "mlp.0"),
        ("head.mlp.mlp.fc1", "mlp.1"),
        ("head.mlp.mlp.fc2", "mlp.3"),
        ("head.score.norm", "score.0"),
        ("head.score.inner", "score.1"),
        ("head.score.direction", "direction"),
        ("head.score.length", "length"),
    )

    def load(self, weights):
        """Copies all trained weights from ours."""
        named = {}
        for name, value in weights.items():
            mine = next(b + name[len(a):] for a, b in self.NAMES if name.startswith(a))
            named[mine] = value
        missing, unknown = self.load_state_dict(named, strict=False)
        if unknown or any("running" not in name and "batches" not in name for name in missing):
            sys.exit(f"episode_peer: the weights do not match: {missing}, {unknown}")

    def project(self, x):
        return self.attention_in(self.attention_norm(x)).unflatten(-1, (self.heads, -1))

    def forward(self, images):
        features = self.blocks(images).flatten(1)
        supports, queries = features.split([self.ways * self.shots, len(images) - self.ways * self.shots])
        weight = torch.softmax(self.prototype_weight, dim=1)
        x = (weight * supports.view(self.ways, self.shots, -1)).sum(1).unsqueeze(0)
        asking, values = self.project(x), self.project(queries).unsqueeze(1)
        cosine = functional.cosine_similarity(asking, values, dim=-1)
        x = self.attention_out((cosine.unsqueeze(-1) * values).flatten(2)) + x
        x = self.score(self.mlp(x) + x)
        x = x / (x.norm(dim=1, keepdim=True) + 1e-5)
        return 2 * functional.linear(x, self.length * self.direction / self.direction.norm()).squeeze(-1)


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options["threads"])
    folder = Path(options["folder"])
    episodes = load_file(folder / "episodes.safetensors")
    side = options["image_size"] // 16
    network = FewShot(options["ways"], options["shots"], 64 * side * side).train()
    network.load(load_file(folder / "weights.safetensors"))
    labels = torch.arange(options["ways"]).repeat_interleave(options["queries"])
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=options["optimizer"]["learning_rate"], weight_decay=options["optimizer"]["weight_decay"])
    step = 0
    report({"ready": True})
    for block in blocks():
        losses, seconds = [], []
        for _ in range(block):
            began = time.perf_counter()
            images = torch.stack(episodes[f"episode{step % len(episodes)}"].unbind())  # as a data loader collates them
            loss = functional.cross_entropy(network(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - began)
            step += 1
        report({"seconds": seconds, "losses": losses})


main()
