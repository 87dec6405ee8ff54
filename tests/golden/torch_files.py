"""Writes torch_files/: files written by torch.save and torch.jit.save, next to each NAME.pth its tensors as NAME.safetensors,
and files that must be rejected. Made with torch 2.11.0 and safetensors 0.8: python torch_files.py
"""

import collections
import io
import os
import pickle
import zipfile
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent / "torch_files"


def numbers(*shape, dtype=torch.float32):
    count = torch.Size(shape).numel()
    return (torch.arange(count) / 8 - 1).reshape(shape).to(dtype)


def network():
    """A module whose state dict has _metadata, a counter, and parameters."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    for index, value in enumerate(module.state_dict().values()):
        value.copy_(numbers(*value.shape) + index if value.is_floating_point() else torch.tensor(index))
    return module


def residual_network():
    """The state dict of torchvision's ResNet-18, with its names, with stages of 2, 4, 8 and 16 channels."""
    state = collections.OrderedDict()

    def put(name, *shape):
        state[name + ".weight"] = torch.full(shape, float(len(state)))

    def norm(name, channels):
        put(name, channels)
        for part in ("bias", "running_mean", "running_var"):
            state[f"{name}.{part}"] = torch.full((channels,), float(len(state)))
        state[name + ".num_batches_tracked"] = torch.tensor(len(state))

    put("conv1", 2, 3, 7, 7)
    norm("bn1", 2)
    width = 2
    for stage in range(1, 5):
        inside = 2**stage
        for block in range(2):
            at = f"layer{stage}.{block}"
            put(at + ".conv1", inside, width, 3, 3)
            norm(at + ".bn1", inside)
            put(at + ".conv2", inside, inside, 3, 3)
            norm(at + ".bn2", inside)
            if width != inside:
                put(at + ".downsample.0", inside, width, 1, 1)
                norm(at + ".downsample.1", inside)
            width = inside
    put("fc", 3, width)
    state["fc.bias"] = torch.ones(3)
    return state


def save(name, value, tensors, **options):
    torch.save(value, HERE / f"{name}.pth", **options)
    expect(name, tensors)


def expect(name, tensors):
    save_file({key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()}, HERE / f"{name}.safetensors")


def views():
    base = numbers(3, 4)
    line = numbers(4)
    return {
        "base": base,
        "transposed": base.t(),
        "row": base[1],
        "steps": base[1:, ::2],
        "part": numbers(6)[2:4],
        "expanded": line[:2].expand(3, 2),
        "tied": base,
    }


TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64]
NEW_TYPES = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


def typed(dtypes):
    tensors = {str(dtype): torch.tensor([0, 1, 1, 0, 1]).to(dtype) for dtype in dtypes}
    return {**tensors, "scalar": torch.tensor(2.5), "empty": torch.empty(0, 7), "no.rows": torch.empty(3, 0)}


class Command:
    def __reduce__(self):
        return os.system, ("touch ran",)


def rewrite(name, source, change=lambda entry, data: data, method=zipfile.ZIP_STORED, extra=()):
    """Copies the entries of a zip archive; `change` returns the bytes of each, or None to leave it out."""
    with zipfile.ZipFile(HERE / source) as old, zipfile.ZipFile(HERE / name, "w", method) as new:
        for info in old.infolist():
            data = change(info.filename.split("/", 1)[1], old.read(info))
            if data is not None:
                new.writestr(zipfile.ZipInfo(info.filename), data, method)
        for entry, data in extra:
            new.writestr(zipfile.ZipInfo(entry), data, method)


def main():
    HERE.mkdir(exist_ok=True)
    os.chdir(HERE)
    module = network()
    state = module.state_dict()
    old = {"_use_new_zipfile_serialization": False}
    save("state", state, state)
    save("state_stream", state, state, **old)
    save("state_protocol_4", state, state, pickle_protocol=4)
    save("state_stream_protocol_5", state, state, pickle_protocol=5, **old)
    save("views", views(), views())
    save("views_stream", views(), views(), **old)
    save("types", typed(TYPES + NEW_TYPES), typed(TYPES + NEW_TYPES))
    save("types_stream", typed(TYPES), typed(TYPES), **old)
    parameters = {"weight": torch.nn.Parameter(numbers(2, 2)), "frozen": torch.nn.Parameter(numbers(2), requires_grad=False)}
    save("parameters", parameters, parameters)

    optimizer = torch.optim.Adam(module.parameters())
    module(numbers(2, 3)).sum().backward()
    optimizer.step()
    checkpoint = {"epoch": 3, "best": 0.5, "name": "net", "sizes": torch.Size([3, 2]), "dtype": torch.float16, "optimizer": optimizer.state_dict()}
    state = {key: tensor.clone() for key, tensor in module.state_dict().items()}
    save("checkpoint", {**checkpoint, "state_dict": module.state_dict()}, state)
    save("checkpoint_nested", {"model": {"state_dict": module.state_dict(), "epoch": 1}}, state)
    save("checkpoint_stream", {**checkpoint, "model_state_dict": module.state_dict()}, state, **old)
    parts = {"head": {"weight": numbers(2, 3)}, "layers": [numbers(1), numbers(2)], "classes": 2}
    save("parts", parts, {"head.weight": numbers(2, 3), "layers.0": numbers(1), "layers.1": numbers(2)})

    residual = residual_network()
    save("resnet_stream", residual, residual, **old)

    half = network().half()
    torch.jit.script(half).save(HERE / "script.pth")
    expect("script", half.state_dict())

    # Files that must be rejected.
    torch.save({"weight": numbers(2), "x": Command()}, HERE / "command.bad")
    torch.save({"weight": numbers(2), "x": Command()}, HERE / "command_stream.bad", **old)
    torch.save(network(), HERE / "module.bad")
    rewrite("compressed.bad", "state.pth", method=zipfile.ZIP_DEFLATED)
    rewrite("big_endian.bad", "state.pth", lambda entry, data: b"big" if entry == "byteorder" else data)
    rewrite("no_storage.bad", "state.pth", lambda entry, data: None if entry == "data/1" else data)
    rewrite("short_storage.bad", "state.pth", lambda entry, data: data[:-4] if entry == "data/1" else data)
    rewrite("two_pickles.bad", "state.pth", extra=[("other/data.pkl", b"\x80\x02}.")])
    rewrite("twice.bad", "state.pth", extra=[("state/data/0", bytes(24))])
    huge = (HERE / "state.pth").read_bytes()
    with zipfile.ZipFile(HERE / "state.pth") as archive:
        program = archive.read("state/data.pkl")
    # The first storage, of 6 numbers with the sizes (2, 3), claims to have 2^40 numbers and the sizes (2^20, 2^20).
    many = b"\x8a\x06" + (1 << 40).to_bytes(6, "little")
    claimed = program.replace(b"K\x06tq", many + b"tq", 1)
    assert claimed != program
    rewrite("huge.bad", "state.pth", lambda entry, data: claimed if entry == "data.pkl" else data)


main()
