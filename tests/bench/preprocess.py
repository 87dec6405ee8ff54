"""The peers of preprocess_bench: PIL, and torchvision's decoder with its antialiased resize, doing the same work."""

import json
import sys
import time
from pathlib import Path

import numpy
import torch
import torchvision
from PIL import Image
from torchvision.transforms.v2 import functional

from blocks import blocks, report

MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(3, 1, 1)
DEVIATION = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(3, 1, 1)


def resized(width, height, size):
    """The size of an image after its shorter side is scaled to `size`."""
    return (size, size * height // width) if width <= height else (size * width // height, size)


def by_pil(path, size):
    image = Image.open(path).convert("RGB")
    width, height = resized(*image.size, size)
    image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - size) // 2, (height - size) // 2
    pixels = torch.from_numpy(numpy.array(image.crop((left, top, left + size, top + size))))
    return pixels.permute(2, 0, 1).contiguous().float().div_(255).sub_(MEAN).div_(DEVIATION)


def by_torchvision(path, size):
    image = torchvision.io.decode_jpeg(torchvision.io.read_file(str(path)), mode=torchvision.io.ImageReadMode.RGB)
    width, height = resized(image.shape[2], image.shape[1], size)
    image = functional.resize(image, [height, width], torchvision.transforms.InterpolationMode.BICUBIC, antialias=True)
    left, top = (width - size) // 2, (height - size) // 2
    return image[:, top : top + size, left : left + size].float().div_(255).sub_(MEAN).div_(DEVIATION)


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    size = options["image_size"]
    paths = sorted(path for path in Path(options["root"]).glob("*/*") if path.suffix.lower() in (".jpg", ".jpeg"))
    paths = paths[: options["images"]]
    ways = {"PIL": by_pil, "torchvision": by_torchvision}
    mean = {name: sum(way(path, size).mean().item() for path in paths) / len(paths) for name, way in ways.items()}
    report({"images": len(paths), "mean": mean})
    for _ in blocks():
        seconds = {}
        for name, way in ways.items():
            began = time.perf_counter()
            for path in paths:
                way(path, size)
            seconds[name] = time.perf_counter() - began
        report({"seconds": seconds})


main()
