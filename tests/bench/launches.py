"""How many operations of LibTorch a training step starts, which is about how many kernels a GPU gets from the host.

For each network of `scripts/bench plans`: as planned for a GPU, the same with memory.cuda_graphs=true, and in Python with PyTorch's eager
mode. An operation that another operation starts is not counted; one on many tensors (`_foreach_…`, `_fused_…`) counts as one. No GPU is
needed: the plan runs the step on the Meta device, and PyTorch's profiler counts on the CPU.
"""

import json
import subprocess
import tempfile

from plans import DATA, ROOT, networks
from sides import table

GPU = "NVIDIA H100 80GB"
TIMM = {
    "SE-ResNeXt-50": "seresnext50_32x4d",
    "DenseNet-121": "densenet121",
    "ResNet-50": "resnet50",
    "EfficientNet-B2": "efficientnet_b2",
    "MobileNetV2": "mobilenetv2_100",
}


def planned(line, cuda_graphs):
    """Returns the operations of a step, or why the options are refused."""
    options = ["--gpu", GPU, "--json", f"memory.cuda_graphs={str(cuda_graphs).lower()}"]
    ended = subprocess.run([ROOT / "build/bin/retort", "plan", *line.split(), *options], cwd=ROOT, capture_output=True, text=True)
    answer = {"errors": [], **json.loads(ended.stdout)}
    if answer["errors"]:
        return answer["errors"][0]["message"].split(", but ")[-1]
    return next(plan["operations"] for plan in answer["result"]["plans"] if plan["node"] == "train")


def vit(name):
    """A vision transformer of transformers with a linear head."""
    import torch
    import transformers

    class Classifier(torch.nn.Module):
        def __init__(self):
            super().__init__()
            if name == "clip":
                config = transformers.CLIPVisionConfig(patch_size=32)
                self.tower = transformers.CLIPVisionModel(config)
            else:
                self.tower = transformers.ViTModel(transformers.ViTConfig())
            self.head = torch.nn.Linear(768, 4)

        def forward(self, pixels):
            return self.head(self.tower(pixel_values=pixels).pooler_output)

    return Classifier()


def peer(name):
    """Returns a function that computes the loss of a batch in PyTorch, and the parameters that are trained; None: there is no peer."""
    import torch

    labels = torch.zeros(2, dtype=torch.long)
    if name == "CLIP, both towers":
        import transformers

        network = transformers.CLIPModel(transformers.CLIPConfig())
        pixels = torch.randn(2, 3, 224, 224)
        tokens = torch.randint(1, 40000, (2, 77))
        return lambda: network(input_ids=tokens, pixel_values=pixels, return_loss=True).loss, network
    if name in TIMM:
        import timm

        network = timm.create_model(TIMM[name], num_classes=5).train()
    elif name == "CLIP ViT-B/32":
        network = vit("clip")
    elif name == "ViT-B/16, LoRA":
        import peft

        network = vit("vit")
        network.tower = peft.get_peft_model(network.tower, peft.LoraConfig(r=8, target_modules="all-linear"))
    else:
        return None
    pixels = torch.randn(2, 3, 224, 224)
    return lambda: torch.nn.functional.cross_entropy(network(pixels), labels), network


def dispatched(name):
    """Returns the operations of a step in PyTorch's eager mode, as on a GPU, where the optimizer uses foreach; None without a peer."""
    import torch

    found = peer(name)
    if found is None:
        return None
    loss, network = found
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, foreach=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()

    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        step()

    def is_nested(event):
        while event.cpu_parent is not None:
            event = event.cpu_parent
            if event.name.startswith("aten::"):
                return True
        return False

    return sum(event.name.startswith("aten::") and not is_nested(event) for event in profile.events())


def launches(arguments, results):
    results["launches"] = {}
    rows = [("", "operations of a step", "with cuda_graphs", "PyTorch eager")]
    with tempfile.TemporaryDirectory() as place:
        for name, options in DATA.items():
            subprocess.run([ROOT / "build/bin/retort", "data", "make", *options.split(), "--out", f"{place}/{name}", "-q"], check=True)
        merges = ROOT.parent / "shared/data/clip/bpe_simple_vocab_16e6.txt.gz"
        for name, line in networks(place, merges if merges.exists() else None).items():
            one = {"eager": planned(line, False), "replayed": planned(line, True), "pytorch": dispatched(name)}
            results["launches"][name] = one
            replayed = one["replayed"] if isinstance(one["replayed"], int) else "refused"
            rows.append((name, one["eager"], replayed, one["pytorch"] or ""))
    print(f"\nOperations that a training step starts, planned for {GPU}")
    table(rows)
    refused = {one["replayed"] for one in results["launches"].values() if isinstance(one["replayed"], str)}
    for why in sorted(refused):
        print(f"  refused: {why}")
