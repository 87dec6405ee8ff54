"""The time and memory of a step in PyTorch on this GPU, as PyTorch users write it: a CLIP vision tower with a linear layer.

    gpu_peer.py clip_vit_b16 [bf16] [compile]
"""

import json
import sys
import time

import torch
import transformers

BATCH, CLASSES, SIZE = 64, 4, 224
TOWERS = {
    "clip_vit_b32": (768, 3072, 12, 12, 32),
    "clip_vit_b16": (768, 3072, 12, 12, 16),
    "clip_vit_l14": (1024, 4096, 24, 16, 14),
}


class Classifier(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        width, inner, layers, heads, patch = TOWERS[name]
        config = transformers.CLIPVisionConfig(
            hidden_size=width, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
            patch_size=patch, image_size=SIZE, hidden_act="quick_gelu",
        )
        self.tower = transformers.CLIPVisionModel(config)
        self.head = torch.nn.Linear(width, CLASSES)

    def forward(self, pixels):
        return self.head(self.tower(pixel_values=pixels).pooler_output)


def measured(network, precision, steps=40, warm=8):
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    images = torch.randn(BATCH, 3, SIZE, SIZE).pin_memory()
    labels = torch.randint(CLASSES, (BATCH,)).pin_memory()
    torch.cuda.reset_peak_memory_stats()
    for step in range(steps + warm):
        if step == warm:
            torch.cuda.synchronize()
            began = time.perf_counter()
        x, y = images.cuda(non_blocking=True), labels.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
            loss = torch.nn.functional.cross_entropy(network(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return BATCH * steps / (time.perf_counter() - began)


def main():
    name, options = sys.argv[1], sys.argv[2:]
    torch.manual_seed(0)
    network = Classifier(name).cuda().train()
    if "compile" in options:
        network.compile()
    precision = "bf16" if "bf16" in options else "fp32"
    result = {"images a second": round(measured(network, precision), 1)}
    result["peak MiB in tensors"] = torch.cuda.max_memory_allocated() >> 20
    result["peak MiB reserved"] = torch.cuda.max_memory_reserved() >> 20
    if "compile" not in options:
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(True)
        result["images a second, deterministic"] = round(measured(network, precision), 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
