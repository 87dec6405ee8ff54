#!/usr/bin/env python3
"""Writes tests/recorded/picture_changes.json: images after the changes of data augmentation, computed with Pillow.

    python3 -m venv env && env/bin/pip install pillow==13.0.0 numpy==2.4.6
    env/bin/python tests/golden/picture_changes.py >tests/recorded/picture_changes.json

Each change is what torchvision does to a Pillow image with these parameters: hflip and vflip; ColorJitter's
adjust_brightness, adjust_contrast, adjust_saturation and adjust_hue in the given order; rotate; and an affine transform
without rotation, which moves, shears and scales. torchvision itself is not used: it leaves all of these to Pillow, except
the addition to the hue and the affine matrix, which are implemented below. "many_colors" is an image of 1024 x 1024 whose
pixel i has the color c = 16 i + i / 65536, with red c % 256, green c / 256 % 256 and blue c / 65536; its SHA-256 is
recorded.
"""

import hashlib
import json
import math
import random

import numpy
import PIL
from PIL import Image, ImageEnhance

ADJUSTMENTS = ["brightness", "contrast", "saturation", "hue"]
NONE = {"mirrored": False, "upside_down": False, "order": ADJUSTMENTS, "brightness": 1, "contrast": 1, "saturation": 1,
        "hue": None, "rotation": 0, "right": 0, "down": 0, "shear": 0, "scale": 1}


def turn_hue(image, turns):
    hue, saturation, value = image.convert("HSV").split()
    turned = numpy.array(hue) + numpy.int32(turns * 255).astype(numpy.uint8)  # wraps around
    return Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")


def adjust(image, what, change):
    if what == "hue":
        return image if change["hue"] is None else turn_hue(image, change["hue"])
    enhancer = {"brightness": ImageEnhance.Brightness, "contrast": ImageEnhance.Contrast, "saturation": ImageEnhance.Color}
    return enhancer[what](image).enhance(change[what])


def move(image, right, down, shear, scale):
    width, height = image.size
    x, y, slope = width * 0.5, height * 0.5, math.tan(math.radians(shear))
    matrix = [1 / scale, slope / scale, 0, 0, 1 / scale, 0]
    matrix[2] = matrix[0] * (-x - right) + matrix[1] * (-y - down) + x
    matrix[5] = matrix[4] * (-y - down) + y
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=(0, 0, 0))


def changed(image, change):
    if change["mirrored"]:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    if change["upside_down"]:
        image = image.transpose(Image.Transpose.FLIP_TOP_BOTTOM)
    for what in change["order"]:
        image = adjust(image, what, change)
    image = image.rotate(change["rotation"], Image.Resampling.NEAREST, fillcolor=(0, 0, 0))
    right, down = round(change["right"] * image.size[0]), round(change["down"] * image.size[1])
    return move(image, right, down, change["shear"], change["scale"])


def hexadecimal(image):
    return numpy.array(image).tobytes().hex()


def main():
    colors = numpy.arange(1 << 20, dtype=numpy.uint32)
    colors = 16 * colors + colors // 65536
    channels = numpy.stack([colors & 255, colors >> 8 & 255, colors >> 16], -1)
    pictures = {"many_colors": Image.fromarray(channels.astype(numpy.uint8).reshape(1024, 1024, 3))}
    grain = numpy.random.RandomState(5)
    for width, height in [(23, 17), (16, 31), (1, 9)]:
        name = f"{width}x{height}"
        pictures[name] = Image.fromarray(grain.randint(0, 256, (height, width, 3)).astype(numpy.uint8))

    changes = [("many_colors", NONE | one) for one in
               [{"brightness": 1.3}, {"contrast": 0.75}, {"saturation": 0.4}, {"saturation": 1.9}, {"hue": 0.0},
                {"hue": 0.1}, {"hue": -0.37}]]
    changes += [("23x17", NONE | one) for one in
                [{"mirrored": True}, {"upside_down": True}, {"rotation": 30.5}, {"rotation": -171}, {"right": 0.2, "down": -0.1},
                 {"right": 0.5 / 23}, {"right": 1.5 / 23}, {"shear": 25}, {"shear": -80}, {"scale": 0.6}, {"scale": 1.7}]]
    draw = random.Random(9)
    for picture in ["23x17", "16x31", "1x9"] * 3:
        changes.append((picture, {
            "mirrored": draw.random() < 0.5, "upside_down": draw.random() < 0.5,
            "order": draw.sample(ADJUSTMENTS, 4), "brightness": draw.uniform(0.5, 1.5), "contrast": draw.uniform(0.5, 1.5),
            "saturation": draw.uniform(0, 2), "hue": draw.uniform(-0.5, 0.5), "rotation": draw.uniform(-20, 20),
            "right": draw.uniform(-0.2, 0.2), "down": draw.uniform(-0.2, 0.2), "shear": draw.uniform(-15, 15),
            "scale": draw.uniform(0.7, 1.3)}))

    results = []
    for picture, change in changes:
        result = changed(pictures[picture], change)
        pixels = {"sha256": hashlib.sha256(numpy.array(result).tobytes()).hexdigest()} if picture == "many_colors" else {
            "pixels": hexadecimal(result)}
        results.append({"picture": picture} | change | pixels)
    print("{" + f'"case": {{"name": "picture_changes", "kind": "picture_changes"}},')
    print(f'"versions": {json.dumps({"Pillow": PIL.__version__, "numpy": numpy.__version__})},')
    small = [{"name": name, "width": image.size[0], "height": image.size[1], "pixels": hexadecimal(image)}
             for name, image in pictures.items() if name != "many_colors"]
    for key, rows in [("pictures", small), ("changes", results)]:
        print(f'"{key}": [\n' + ",\n".join(json.dumps(row) for row in rows) + "\n]" + ("," if key == "pictures" else "}"))


main()
