"""The peer of train_step_bench as users of Python libraries write it: transformers, peft and timm, with default settings."""

import json
import sys
import time
from pathlib import Path

import numpy
import peft
import timm
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from blocks import blocks, report


class Classifier(torch.nn.Module):
    """A vision tower of transformers, with a linear layer on its pooled output."""

    def __init__(self, options):
        super().__init__()
        model = {name: value for name, value in options["model"].items() if name not in ("kind", "lora")}
        config = transformers.CLIPVisionConfig(**model, image_size=options["image_size"], hidden_act="quick_gelu")
        self.tower = transformers.CLIPVisionModel(config)
        self.head = torch.nn.Linear(model["hidden_size"], options["classes"])

    def forward(self, pixels):
        return self.head(self.tower(pixel_values=pixels).pooler_output)


class PairNetwork(torch.nn.Module):
    """timm's SE-ResNeXt-50 with the head of the recipe diabetic_retinopathy, without dropout."""

    def __init__(self, classes):
        super().__init__()
        self.backbone = timm.create_model("seresnext50_32x4d", num_classes=0)
        layers = []
        for inputs, outputs in ((self.backbone.num_features, 512), (512, 128)):
            layers += [torch.nn.Dropout(0), torch.nn.Linear(inputs, outputs), torch.nn.ReLU(), torch.nn.BatchNorm1d(outputs)]
        self.classifier = torch.nn.Sequential(*layers, torch.nn.Dropout(0), torch.nn.Linear(128, classes))

    def forward(self, pixels):
        return self.classifier(self.backbone(pixels))


def network_of(options, weights):
    """Returns the network for a benchmark's options, with the same initial weights as ours."""
    if options["model"]["kind"] == "seresnext50_32x4d":
        network = PairNetwork(options["classes"])
        network.load_state_dict(weights)
        return network
    if options["model"]["kind"] == "resnet18":
        network = timm.create_model("resnet18", num_classes=options["classes"])
        network.load_state_dict(weights)
        return network
    network = Classifier(options)
    lora = options["model"].get("lora")
    if lora:
        config = peft.LoraConfig(r=lora["rank"], lora_alpha=lora["alpha"], lora_dropout=0, target_modules=lora["targets"])
        network.tower = peft.get_peft_model(network.tower, config)
    ours = {}
    for name, value in weights.items():
        name = name.replace("vision_model.", "tower." + ("base_model.model." if lora else ""))
        for factor in ("lora_A", "lora_B"):
            name = name.replace(f".{factor}.weight", f".{factor}.default.weight")
        layer, _, last = name.rpartition(".")
        if lora and layer.rpartition(".")[2] in lora["targets"]:
            name = f"{layer}.base_layer.{last}"
        ours[name] = value
    network.load_state_dict(ours)
    return network


class Images(Dataset):
    """Reads the same samples as ours in the same order, with PIL."""

    MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
    DEVIATION = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)

    def __init__(self, root, samples, size):
        self.root, self.samples, self.size = Path(root), samples, size

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        name, label = self.samples[index]
        image, size = Image.open(self.root / name).convert("RGB"), self.size
        width, height = image.size
        width, height = (size, size * height // width) if width <= height else (size * width // height, size)
        left, top = (width - size) // 2, (height - size) // 2
        image = image.resize((width, height), Image.Resampling.BICUBIC).crop((left, top, left + size, top + size))
        pixels = torch.from_numpy(numpy.array(image)).permute(2, 0, 1).contiguous()
        return pixels.float().div_(255).sub_(self.MEAN).div_(self.DEVIATION), label


def batches(options, folder):
    if "root" in options:
        samples = json.loads((folder / "samples.json").read_text())
        yield from DataLoader(Images(options["root"], samples, options["image_size"]), options["batch"], num_workers=1)
        return
    data = load_file(folder / "data.safetensors")
    for rows in data["order"].view(-1, options["batch"]):
        yield data["images"][rows], data["labels"][rows]


def operations(network, images, labels):
    """Returns the floating point operations of a step's matrix products and convolutions."""
    with FlopCounterMode(display=False) as counter:
        functional.cross_entropy(network(images), labels).backward()
    network.zero_grad()
    return counter.get_total_flops()


def product_rate(size=2048):
    """Returns the operations per second of a float32 matrix product on this machine: the best of several."""
    a, b, best = torch.rand(size, size), torch.rand(size, size), float("inf")
    for _ in range(8):
        began = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options["threads"])
    folder = Path(options["folder"])
    network = network_of(options, load_file(folder / "weights.safetensors")).train()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(
        trained,
        lr=options["optimizer"]["learning_rate"],
        betas=tuple(options["optimizer"]["betas"]),
        eps=options["optimizer"]["epsilon"],
        weight_decay=options["optimizer"]["weight_decay"],
    )
    if options.get("count"):
        images = torch.randn(options["batch"], 3, options["image_size"], options["image_size"])
        count = operations(network, images, torch.zeros(options["batch"], dtype=torch.long))
        report({"operations": count, "rate": product_rate()})
        return
    coming = batches(options, folder)
    report({"ready": True})
    for block in blocks():
        losses, seconds = [], []
        for _ in range(block):
            began = time.perf_counter()
            images, labels = next(coming)
            loss = functional.cross_entropy(network(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
            seconds.append(time.perf_counter() - began)
        report({"seconds": seconds, "losses": losses})


main()
