"""Makes networks for the worker, and runs them."""


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
