#!/usr/bin/env python3
"""Records results of bitsandbytes: its dynamic maps, block-wise quantization, and optimizers with 8-bit state.

    python tests/golden/quantized_state.py tests/recorded

Needs torch and bitsandbytes, on a CPU with AVX2. Writes the files that it lists, and no others. bitsandbytes runs without its
compiled CPU library, which looks codes up in a table of 65,536 entries and so does not always find the nearest one.
"""

import base64
import ctypes
import json
import sys

import torch

STEPS, SIZE, SAMPLED = 20, 4100, 41


def without_library(*_, **__):
    raise OSError("not used")


ctypes.cdll.LoadLibrary = without_library
import bitsandbytes  # noqa: E402
import bitsandbytes.functional as functional  # noqa: E402

VERSIONS = {"torch": torch.__version__, "bitsandbytes": bitsandbytes.__version__}


def text(codes):
    return base64.b64encode(bytes(codes.flatten().tolist())).decode()


def gradient(step):
    """Numbers of various magnitudes that are exact in float32; none is zero."""
    i = torch.arange(SIZE)
    return (2 * ((i * 37 + step * 101) % 257) - 257).float() / 256 * torch.pow(2.0, -((i * 7) % 3).float())


def quantization_case(signed):
    code = functional.create_dynamic_map(signed=signed)
    generator = torch.Generator().manual_seed(3)
    numbers = torch.randn(600, generator=generator) * torch.pow(10.0, torch.linspace(-5, 2, 600))
    numbers = numbers if signed else numbers.square()
    codes, absmax = torch.ops.bitsandbytes.quantize_blockwise(numbers, code, 256)
    back = torch.ops.bitsandbytes.dequantize_blockwise(codes, absmax, code, 256, torch.float32)
    name = "quantization_signed" if signed else "quantization_unsigned"
    return name, {
        "case": {"name": name, "kind": "quantization", "signed": signed}, "versions": VERSIONS, "map": code.tolist(),
        "numbers": numbers.tolist(), "codes": text(codes), "absmax": absmax.tolist(), "back": back.tolist()}


def path(kind, kwargs, bits):
    x = torch.nn.Parameter(((torch.arange(SIZE) % 101) - 50).float() / 64)
    optimizer = kind([x], optim_bits=bits, **kwargs)
    for step in range(STEPS):
        x.grad = gradient(step)
        optimizer.step()
    return x.detach(), optimizer.state[x]


def optimizer_case(name, kind, kwargs):
    x, state = path(kind, kwargs, 8)
    exact, _ = path(kind, kwargs, 32)
    result = {
        "case": {"name": name, "kind": "quantized_optimizer", "optimizer": kind.__name__, "kwargs": kwargs, "steps": STEPS, "size": SIZE,
                 "every": SAMPLED},
        "versions": VERSIONS, "x": x[::SAMPLED].double().tolist(),
        # The distance that 8 bits move the path.
        "rounding": (x - exact).abs().max().item()}
    for number in ("1", "2"):
        if state.get("state" + number) is not None:
            result["state" + number] = text(state["state" + number])
            result["absmax" + number] = state["absmax" + number].tolist()
    return name, result


def cases():
    optimizers = bitsandbytes.optim
    yield quantization_case(True)
    yield quantization_case(False)
    yield optimizer_case("optimizer_8bit_adamw", optimizers.AdamW, {"lr": 0.01, "betas": [0.9, 0.999], "weight_decay": 0.1})
    yield optimizer_case("optimizer_8bit_adam", optimizers.Adam, {"lr": 0.02, "betas": [0.8, 0.99], "eps": 1e-6})
    yield optimizer_case("optimizer_8bit_sgd", optimizers.SGD, {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1})
    yield optimizer_case("optimizer_8bit_lion", optimizers.Lion, {"lr": 0.001, "betas": [0.9, 0.99], "weight_decay": 0.1})


def main():
    for name, result in cases():
        with open(f"{sys.argv[1]}/{name}.json", "w", encoding="utf-8") as out:
            lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items()]
            out.write("{" + ",\n ".join(lines) + "}\n")


if __name__ == "__main__":
    main()
