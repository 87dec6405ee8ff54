"""The peer of fundus_bench: the same steps on the same images, with OpenCV and NumPy in Python, on one thread."""

import json
import sys
import time
from pathlib import Path

import cv2
import numpy

from blocks import blocks, report


def clahe(image):
    lab = cv2.cvtColor(image, cv2.COLOR_RGB2Lab)
    lab[:, :, 0] = cv2.createCLAHE(3.0, (8, 8)).apply(numpy.ascontiguousarray(lab[:, :, 0]))
    return cv2.cvtColor(lab, cv2.COLOR_Lab2RGB)


def flatten_and_sharpen(image, kernel_size=30, brightness=20, contrast=2.0, sharpen=1.5):
    gray, area = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), kernel_size * kernel_size
    mean = (2 * cv2.boxFilter(gray, cv2.CV_32S, (kernel_size, kernel_size), normalize=False) + area) // (2 * area)
    flat = numpy.clip(image - mean[:, :, None] + 128, 0, 255).astype(numpy.uint8)
    values = numpy.arange(256, dtype=numpy.float64)
    brighter = numpy.clip(values + brightness, 0, 255).astype(numpy.uint8)
    stretched = cv2.LUT(flat, numpy.clip(128 + contrast * (brighter - 128.0), 0, 255).astype(numpy.uint8))
    s = sharpen
    return cv2.filter2D(stretched, -1, numpy.array([[0, -s, 0], [-s, 1 + 4 * s, -s], [0, -s, 0]], numpy.float32))


def main():
    options = json.loads(sys.argv[1])
    cv2.setNumThreads(0)
    size = options["size"]
    paths = [Path(options["folder"]) / f"{i}.rgb" for i in range(options["images"])]
    images = [numpy.fromfile(path, numpy.uint8).reshape(size, size, 3) for path in paths]
    ways = {"CLAHE": clahe, "flatten and sharpen": flatten_and_sharpen}
    report({"sums": {name: sum(int(way(image).sum(dtype=numpy.int64)) for image in images) for name, way in ways.items()}})
    for _ in blocks():
        seconds = {}
        for name, way in ways.items():
            began = time.perf_counter()
            for image in images:
                way(image)
            seconds[name] = time.perf_counter() - began
        report({"seconds": seconds})


main()
