#!/usr/bin/env python3
"""Records results of torch, timm and transformers: optimizers, clipped gradients, learning rates.

    ~/.cache/retort/bench-python-2.11.0/bin/python tests/golden/train_numbers.py tests/recorded

Needs torch 2.11, timm and transformers. Writes the files that it lists, and no others.
"""

import json
import math
import sys

import timm.optim
import timm.scheduler
import timm.utils
import torch
import transformers

VERSIONS = {"torch": torch.__version__, "timm": timm.__version__, "transformers": transformers.__version__}


def rounded(tensor):
    return tensor.detach().double().tolist()


def exact_power(gradient, coefficients, steps, epsilon):
    """The iteration of torch.optim.Muon without rounding to bfloat16."""
    a, b, c = coefficients
    matrix = gradient.double()
    tall = matrix.size(0) > matrix.size(1)
    matrix = matrix.T if tall else matrix
    matrix = matrix / matrix.norm().clamp(min=epsilon)
    for _ in range(steps):
        gram = matrix @ matrix.T
        matrix = a * matrix + (b * gram + c * gram @ gram) @ matrix
    return matrix.T if tall else matrix


def path(make, start, curvature, target, steps, dtype):
    x = start.to(dtype).clone().requires_grad_()
    c, t = curvature.to(dtype), target.to(dtype)
    optimizer = make([x])
    points = []
    for _ in range(steps):
        optimizer.zero_grad()
        (0.5 * c * (x - t).square() + 0.1 * (x - t).pow(3)).sum().backward()
        optimizer.step()
        points.append(rounded(x))
    return points


def optimizer_case(name, kind, kwargs, shape, steps=20, seed=7, **more):
    generator = torch.Generator().manual_seed(seed)
    start = torch.randn(shape, generator=generator)
    curvature = 1 + 3 * torch.rand(shape, generator=generator)
    target = torch.randn(shape, generator=generator)
    make = lambda parameters: kind(parameters, **kwargs)  # noqa: E731
    case = {"name": name, "kind": "optimizer", "optimizer": kind.__name__, "kwargs": kwargs | more, "steps": steps, "seed": seed}
    result = {"case": case, "versions": VERSIONS, "start": rounded(start), "curvature": rounded(curvature), "target": rounded(target)}
    for key, dtype in (("f64", torch.float64), ("f32", torch.float32)):
        result[key] = {"x": path(make, start, curvature, target, steps, dtype)}
    if kind is torch.optim.Muon:
        module = sys.modules["torch.optim._muon"]
        own = module._zeropower_via_newtonschulz
        module._zeropower_via_newtonschulz = exact_power
        exact = path(make, start, curvature, target, steps, torch.float64)
        module._zeropower_via_newtonschulz = own
        # The distance that all rounding to bfloat16 moves the path.
        result["rounding"] = (torch.tensor(exact) - torch.tensor(result["f64"]["x"])).abs().max().item()
    return name, result


def clip_case(name, mode, kwargs, seed=11):
    generator = torch.Generator().manual_seed(seed)
    result = {"case": {"name": name, "kind": "clip", "mode": mode, "kwargs": kwargs}, "versions": VERSIONS, "parameters": []}
    for shape in ((4, 5), (3, 2, 3, 3), (7,), (3, 4)):
        weight = 0.3 * torch.randn(shape, generator=generator).double()
        if shape == (3, 4):
            weight[1] = 0  # a unit whose norm is still zero
        gradient = 0.02 * torch.randn(shape, generator=generator).double()
        one = {"weight": rounded(weight), "gradient": rounded(gradient)}
        for key, dtype in (("f64", torch.float64), ("f32", torch.float32)):
            parameter = torch.nn.Parameter(weight.to(dtype))
            parameter.grad = gradient.to(dtype)
            if mode == "value":
                torch.nn.utils.clip_grad_value_([parameter], **kwargs)
            else:
                timm.utils.adaptive_clip_grad([parameter], **kwargs)
            one[key] = rounded(parameter.grad)
        result["parameters"].append(one)
    return name, result


def rates_of(scheduler, optimizer, advance, steps):
    rates = []
    for step in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        advance(scheduler, step + 1)
    return rates


def schedule_case(name, function, kwargs, lr=0.0005, steps=60):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
    if function == "timm.CosineLRScheduler":
        scheduler = timm.scheduler.CosineLRScheduler(optimizer, **kwargs)
        advance = lambda s, step: s.step(step)  # noqa: E731
    else:
        scheduler = getattr(transformers, function.split(".")[1])(optimizer, **kwargs)

        def advance(s, _):
            optimizer.step()
            s.step()

    case = {"name": name, "kind": "schedule", "schedule": function, "kwargs": kwargs, "lr": lr, "steps": steps}
    return name, {"case": case, "versions": VERSIONS, "rates": rates_of(scheduler, optimizer, advance, steps)}


def cases():
    lion, lamb, adafactor, muon = timm.optim.Lion, timm.optim.Lamb, torch.optim.Adafactor, torch.optim.Muon
    yield optimizer_case("optimizer_lion", lion, {"lr": 0.03}, (6,))
    yield optimizer_case("optimizer_lion_wd", lion, {"lr": 0.02, "betas": [0.8, 0.95], "weight_decay": 0.3}, (3, 4))
    yield optimizer_case("optimizer_lamb", lamb, {"lr": 0.05, "weight_decay": 0.1, "max_grad_norm": None}, (3, 4))
    yield optimizer_case("optimizer_lamb_plain", lamb, {"lr": 0.05, "weight_decay": 0.0, "max_grad_norm": None}, (6,))
    yield optimizer_case(
        "optimizer_lamb_trust", lamb,
        {"lr": 0.05, "betas": [0.8, 0.99], "eps": 1e-4, "weight_decay": 0.0, "trust_clip": True, "always_adapt": True, "max_grad_norm": None}, (2, 3))
    yield optimizer_case("optimizer_adafactor", adafactor, {"lr": 0.1}, (4, 5))
    yield optimizer_case("optimizer_adafactor_vector", adafactor, {"lr": 0.2, "weight_decay": 0.1}, (6,))
    yield optimizer_case("optimizer_adafactor_kernel", adafactor, {"lr": 0.3, "beta2_decay": -0.5, "eps": [1e-3, 0.01], "d": 2.0}, (3, 2, 3, 2))
    yield optimizer_case("optimizer_muon", muon, {"lr": 0.1, "weight_decay": 0.2}, (4, 6), steps=10)
    yield optimizer_case(
        "optimizer_muon_tall", muon,
        {"lr": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 4}, (6, 3), steps=10)
    yield clip_case("clip_value", "value", {"clip_value": 0.015})
    yield clip_case("clip_adaptive", "adaptive", {"clip_factor": 0.06, "eps": 1e-3})
    constant, inverse = "transformers.get_constant_schedule_with_warmup", "transformers.get_inverse_sqrt_schedule"
    polynomial = "transformers.get_polynomial_decay_schedule_with_warmup"
    restarts = "transformers.get_cosine_with_hard_restarts_schedule_with_warmup"
    cosine, cycles = "transformers.get_cosine_schedule_with_warmup", "timm.CosineLRScheduler"
    yield schedule_case("schedule_hf_constant", constant, {"num_warmup_steps": 7})
    yield schedule_case("schedule_hf_inverse_sqrt", inverse, {"num_warmup_steps": 7})
    yield schedule_case("schedule_hf_inverse_sqrt_timescale", inverse, {"num_warmup_steps": 5, "timescale": 12})
    yield schedule_case("schedule_hf_inverse_sqrt_no_warmup", inverse, {"num_warmup_steps": 0})
    yield schedule_case("schedule_hf_polynomial", polynomial, {"num_warmup_steps": 6, "num_training_steps": 50, "lr_end": 1e-6, "power": 2.0})
    yield schedule_case("schedule_hf_restarts", restarts, {"num_warmup_steps": 6, "num_training_steps": 50, "num_cycles": 3})
    yield schedule_case("schedule_hf_cosine_cycles", cosine, {"num_warmup_steps": 6, "num_training_steps": 60, "num_cycles": 1.5})
    yield schedule_case("schedule_timm_cosine", cycles, {"t_initial": 50, "lr_min": 1e-6, "warmup_t": 5, "warmup_lr_init": 1e-5})
    yield schedule_case(
        "schedule_timm_cycles", cycles,
        {"t_initial": 6, "cycle_mul": 2.0, "cycle_decay": 0.5, "cycle_limit": 3, "lr_min": 1e-6, "warmup_t": 4, "warmup_prefix": True})
    yield schedule_case("schedule_timm_k_decay", cycles, {"t_initial": 11, "cycle_mul": 1.5, "cycle_limit": 9, "k_decay": 2.0})


def main():
    for name, result in cases():
        with open(f"{sys.argv[1]}/{name}.json", "w", encoding="utf-8") as out:
            lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in result.items()]
            out.write("{" + ",\n ".join(lines) + "}\n")
        assert all(map(math.isfinite, result.get("rates", [0])))


if __name__ == "__main__":
    main()
