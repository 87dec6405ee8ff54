"""The peer of optimizer_bench: the same parameters and gradients with torch.optim, fused or foreach."""

import json
import sys
import time

import torch

from blocks import blocks, report


def wave(size, phase, height):
    return (torch.arange(size, dtype=torch.float64) * 0.37 + phase).sin().mul(height).to(torch.float32)


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options["threads"])
    parameters = [torch.nn.Parameter(wave(size, i, 0.02)) for i, size in enumerate(options["sizes"])]
    gradients = [wave(size, i + 1, 0.001) for i, size in enumerate(options["sizes"])]
    for parameter in parameters:
        parameter.grad = torch.empty_like(parameter)
    form = {options["form"]: True}  # fused or foreach
    if options["rule"] == "sgd":
        optimizer = torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, weight_decay=0.01, **form)
    else:
        optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, **form)
    report({"ready": True})
    for block in blocks():
        seconds = []
        for _ in range(block):
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad.copy_(gradient)
            began = time.perf_counter()
            if options["clip"] is not None:
                torch.nn.utils.clip_grad_norm_(parameters, options["clip"], foreach=True)
            optimizer.step()
            seconds.append(time.perf_counter() - began)
        total = size = 0
        for parameter in parameters:
            exact = parameter.detach().double()
            total += exact.sum().item()
            size += exact.abs().sum().item()
        report({"seconds": seconds, "sum": total, "size": size})


main()
