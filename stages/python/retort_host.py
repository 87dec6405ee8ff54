"""Serves a worker of Retort in this Python: loads its library, and makes and runs networks for it.

retort starts it: retort_host.py --library libretort_worker.so --events-fd 3
"""

import ctypes
import hashlib
import importlib
import json
import os
import sys
import traceback

NO_PYTHON_FOR_IT = 69


def stop(message):
    print(f"retort_host: error: {message}", file=sys.stderr, flush=True)
    os._exit(NO_PYTHON_FOR_IT)


def options():
    words = sys.argv[1:]
    return dict(zip(words[::2], words[1::2]))


class Entries:
    """What recipes name: "timm:create_model", or "my_net.py:make" relative to the working folder."""

    def __init__(self):
        self.files = {}  # real path -> the hash that was allowed
        self.modules = {}

    def find(self, entry):
        place, _, names = entry.rpartition(":")
        found = self.file(place) if place.endswith(".py") else importlib.import_module(place)
        for name in names.split("."):
            found = getattr(found, name)
        return found

    def file(self, place):
        path = os.path.realpath(place)
        if path not in self.modules:
            with open(path, "rb") as file:
                text = file.read()
            allowed = self.files.get(path)
            if allowed is not None and hashlib.sha256(text).hexdigest() != allowed:
                raise RuntimeError(f"{place} has changed since the run began")
            module = type(sys)(os.path.splitext(os.path.basename(path))[0])
            module.__file__ = path
            sys.path.insert(0, os.path.dirname(path))
            sys.modules.setdefault(module.__name__, module)
            exec(compile(text, path, "exec"), module.__dict__)
            self.modules[path] = module
        return self.modules[path]


class Networks:
    """The networks that the worker has asked for, by its numbers."""

    def __init__(self, torch, entries):
        self.torch, self.entries, self.made = torch, entries, {}
        self.operators = torch.ops.retort

    def build(self, request):
        torch = self.torch
        make = self.entries.find(request["entry"])
        torch.manual_seed(request["seed"] & 0x7FFFFFFFFFFFFFFF)
        with torch.device(request["device"]):
            network = make(**request["arguments"])
        if not isinstance(network, torch.nn.Module):
            raise TypeError(f"{request['entry']} returned {type(network).__name__}, not a torch.nn.Module")
        number = request["network"]
        self.made[number] = network
        dropouts = self.replace_dropouts(network, number)
        parameters, buffers = dict(network.named_parameters()), dict(network.named_buffers())
        for name, tensor in parameters.items():
            self.operators.take("parameter:" + name, tensor)
        for name, tensor in buffers.items():
            self.operators.take("buffer:" + name, tensor)
        norms = torch.nn.modules.batchnorm._BatchNorm
        return {
            "modules": [path for path, _ in network.named_modules() if path],
            "parameters": list(parameters),
            "buffers": list(buffers),
            "dropouts": dropouts,
            "mixes_samples": any(isinstance(module, norms) for module in network.modules()),
        }

    def replace_dropouts(self, network, number):
        """Dropout and DropPath by the worker's own, whose masks a seed, a step and a sample determine."""
        torch = self.torch
        found = []
        for path, module in network.named_modules():
            kind = type(module)
            if kind is torch.nn.Dropout:
                probability, of_samples = module.p, False
            elif kind.__name__ == "DropPath" and hasattr(module, "drop_prob"):
                probability, of_samples = module.drop_prob or 0.0, True
            elif kind.__name__ == "StochasticDepth" and getattr(module, "mode", "") == "row":
                probability, of_samples = module.p, True
            else:
                continue
            module.forward = self.dropped(number, path)
            found.append({"path": path, "probability": float(probability), "of_samples": of_samples})
        return found

    def dropped(self, number, path):
        def forward(x):
            return self.operators.dropout(x, number, path)

        return forward

    def train(self, request):
        self.made[request["network"]].train(request["on"])
        return {}

    def forward(self, request):
        torch = self.torch
        outputs = self.made[request["network"]](self.operators.give("input"))
        if isinstance(outputs, torch.Tensor):
            outputs = {"logits": outputs}
        elif hasattr(outputs, "logits"):  # what transformers' networks return
            outputs = {"logits": outputs.logits}
        if not isinstance(outputs, dict) or not all(isinstance(one, torch.Tensor) for one in outputs.values()):
            raise TypeError(
                f"the network returned {type(outputs).__name__}; it must return logits, or a mapping of named tensors"
            )
        for name, tensor in outputs.items():
            self.operators.take("output:" + name, tensor)
        return {"outputs": list(outputs)}

    def release(self, request):
        self.made.pop(request["network"], None)
        return {}


def last_line(error):
    """"TypeError: …", and where in the user's code it was raised."""
    said = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    return f"{said} ({frames[-1].filename}:{frames[-1].lineno})" if frames else said


def main():
    chosen = options()
    try:
        import torch
    except ImportError as error:
        stop(f"{sys.executable} has no torch ({error}): install it there, pip install torch==2.11.*, or set python: "
             "to an interpreter that has it")
    try:
        library = ctypes.CDLL(chosen["--library"])
    except OSError as error:
        stop(f"torch {torch.__version__} of {sys.executable} does not suit this worker ({error}): install torch==2.11.*")
    library.retort_worker_torch.restype = ctypes.c_char_p
    built = library.retort_worker_torch().decode()
    if torch.__version__.split("+")[0] != built:
        stop(f"{sys.executable} has torch {torch.__version__}, and this worker needs {built}: pip install torch=={built}")

    entries = Entries()
    networks = Networks(torch, entries)

    def allow(request):
        entries.files.update(request["files"])
        return {}

    actions = {"build": networks.build, "train": networks.train, "forward": networks.forward,
               "release": networks.release, "allow": allow}
    sys.path.insert(0, "")  # the working folder, which the worker enters later

    def answer(text):
        try:
            request = json.loads(text)
            reply, failed = actions[request["do"]](request), 0
        except BaseException as error:  # SystemExit and KeyboardInterrupt of the user's code too
            traceback.print_exc()
            sys.stderr.flush()
            reply, failed = {"error": last_line(error)}, 1
        library.retort_worker_reply(json.dumps(reply).encode())
        return failed

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(answer)
    exit_code = library.retort_worker_serve(int(chosen["--events-fd"]), callback)
    sys.stdout.flush()
    sys.stderr.flush()
    # Without Python's own clearing up: tensors of the network came from the worker's allocator.
    os._exit(exit_code)


if __name__ == "__main__":
    main()
