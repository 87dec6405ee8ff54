"""The time and memory of a step in PyTorch on this GPU, as PyTorch users write it: a CLIP vision tower with a linear layer.

    gpu_peer.py clip_vit_b16 [bf16] [eager|compile|ddp]

With `compile`, the network is compiled by torch.compile. With `ddp`, two processes share the GPU and the batch, and
DistributedDataParallel sums the gradients over Gloo, since NCCL does not allow two processes on one GPU.
"""

import json
import os
import sys
import tempfile
import time

import torch
import transformers

BATCH, CLASSES, SIZE = 64, 4, 224
RANKS = 2  # processes with `ddp`
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


def measured(network, precision, batch=BATCH, steps=40, warm=8):
    """Trains on batches of random images. Returns the images per second."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    images = torch.randn(batch, 3, SIZE, SIZE).pin_memory()
    labels = torch.randint(CLASSES, (batch,)).pin_memory()
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
    return batch * steps / (time.perf_counter() - began)


def memory():
    return {"peak MiB in tensors": torch.cuda.max_memory_allocated() >> 20,
            "peak MiB reserved": torch.cuda.max_memory_reserved() >> 20}


def measure_rank(rank, name, precision, store):
    """Runs one rank of DistributedDataParallel. Rank 0 prints the result for both."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    torch.manual_seed(0)
    network = torch.nn.parallel.DistributedDataParallel(Classifier(name).cuda().train())
    rate = measured(network, precision, BATCH // RANKS)
    if rank == 0:
        print(json.dumps({"images per second": round(RANKS * rate, 1), **memory()}), flush=True)
    torch.distributed.destroy_process_group()


def main():
    name, options = sys.argv[1], sys.argv[2:]
    precision = "bf16" if "bf16" in options else "fp32"
    if "ddp" in options:
        with tempfile.TemporaryDirectory() as folder:
            torch.multiprocessing.spawn(measure_rank, (name, precision, os.path.join(folder, "store")), nprocs=RANKS)
        return
    torch.manual_seed(0)
    network = Classifier(name).cuda().train()
    if "compile" in options:
        network.compile()
    result = {"images per second": round(measured(network, precision), 1), **memory()}
    if "compile" not in options:
        torch.backends.cudnn.deterministic = True
        torch.use_deterministic_algorithms(True)
        result["images per second, deterministic"] = round(measured(network, precision), 1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
