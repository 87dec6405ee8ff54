"""Creates training steps in Python and runs them: what a network computes from a batch, its loss and its scores."""

import collections.abc

from retort_host.draws import no_draws
from retort_host.refusal import Refusal

DRY_ADVICE = (
    "a plan runs it on tensors with shapes but without values: create new tensors on the device of its inputs, and use "
    "torch.where instead of branches on values and indexing by masks"
)


class Steps:
    """The steps that the worker has requested, keyed by the numbers that it uses for them."""

    def __init__(self, torch, entries, networks):
        self.torch, self.entries, self.networks, self.made = torch, entries, networks, {}
        self.operators = torch.ops.retort

    def make(self, request):
        entry = request["entry"]
        role = "; it must create an object with a loss(encoded, batch) method"
        step = self.entries.taking(entry, request["arguments"], role=role)(**request["arguments"])
        if not callable(getattr(step, "loss", None)):
            raise Refusal(
                f"{entry} created a {type(step).__name__}, which has no loss method",
                "define loss(self, encoded, batch); encode(self, network, batch) and score(self, encoded, batch) are "
                "optional",
            )
        self.refuse_parameters(entry, step)
        self.made[request["step"]] = (entry, step)
        return {name + "s": callable(getattr(step, name, None)) for name in ("encode", "score")}

    def refuse_parameters(self, entry, step):
        torch = self.torch
        for name, value in getattr(step, "__dict__", {}).items():
            modules = value.values() if isinstance(value, dict) else [value]
            for one in modules:
                parameters = one.parameters() if isinstance(one, torch.nn.Module) else [one]
                if any(isinstance(tensor, torch.nn.Parameter) and tensor.requires_grad for tensor in parameters):
                    raise Refusal(
                        f"{entry} has weights in '{name}', which no optimizer would train",
                        "put them into the network, where they are trained, saved and averaged",
                    )

    def release(self, request):
        self.made.pop(request["step"], None)
        return {}

    def encode(self, request):
        network = self.networks.opened(request["network"], request["active"]) if request["network"] else self.built_in
        weights = list(network.parameters()) if request["network"] else []
        versions = [weight._version for weight in weights]
        encoded = self.run(request, "encode", network, self.given("batch:", request["batch"]))
        if [weight._version for weight in weights] != versions:
            raise Refusal(f"encode() of {self.made[request['step']][0]} changes the network's parameters",
                          "only the optimizer may change them")
        if isinstance(encoded, self.torch.Tensor):
            encoded = {"logits": encoded}
        return {"encoded": self.take(request, "encode", "encoded:", encoded)}

    def loss(self, request):
        encoded, batch = self.given("encoded:", request["encoded"]), self.given("batch:", request["batch"])
        self.take(request, "loss", "", {"loss": self.run(request, "loss", encoded, batch)})
        return {}

    def score(self, request):
        encoded, batch = self.given("encoded:", request["encoded"]), self.given("batch:", request["batch"])
        return {"scores": self.take(request, "score", "score:", self.run(request, "score", encoded, batch))}

    def run(self, request, method, *arguments):
        entry, step = self.made[request["step"]]
        device = self.torch.device(request["device"])
        try:
            with no_draws(self.torch, device, f"{method}() of {entry}", request.get("draws", False)):
                return getattr(step, method)(*arguments)
        except Exception as error:
            if isinstance(error, KeyError):
                error.retort_advice = "; ".join(f"{name} has {', '.join(map(repr, mapping))}"
                                                for name, mapping in zip(("encoded", "batch")[-len(arguments):], arguments)
                                                if isinstance(mapping, dict))
            if device.type == "meta" and "meta" in str(error).lower() and not isinstance(error, Refusal):
                error.retort_advice = DRY_ADVICE
            raise

    def given(self, prefix, names):
        return {name: self.operators.give(prefix + name) for name in names}

    def take(self, request, method, prefix, tensors):
        who = f"{method}() of {self.made[request['step']][0]}"
        if not isinstance(tensors, collections.abc.Mapping):
            raise Refusal(f"{who} returned {article(tensors)}, not a mapping of names to tensors", "return a dict")
        for name, tensor in tensors.items():
            what = "" if prefix == "" else f"{name!r}: "
            if not isinstance(name, str) or not isinstance(tensor, self.torch.Tensor):
                raise Refusal(f"{who} returned {what}{article(tensor)}, not a tensor", "return torch tensors")
            self.operators.take(prefix + name, tensor)
        return list(tensors)

    def built_in(self, inputs=None, **named):
        """Runs a network built into Retort on named tensors: network(batch) or network(image=...)."""
        inputs = {**(inputs or {}), **named}
        names, outputs = self.operators.run_network(list(inputs), list(inputs.values()))
        return dict(zip(names, outputs))


def article(value):
    kind = type(value).__name__
    return "nothing" if value is None else f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
