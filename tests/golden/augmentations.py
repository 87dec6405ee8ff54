#!/usr/bin/env python3
"""Records the results of torchvision's augmentation operations, AugMix and erasing, for tests/recorded.

    ~/.cache/retort/bench-python-2.11.0/bin/python tests/golden/augmentations.py tests/recorded

Needs torch, torchvision (0.26), numpy and Pillow (12.0). Writes the files that it lists, and no others. Every image is
image(), a function of its size. For each operation, the first 16 digits of the result's SHA-256 are recorded.
"""

import hashlib
import json
import pathlib
import sys
from unittest import mock

import numpy
import PIL
import torch
import torchvision
from PIL import Image, ImageFilter
from torchvision.transforms import InterpolationMode
from torchvision.transforms.autoaugment import AugMix, _apply_op
from torchvision.transforms.v2.functional import erase

NEAREST, BILINEAR = ("n", InterpolationMode.NEAREST), ("b", InterpolationMode.BILINEAR)
SIZES = [(23, 17), (32, 32), (2, 3), (1, 1), (64, 9)]
MOVES = {"ShearX": [0.3, -0.17, 0.99, 0.0], "ShearY": [0.3, -0.17, 0.99], "TranslateX": [7.9, -7.9, 0.0, -32.0],
         "TranslateY": [5.2, -11.5], "Rotate": [30.0, -9.0, 90.0, 135.0, -90.0, 4.5, 0.0]}
OTHERS = {"Brightness": [0.9, -0.9, 0.27, 0.0], "Color": [0.9, -0.9, 0.27], "Contrast": [0.9, -0.9, 0.27],
          "Sharpness": [0.9, -0.9, 0.27, 0.0], "Posterize": [8, 4, 2, 0], "Solarize": [255.0, 128.0, 0.0, 85.5],
          "AutoContrast": [0], "Equalize": [0], "Invert": [0], "Greyscale": [0],
          "GaussianBlur": [0.1, 0.5, 1.0, 1.7, 2.0, 9.3]}
VERSIONS = {"torchvision": torchvision.__version__.split("+")[0], "pillow": PIL.__version__}

# For AugMix: operation, index of its magnitude, and whether the magnitude is negative. For these, torchvision's results equal
# Pillow's bit for bit.
EXACT = [
    ((23, 17), (0.375, [0.25, 0.5, 0.25]), [[("Posterize", 2, 0), ("Solarize", 1, 0)], [("TranslateX", 2, 1)],
                                            [("Solarize", 2, 0), ("TranslateY", 1, 0), ("Posterize", 0, 0)]]),
    ((32, 32), (0.1, [0.7, 0.3]), [[("Equalize", 0, 0)], [("TranslateX", 1, 0), ("Equalize", 0, 0), ("Posterize", 1, 0)]]),
    ((64, 9), (0.61, [0.2, 0.15, 0.65]), [[("Solarize", 2, 0)], [("TranslateX", 2, 0)], [("Posterize", 2, 0)]]),
]
# For these, the two round differently.
NEAR = [
    ((23, 17), (0.2, [0.3, 0.7]), [[("Brightness", 2, 0)], [("Contrast", 2, 1)]]),
    ((32, 32), (0.05, [0.4, 0.6]), [[("Color", 2, 1)], [("Sharpness", 2, 0)]]),
    ((64, 9), (0.4, [1.0]), [[("AutoContrast", 0, 0)]]),
]


def image(width, height):
    x, y = numpy.arange(width)[None, :], numpy.arange(height)[:, None]
    pixels = numpy.stack(numpy.broadcast_arrays(x * 7 + y * 13, x * x + 3 * y, (255 - (x * 5) % 199 + y * y * 2) % 251), -1)
    pixels = pixels.astype(numpy.uint8)
    pixels[height // 3:height // 2, width // 4:width // 2] //= 3
    return Image.fromarray(pixels)


def applied(picture, operation, magnitude, interpolation):
    if operation == "Greyscale":
        return picture.convert("L").convert("RGB")
    if operation == "GaussianBlur":
        return picture.filter(ImageFilter.GaussianBlur(magnitude))
    return _apply_op(picture, operation, magnitude, interpolation=interpolation, fill=None)


def digest(picture):
    return hashlib.sha256(numpy.array(picture).tobytes()).hexdigest()[:16]


def operations_of(picture):
    steps = {"Identity": [(0, NEAREST)]}
    steps |= {name: [(at, way) for at in magnitudes for way in (NEAREST, BILINEAR)] for name, magnitudes in MOVES.items()}
    steps |= {name: [(at, NEAREST) for at in magnitudes] for name, magnitudes in OTHERS.items()}
    return {name: [[at, way[0], digest(applied(picture, name, at, way[1]))] for at, way in each]
            for name, each in steps.items()}


def lines_of(members):
    return ",\n".join(f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in members.items())


def write(folder, name, versions, **members):
    """Writes one line for each member, or for each of its own members if it is an object of lists."""
    lines = [lines_of({"case": {"name": name, "kind": name}, "versions": versions})]
    lines += [f"{json.dumps(key)}:{value}" for key, value in members.items()]
    (folder / f"{name}.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def listed(items):
    return "[" + ",\n".join(json.dumps(item, separators=(",", ":")) for item in items) + "]"


def mixture(size, shares, chains):
    """Lets torchvision's AugMix draw these shares, operations and magnitudes."""
    width, height = size
    of_image, of_chains = shares
    policy = AugMix(severity=3, mixture_width=len(chains), interpolation=InterpolationMode.NEAREST)
    space = policy._augmentation_space(10, (height, width))
    draws, steps = [], []
    for chain in chains:
        draws.append(len(chain))
        steps.append([])
        for operation, index, is_negative in chain:
            magnitudes, is_signed = space[operation]
            draws += [list(space).index(operation)] + [index] * (magnitudes.ndim > 0) + [is_negative] * is_signed
            magnitude = float(magnitudes[index]) if magnitudes.ndim > 0 else 0.0
            steps[-1].append([operation, -magnitude if is_signed and is_negative else magnitude])
    halves, widths = torch.tensor([[of_image, 1 - of_image]]), torch.tensor([of_chains])
    policy._sample_dirichlet = mock.Mock(side_effect=[halves, widths])
    with mock.patch.object(torch, "randint", side_effect=[torch.tensor([each]) for each in draws]):
        mixed = policy(image(width, height))
    shares_of_chains = (widths * halves[:, 1].view([1, -1]))[0].tolist()
    return {"size": f"{width}x{height}", "share_of_image": halves[0, 0].item(), "shares": shares_of_chains,
            "chains": steps, "pixels": numpy.array(mixed).tobytes().hex()}


def erasings():
    """Erases boxes of left, top, width and height: at corners, all but one line, and one pixel."""
    pixels = torch.linspace(-2, 2, 3 * 5 * 6).reshape(3, 5, 6)
    noise = torch.linspace(3, 4, 3 * 2 * 4).reshape(3, 2, 4)
    for left, top, width, height, fill in ((0, 0, 3, 2, None), (2, 1, 4, 4, None), (0, 0, 5, 4, None), (5, 4, 1, 1, None),
                                           (1, 3, 4, 2, noise)):
        values = torch.zeros(1, 1, 1) if fill is None else fill
        made = erase(pixels, top, left, height, width, values)
        yield {"box": [left, top, width, height], "fill": fill if fill is None else fill.tolist(), "image": made.tolist()}


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    sizes = ",\n".join(f'"{width}x{height}":{{{lines_of(operations_of(image(width, height)))}}}' for width, height in SIZES)
    write(target, "image_operations", VERSIONS, sizes="{" + sizes + "}")
    write(target, "augmix", VERSIONS, exact=listed(mixture(*each) for each in EXACT),
          near=listed(mixture(*each) for each in NEAR))
    write(target, "erasing", VERSIONS, erasings=listed(erasings()))
